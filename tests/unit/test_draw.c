/*
 * test_draw.c: random numbers by position. Oracles: Random123's own Philox for the words, libm for
 * what is made of them, and for AVX2 the plain code, bit for bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "network/draw_chunk.h"

#include <Random123/philox.h>
#include <math.h>
#include <string.h>

static const rs_draw streams[] = {{0, {0, 0}},
                                  {1, {2, 3}},
                                  {0xFFFFFFFFFFFFFFFFu, {0xFFFFFFFFu, 7}},
                                  {0x123456789ABCDEFu, {9, 0x80000000u}}};
/* The third one carries from the counter's low word to its high one. */
static const uint64_t firsts[] = {0, 64, 0xFFFFFFE0u, 0x123456789AB00u};
enum { STREAMS = 4, FIRSTS = 4 };

static const rs_draw_chunks *const tables[] = {
    &rs_draw_chunks_plain,
#if defined(__x86_64__)
    &rs_draw_chunks_avx2,
#endif
};

static size_t usable(void)
{
    rs_cpu_level level = rs_cpu_vector_level();
    return level == RS_CPU_AVX2 || level == RS_CPU_AVX512 ? sizeof tables / sizeof *tables : 1;
}

static void words_are_philox(void **state)
{
    (void)state;
    for (size_t t = 0; t < usable(); t++)
        for (int s = 0; s < STREAMS; s++)
            for (int f = 0; f < FIRSTS; f++) {
                uint32_t words[4][RS_DRAW_LANES];
                tables[t]->words(words, &streams[s], firsts[f]);
                philox4x32_key_t key = {
                    {(uint32_t)streams[s].seed, (uint32_t)(streams[s].seed >> 32)}};
                for (uint64_t k = 0; k < RS_DRAW_LANES; k++) {
                    uint64_t i = firsts[f] + k;
                    philox4x32_ctr_t counter = {{(uint32_t)i, (uint32_t)(i >> 32),
                                                 streams[s].stream[0], streams[s].stream[1]}};
                    philox4x32_ctr_t drawn = philox4x32(counter, key);
                    for (int w = 0; w < 4; w++)
                        assert_int_equal(words[w][k], drawn.v[w]);
                }
            }
}

static void normals_are_box_muller(void **state)
{
    (void)state;
    for (int s = 0; s < STREAMS; s++)
        for (int f = 0; f < FIRSTS; f++) {
            uint32_t words[4][RS_DRAW_LANES];
            double z[RS_DRAW_CHUNK];
            rs_draw_chunks_plain.words(words, &streams[s], firsts[f]);
            rs_draw_chunks_plain.normal(z, &streams[s], firsts[f]);
            for (int k = 0; k < RS_DRAW_LANES; k++)
                for (int pair = 0; pair < 2; pair++) {
                    double u = ((double)words[2 * pair][k] + 0.5) * 0x1p-32;
                    uint32_t word = words[2 * pair + 1][k];
                    double place = ((double)(word & 0x3FFFFFFFu) + 0.5) * 0x1p-30 - 0.5;
                    double angle = M_PI_2 * (place + (double)(word >> 30));
                    double radius = sqrt(-2 * log(u));
                    assert_true(fabs(z[4 * k + 2 * pair] - radius * cos(angle)) < 1e-9);
                    assert_true(fabs(z[4 * k + 2 * pair + 1] - radius * sin(angle)) < 1e-9);
                }
        }
}

static void instruction_sets_agree_to_the_bit(void **state)
{
    (void)state;
    if (usable() == 1) skip();
    double plain[RS_DRAW_CHUNK], wide[RS_DRAW_CHUNK];
    for (size_t t = 1; t < usable(); t++)
        for (int s = 0; s < STREAMS; s++)
            for (uint64_t first = 0; first < 2000 * RS_DRAW_LANES; first += RS_DRAW_LANES) {
                rs_draw_chunks_plain.normal(plain, &streams[s], first);
                tables[t]->normal(wide, &streams[s], first);
                assert_memory_equal(plain, wide, sizeof plain);
                rs_draw_chunks_plain.uniform(plain, &streams[s], first);
                tables[t]->uniform(wide, &streams[s], first);
                assert_memory_equal(plain, wide, sizeof plain);
            }
}

static void arrays_begin_anywhere_and_end_anywhere(void **state)
{
    (void)state;
    double all[1000], part[1000];
    rs_draw_normal_f64(all, &streams[1], 1000, 0, 1, 1);
    for (int64_t n = 0; n < 1000; n += 37) {
        memset(part, 0xAB, sizeof part);
        rs_draw_normal_f64(part, &streams[1], n, 0, 1, 2);
        assert_memory_equal(part, all, (size_t)n * sizeof *part);
        assert_true(part[n] != all[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_philox),
        cmocka_unit_test(normals_are_box_muller),
        cmocka_unit_test(instruction_sets_agree_to_the_bit),
        cmocka_unit_test(arrays_begin_anywhere_and_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
