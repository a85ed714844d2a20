/* A plain C99 program against rowscale.h: what a C user writes compiles and works. */
#include "tests/api/c_api_c99.h"

#include <math.h>
#include <string.h>

#include "rowscale/rowscale.h"

#define EXPECT(condition)              \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int rowscale_c99_program(void) {
  const float x[16] = {448.0f, 1.0f, -2.0f, 0.0f, 0.5f, 3.0f,  -448.0f, 16.0f,
                       0.0f,   0.0f, 0.0f,  0.0f, 0.0f, -7.0f, 0.0f,    0.0f};
  const int64_t shape[2] = {2, 8};
  uint8_t codes[16];
  float scales[2];
  float y[16];
  rs_tensor x_view = RS_TENSOR_INIT;
  rs_tensor codes_view = RS_TENSOR_INIT;
  rs_tensor scales_view = RS_TENSOR_INIT;
  rs_tensor y_view = RS_TENSOR_INIT;
  rs_recipe recipe = RS_RECIPE_INIT;
  rs_exec exec = RS_EXEC_INIT;
  rs_scale_spec spec = RS_SCALE_SPEC_INIT;
  int i;

  EXPECT(rs_tensor_contiguous(&x_view, x, RS_F32, 2, shape) == RS_OK);
  EXPECT(rs_tensor_contiguous(&codes_view, codes, RS_E4M3, 2, shape) == RS_OK);
  EXPECT(rs_tensor_contiguous(&y_view, y, RS_F32, 2, shape) == RS_OK);
  EXPECT(rs_recipe_per_token(&recipe) == RS_OK);
  EXPECT(rs_get_scale_spec(&codes_view, &recipe, &spec) == RS_OK);
  EXPECT(spec.dtype == RS_F32 && spec.rank == 2 && spec.storage == 2);
  EXPECT(rs_scale_spec_view(&spec, scales, &scales_view) == RS_OK);

  EXPECT(rs_quantize(&x_view, &recipe, &codes_view, &scales_view, &exec) == RS_OK);
  EXPECT(scales[0] == 1.0f && scales[1] == 7.0f / 448.0f);
  EXPECT(codes[0] == 0x7E && codes[1] == 0x38 && codes[6] == 0xFE && codes[13] == 0xFE);
  EXPECT(rs_dequantize(&codes_view, &scales_view, &recipe, &y_view, NULL) == RS_OK);
  for (i = 0; i < 16; ++i) EXPECT(y[i] == x[i]);

  /* A refusal says why, and an operator that is refused writes nothing. */
  memset(codes, 0xA5, sizeof codes);
  codes_view.dtype = RS_E5M2;
  EXPECT(rs_quantize(&x_view, &recipe, &codes_view, &scales_view, &exec) == RS_INVALID_ARGUMENT);
  EXPECT(strstr(rs_last_error(), "codes: expected e4m3, got e5m2") != NULL);
  for (i = 0; i < 16; ++i) EXPECT(codes[i] == 0xA5);
  codes_view.dtype = RS_E4M3;

  /* One row of the result of an activation: relu2 of {448, 1, -2, ...}. */
  EXPECT(rs_relu2_quantize(&x_view, &recipe, &codes_view, &scales_view, &y_view, NULL) == RS_OK);
  EXPECT(y[0] == 448.0f * 448.0f && y[2] == 0.0f && scales[0] == 448.0f && scales[1] > 0.0f);
  return 0;
}
