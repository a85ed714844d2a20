/* Quantizes a matrix of activations to FP8 with one scale for each 128 elements of a row, reads it
 * back, and prints the largest error. */
#include <rowscale/rowscale.h>
#include <stdio.h>
#include <stdlib.h>

enum { kTokens = 4, kHidden = 300 }; /* the last group of a row is short */

// [quantize]
/* x: [kTokens, kHidden]. codes: one byte an element. *scales: one float a group; the caller frees
 * it. The message of a failure is in rs_last_error(). */
static rs_status quantize(const float* x, uint8_t* codes, float** scales) {
  const int64_t shape[2] = {kTokens, kHidden};
  rs_recipe recipe = RS_RECIPE_INIT;
  rs_tensor x_view = RS_TENSOR_INIT;
  rs_tensor codes_view = RS_TENSOR_INIT;
  rs_tensor scales_view = RS_TENSOR_INIT;
  rs_scale_spec spec = RS_SCALE_SPEC_INIT; /* what the recipe needs for this shape */
  rs_status status;

  if ((status = rs_recipe_per_group(&recipe, 128)) != RS_OK) return status;
  if ((status = rs_tensor_contiguous(&x_view, x, RS_F32, 2, shape)) != RS_OK) return status;
  if ((status = rs_tensor_contiguous(&codes_view, codes, RS_E4M3, 2, shape)) != RS_OK)
    return status;
  if ((status = rs_get_scale_spec(&codes_view, &recipe, &spec)) != RS_OK) return status;

  *scales = calloc((size_t)spec.allocation, sizeof **scales);
  if (*scales == NULL) return RS_INTERNAL;
  if ((status = rs_scale_spec_view(&spec, *scales, &scales_view)) != RS_OK) return status;
  return rs_quantize(&x_view, &recipe, &codes_view, &scales_view, NULL);
}
// [/quantize]

// [dequantize]
static rs_status dequantize(const uint8_t* codes, const float* scales, float* y) {
  const int64_t shape[2] = {kTokens, kHidden};
  rs_recipe recipe = RS_RECIPE_INIT;
  rs_tensor codes_view = RS_TENSOR_INIT;
  rs_tensor scales_view = RS_TENSOR_INIT;
  rs_tensor y_view = RS_TENSOR_INIT;
  rs_scale_spec spec = RS_SCALE_SPEC_INIT;
  rs_status status;

  if ((status = rs_recipe_per_group(&recipe, 128)) != RS_OK) return status;
  if ((status = rs_tensor_contiguous(&codes_view, codes, RS_E4M3, 2, shape)) != RS_OK)
    return status;
  if ((status = rs_tensor_contiguous(&y_view, y, RS_F32, 2, shape)) != RS_OK) return status;
  if ((status = rs_get_scale_spec(&codes_view, &recipe, &spec)) != RS_OK) return status;
  if ((status = rs_scale_spec_view(&spec, scales, &scales_view)) != RS_OK) return status;
  return rs_dequantize(&codes_view, &scales_view, &recipe, &y_view, NULL);
}
// [/dequantize]

static float difference(float a, float b) {
  return a > b ? a - b : b - a;
}

int main(void) {
  static float x[kTokens * kHidden];
  static float y[kTokens * kHidden];
  static uint8_t codes[kTokens * kHidden];
  float* scales = NULL;
  float largest = 0.0F;
  rs_status status;
  int i;

  for (i = 0; i < kTokens * kHidden; ++i) x[i] = (float)(i * 37 % 201 - 100) / 100.0F;

  status = quantize(x, codes, &scales);
  if (status == RS_OK) status = dequantize(codes, scales, y);
  free(scales);
  if (status != RS_OK) {
    fprintf(stderr, "%s: %s\n", rs_status_name(status), rs_last_error());
    return 1;
  }

  for (i = 0; i < kTokens * kHidden; ++i) {
    if (difference(x[i], y[i]) > largest) largest = difference(x[i], y[i]);
  }
  printf("%s\n", rs_version());
  printf("largest error of a value: %g\n", (double)largest);
  /* At most half a step of e4m3 near its largest value, 448: 16 / 448 of the largest |x|, which
   * is 1. */
  return largest < 0.036F ? 0 : 1;
}
