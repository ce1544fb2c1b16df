/* test_mixer_scan.c: the scans of the mixers alone. Maps pass numbers on unchanged, so that what is
 * compared is the scan: against the recurrences of docs/theory/ssm.md, token by token in long double,
 * for every length around the ends of chunks and panels; and against the mixing matrices that the
 * engine tells of, times the values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_alone.h"

/* ---- chunked = recurrent ---- */

/* Of the largest entry. Mamba's and the delta rule's states are rounded to float32 at each token (the
 * latter's twice where the compiler makes no fused operations), equal tokens all the same way. */
static double tolerance_of(const struct kind *kind, recall memory, int64_t n, bool single)
{
    double each = kind->recur == s6_recur ? 0x1p-24 : kind->recur == delta_recur ? 0x1p-23 : 0;
    if (!single) return 1e-12;
    return memory == LONG_MEMORY_OF_ONE_TOKEN ? fmax(1e-5, (double)n * each) : 1e-5;
}

static double run_length(built *b, const struct kind *kind, const long double *out, int64_t n,
                         bool single)
{
    heard h;
    b->begin[1] = n;
    run_engine(&h, b, single ? RS_PRECISION_F32 : RS_PRECISION_F64, 1, false);
    double error = error_of(kind, h.states[1], out, n);
    heard_free(&h);
    return error;
}

/* Every length from `from` to `to` in both precisions against one recurrence over the longest. */
static void lengths_of(int at, recall memory, bool skip, const int64_t *lengths, int count)
{
    const struct kind *kind = &kinds[at];
    int64_t most = lengths[count - 1];
    if (kind->no_recurrence) return;
    built *b = scan_new(kind, memory, skip, most, (uint64_t)(100 + at));
    long double *out = malloc((size_t)(most * kind->inner) * sizeof *out);
    double *values = malloc((size_t)(most * kind->inner) * sizeof *values);
    kind->recur(out, values, &b->layers[0].branches[0], b->states, most);
    for (int i = 0; i < count; i++)
        for (int single = 0; single < 2; single++) {
            double error = run_length(b, kind, out, lengths[i], single);
            if (!(error <= tolerance_of(kind, memory, lengths[i], single)))
                fail_msg("%s, memory %d, %d tokens, f%d: off by %g", kind->name, (int)memory,
                         (int)lengths[i], single ? 32 : 64, error);
        }
    free(out);
    free(values);
    built_free(b);
}

/* A text's last chunk has every length from 1 to 64, behind none, one, two and three whole ones. */
static void every_chunk_length(void **state)
{
    (void)state;
    int64_t lengths[200];
    for (int i = 0; i < 200; i++)
        lengths[i] = i + 1;
    for (int at = 0; at < KINDS; at++)
        for (int way = 0; way < 2 * RECALLS; way++)
            lengths_of(at, (recall)(way / 2), way % 2, lengths, 200);
}

/* Around the end of a panel, and behind the second. */
static void across_panels(void **state)
{
    (void)state;
    static const int64_t lengths[] = {2047, 2048, 2049, 2111, 2112, 2113, 4097, 4160, 4161};
    for (int at = 0; at < KINDS; at++)
        for (int way = 0; way < RECALLS; way++)
            lengths_of(at, (recall)way, true, lengths, sizeof lengths / sizeof *lengths);
}

/* ---- M V = scan ---- */

/* out: [n, inner] matrices of a pass times the values, the diagonal less `skips` where that is told. */
static void apply(long double *out, const struct kind *kind, const heard *h, const double *values,
                  const rs_tensor *skips, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < kind->inner; c++) {
            const double *row = h->matrices[0][0][c / kind->per_matrix] + i * n;
            double d = skips ? entry(skips, c / kind->per_matrix) : 0;
            long double sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += ((long double)row[j] - (i == j ? d : 0)) * values[j * kind->inner + c];
            out[i * kind->inner + c] = sum;
        }
}

static const rs_tensor *skips_of(const rs_branch *branch)
{
    if (branch->kind == RS_BRANCH_SSD) return branch->ssd.d;
    if (branch->kind == RS_BRANCH_S6) return branch->s6.d;
    return branch->kind == RS_BRANCH_S4D ? branch->s4d.d : NULL;
}

/* Less D·I, the matrices give what the same mixer gives that has no D. */
static void without_diagonal(const struct kind *kind, built *b, const heard *h,
                             const double *values, long double *out, int64_t n)
{
    rs_branch *branch = &b->layers[0].branches[0], kept = *branch;
    const rs_tensor *skips = skips_of(branch);
    heard bare;
    if (!skips) return;
    apply(out, kind, h, values, skips, n);
    if (branch->kind == RS_BRANCH_SSD) branch->ssd.d = NULL;
    if (branch->kind == RS_BRANCH_S6) branch->s6.d = NULL;
    if (branch->kind == RS_BRANCH_S4D) branch->s4d.d = NULL;
    run_engine(&bare, b, RS_PRECISION_F64, 1, false);
    double error = error_of(kind, bare.states[1], out, n);
    if (!(error <= 1e-12)) fail_msg("%s without D: off by %g", kind->name, error);
    heard_free(&bare);
    *branch = kept;
}

static void matrix_of(const struct kind *kind, recall memory, bool skip, int64_t n, uint64_t seed)
{
    built *b = scan_new(kind, memory, skip, n, seed);
    long double *out = malloc((size_t)(n * kind->inner) * sizeof *out);
    double *values = malloc((size_t)(n * kind->inner) * sizeof *values);
    heard h;
    kind->recur(out, values, &b->layers[0].branches[0], b->states, n);
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    apply(out, kind, &h, values, NULL, n);
    double error = error_of(kind, h.states[1], out, n);
    if (!(error <= 1e-12))
        fail_msg("%s, memory %d, %d tokens: M V is off by %g", kind->name, (int)memory, (int)n,
                 error);
    without_diagonal(kind, b, &h, values, out, n);
    free(out);
    free(values);
    heard_free(&h);
    built_free(b);
}

static void matrices_times_values(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 63, 64, 65, 128, 200};
    for (int at = 0; at < KINDS; at++)
        for (int way = 0; way < 2 * RECALLS; way++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
                matrix_of(&kinds[at], (recall)(way / 2), way % 2, lengths[i], 100 + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_length),
        cmocka_unit_test(across_panels),
        cmocka_unit_test(matrices_times_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
