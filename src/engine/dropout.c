/* dropout.c: which numbers are dropped: Philox4x32-10, keyed by place. */
#include "engine/dropout.h"
#include "engine/dropout_words.h"

#include "base/cpu.h"

#include <math.h>
#include <string.h>

void rs_drop_philox_plain(uint32_t *words, uint32_t first, const uint32_t rest[3],
                          const uint32_t key[2], int groups)
{
    for (int i = 0; i < RS_DROP_LANES * groups; i++) {
        uint32_t a = first + (uint32_t)i, b = rest[0], c = rest[1], d = rest[2];
        uint32_t k0 = key[0], k1 = key[1];
        for (int r = 0; r < RS_PHILOX_ROUNDS; r++, k0 += RS_PHILOX_STEP_0, k1 += RS_PHILOX_STEP_1) {
            uint64_t p0 = (uint64_t)a * RS_PHILOX_FACTOR_0, p1 = (uint64_t)c * RS_PHILOX_FACTOR_1;
            a = (uint32_t)(p1 >> 32) ^ b ^ k0;
            c = (uint32_t)(p0 >> 32) ^ d ^ k1;
            b = (uint32_t)p1;
            d = (uint32_t)p0;
        }
        words[4 * i] = a, words[4 * i + 1] = b, words[4 * i + 2] = c, words[4 * i + 3] = d;
    }
}

static rs_drop_philox *philox(void)
{
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX2 || level == RS_CPU_AVX512) return rs_drop_philox_avx2;
#endif
    return rs_drop_philox_plain;
}

rs_status rs_drop_open(rs_drop *drop, const rs_dropout *wanted, rs_error *err)
{
    *drop = (rs_drop){0};
    if (!wanted || wanted->rate == 0) return RS_OK;
    if (!(wanted->rate > 0 && wanted->rate < 1))
        return rs_fail(err, RS_E_BAD_OPTION, "dropout", "give a number from 0 to below 1",
                       "a rate of %g", wanted->rate);
    uint32_t words[RS_DROP_GROUP];
    const uint32_t seed[] = {(uint32_t)wanted->seed, (uint32_t)(wanted->seed >> 32)};
    const uint32_t rest[] = {(uint32_t)(wanted->step >> 32), 0, 0};
    rs_drop_philox_plain(words, (uint32_t)wanted->step, rest, seed, 1);
    *drop = (rs_drop){.on = true,
                      .words = philox(),
                      .key = {words[0], words[1]},
                      .below = (uint32_t)floor(wanted->rate * 0x1p32),
                      .first_row = (uint32_t)wanted->first_row,
                      .keep = 1 / (1 - wanted->rate)};
    return RS_OK;
}

void rs_drop_words(uint32_t *words, const rs_drop *drop, const rs_drop_row *row, int64_t first,
                   int64_t n)
{
    enum { BLOCK = RS_DROP_GROUPS * RS_DROP_GROUP };
    const uint32_t rest[] = {drop->first_row + (uint32_t)row->row, (uint32_t)row->head,
                             (uint32_t)row->layer << 4 | (uint32_t)row->branch << 2 |
                                 (uint32_t)row->place};
    uint32_t block[BLOCK];
    for (int64_t at = first - first % 4, end = first + n; at < end; at += BLOCK) {
        int64_t from = at < first ? first : at, to = at + BLOCK < end ? at + BLOCK : end;
        bool whole = from == at && to == at + BLOCK;
        int groups = (int)((to - at + RS_DROP_GROUP - 1) / RS_DROP_GROUP);
        drop->words(whole ? words + (at - first) : block, (uint32_t)(at / 4), rest, drop->key,
                    groups);
        if (!whole)
            memcpy(words + (from - first), block + (from - at),
                   (size_t)(to - from) * sizeof *words);
    }
}
