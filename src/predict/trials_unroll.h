/* trials_unroll.h: a loop of a constant number of turns, 16 at most, laid out one turn after the other:
 * sums that an index picks are in registers only then. (Checks of every address laid out too keep
 * clang busy for an hour: linalg/gemm_level.inc.) */
#ifndef RS_PREDICT_TRIALS_UNROLL_H
#define RS_PREDICT_TRIALS_UNROLL_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define UNROLLED
#endif
#endif
#if !defined(UNROLLED) && defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#elif !defined(UNROLLED)
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#endif
