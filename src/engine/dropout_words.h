/* dropout_words.h: Philox's words, compiled once for any processor and once for AVX2: the same bits.
 * Private to src/engine/. */
#ifndef RS_ENGINE_DROPOUT_WORDS_H
#define RS_ENGINE_DROPOUT_WORDS_H

#include "base/philox.h"

#include <stdint.h>

/* Counters that are worked on side by side, and what they give. */
enum { RS_DROP_LANES = 4, RS_DROP_GROUP = 4 * RS_DROP_LANES, RS_DROP_GROUPS = 4 };

/* words [groups, RS_DROP_GROUP]: of the counters (first, rest), (first + 1, rest), ..., four each; groups
 * is RS_DROP_GROUPS at most. */
typedef void rs_drop_philox(uint32_t *words, uint32_t first, const uint32_t rest[3],
                            const uint32_t key[2], int groups);
rs_drop_philox rs_drop_philox_plain;
#if defined(__x86_64__)
rs_drop_philox rs_drop_philox_avx2; /* for processors that have it only */
#endif

#endif
