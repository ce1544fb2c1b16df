/*
 * draw.h: arrays of random numbers by position: element i of a stream under a seed is the same
 * whatever the number of threads and whichever part is asked for. Private to src/network/.
 *
 * Philox4x32-10 gives four 32-bit words a counter; element i uses word i % 4 of counter i / 4.
 * Normals are Box-Muller pairs of words, with a logarithm and a sine of our own (plain arithmetic
 * that compilers turn into vector code), so that a seed means the same weights on every machine.
 */
#ifndef RS_NETWORK_DRAW_H
#define RS_NETWORK_DRAW_H

#include <stdint.h>

/* A stream of random numbers. */
typedef struct rs_draw {
    uint64_t seed;
    uint32_t stream[2];
} rs_draw;

/* out[i] = offset + factor * z_i, z_i normal of variance 1, i < n. |z| < 6.77: 32-bit uniforms. */
void rs_draw_normal(float *out, const rs_draw *draw, int64_t n, double offset, double factor,
                    int threads);
void rs_draw_normal_f64(double *out, const rs_draw *draw, int64_t n, double offset, double factor,
                        int threads);
/* out[i] uniform in (low, high), i < n. */
void rs_draw_uniform(float *out, const rs_draw *draw, int64_t n, double low, double high,
                     int threads);

#endif
