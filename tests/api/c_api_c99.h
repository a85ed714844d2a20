/* The program of c_api_c99.c, called by c_api_test.cpp. */
#ifndef ROWSCALE_TESTS_API_C_API_C99_H_
#define ROWSCALE_TESTS_API_C_API_C99_H_

#ifdef __cplusplus
extern "C" {
#endif

/* Quantizes 2 x 8 floats per token, dequantizes and requantizes them, runs a fused operator.
 * Returns 0, or the line of the first thing that was wrong. */
int rowscale_c99_program(void);

#ifdef __cplusplus
}
#endif

#endif
