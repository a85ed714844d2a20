/* Closes the library's handle while its worker threads wait, then goes on: once a crash. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rowscale/rowscale.h"

int main(int argc, char** argv) {
  static float x[64 * 16384];
  static unsigned char codes[64 * 16384];
  static float scales[64];
  const int64_t shape[2] = {64, 16384};
  const int64_t scale_shape[2] = {64, 1};
  const struct timespec pause = {0, 50000000};
  rs_tensor x_view = RS_TENSOR_INIT, codes_view = RS_TENSOR_INIT, scales_view = RS_TENSOR_INIT;
  rs_recipe recipe = RS_RECIPE_INIT;
  rs_exec exec = RS_EXEC_INIT;
  void* library;
  rs_status (*contiguous)(rs_tensor*, const void*, int32_t, int32_t, const int64_t*);
  rs_status (*per_token)(rs_recipe*);
  rs_status (*quantize)(const rs_tensor*, const rs_recipe*, const rs_tensor*, const rs_tensor*,
                        const rs_exec*);

  if (argc != 2 || (library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) == NULL) return 2;
  *(void**)&contiguous = dlsym(library, "rs_tensor_contiguous");
  *(void**)&per_token = dlsym(library, "rs_recipe_per_token");
  *(void**)&quantize = dlsym(library, "rs_quantize");
  if (!contiguous || !per_token || !quantize) return 2;
  exec.threads = 4;
  if (contiguous(&x_view, x, RS_F32, 2, shape) != RS_OK ||
      contiguous(&codes_view, codes, RS_E4M3, 2, shape) != RS_OK ||
      contiguous(&scales_view, scales, RS_F32, 2, scale_shape) != RS_OK ||
      per_token(&recipe) != RS_OK ||
      quantize(&x_view, &recipe, &codes_view, &scales_view, &exec) != RS_OK) {
    return 3;
  }
  dlclose(library);
  nanosleep(&pause, NULL);
  puts("still here");
  return 0;
}
