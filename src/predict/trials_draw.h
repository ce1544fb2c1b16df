/*
 * trials_draw.h: the random numbers of Monte Carlo trials alone (docs/theory/mean_field.md has the
 * laws; what --init draws is network/draw.h and another law).
 *
 * Philox4x32 of 7 rounds (the fewest that pass BigCrush: Salmon et al., SC 2011) under key `seed`,
 * of counter (index, trial, role, layer): a number depends on these alone, so that networks of other
 * depths, scales or skips share their draws. Normals are Box-Muller pairs in float32: |z| < 6.67.
 * The loops are plain arithmetic in one order, compiled for each instruction set: the same bits.
 */
#ifndef RS_PREDICT_TRIALS_DRAW_H
#define RS_PREDICT_TRIALS_DRAW_H

#include <stdint.h>

typedef struct rs_trials_stream {
    uint64_t seed;
    uint32_t trial, role, layer;
} rs_trials_stream;

/* Counters, and numbers, that are worked on at a time. */
enum { RS_TRIALS_LANES = 64, RS_TRIALS_CHUNK = 4 * RS_TRIALS_LANES };

/* Numbers of chunk `chunk` of a stream: offset + factor z, z normal of variance 1 or uniform in
 * (0, 1). */
typedef void rs_trials_chunk(float out[RS_TRIALS_CHUNK], const rs_trials_stream *stream,
                             uint32_t chunk, float offset, float factor);
typedef struct rs_trials_draws {
    const char *level;
    rs_trials_chunk *normal, *uniform;
} rs_trials_draws;

/* All that this processor can run, ended by NULL; the last is what the functions below use. */
const rs_trials_draws *const *rs_trials_draw_tables(void);

enum { RS_TRIALS_DRAWS_MOST = INT32_MAX };
/* out [n], n at most RS_TRIALS_DRAWS_MOST. */
void rs_trials_normals(float *out, const rs_trials_stream *stream, int64_t n, double mean,
                       double deviation);
void rs_trials_uniforms(float *out, const rs_trials_stream *stream, int64_t n, double low,
                        double high);

extern const rs_trials_draws rs_trials_draws_plain;
#if defined(__x86_64__)
extern const rs_trials_draws rs_trials_draws_avx2, rs_trials_draws_avx512;
#endif

#endif
