/* dropout.c: Philox4x32-10 (Salmon et al. 2011), keyed by place, as vector code. */
#include "engine/dropout.h"

#include <math.h>
#include <string.h>

/* Counters that are worked on side by side. */
enum { LANES = 16, WORDS = 4, ROUNDS = 10 };

/* words: [LANES, WORDS] of counters (first + lane, rest). */
static void philox(uint32_t *words, uint32_t first, const uint32_t *rest, const uint32_t *key)
{
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES], k0 = key[0], k1 = key[1];
    for (uint32_t l = 0; l < LANES; l++)
        a[l] = first + l, b[l] = rest[0], c[l] = rest[1], d[l] = rest[2];
    for (int round = 0; round < ROUNDS; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int l = 0; l < LANES; l++) {
            uint64_t p = (uint64_t)a[l] * 0xD2511F53u, q = (uint64_t)c[l] * 0xCD9E8D57u;
            a[l] = (uint32_t)(q >> 32) ^ b[l] ^ k0;
            c[l] = (uint32_t)(p >> 32) ^ d[l] ^ k1;
            b[l] = (uint32_t)q;
            d[l] = (uint32_t)p;
        }
    for (int l = 0; l < LANES; l++) {
        words[WORDS * l] = a[l], words[WORDS * l + 1] = b[l];
        words[WORDS * l + 2] = c[l], words[WORDS * l + 3] = d[l];
    }
}

rs_status rs_drop_open(rs_drop *drop, const rs_dropout *wanted, rs_error *err)
{
    *drop = (rs_drop){0};
    if (!wanted || wanted->rate == 0) return RS_OK;
    if (!(wanted->rate > 0 && wanted->rate < 1))
        return rs_fail(err, RS_E_BAD_OPTION, "dropout", "give a number from 0 to below 1",
                       "a rate of %g", wanted->rate);
    uint32_t words[LANES * WORDS];
    const uint32_t seed[] = {(uint32_t)wanted->seed, (uint32_t)(wanted->seed >> 32)};
    const uint32_t rest[] = {(uint32_t)(wanted->step >> 32), 0, 0};
    philox(words, (uint32_t)wanted->step, rest, seed);
    *drop = (rs_drop){.on = true,
                      .key = {words[0], words[1]},
                      .below = (uint32_t)floor(wanted->rate * 0x1p32),
                      .first_row = (uint32_t)wanted->first_row,
                      .keep = 1 / (1 - wanted->rate)};
    return RS_OK;
}

void rs_drop_words(uint32_t *words, const rs_drop *drop, const rs_drop_row *row, int64_t first,
                   int64_t n)
{
    enum { BLOCK = LANES * WORDS };
    const uint32_t rest[] = {drop->first_row + (uint32_t)row->row, (uint32_t)row->head,
                             (uint32_t)row->layer << 4 | (uint32_t)row->branch << 2 |
                                 (uint32_t)row->place};
    uint32_t block[BLOCK];
    for (int64_t at = first - first % WORDS; at < first + n; at += BLOCK) {
        int64_t from = at < first ? first : at,
                to = at + BLOCK < first + n ? at + BLOCK : first + n;
        philox(block, (uint32_t)(at / WORDS), rest, drop->key);
        memcpy(words + (from - first), block + (from - at), (size_t)(to - from) * sizeof *words);
    }
}
