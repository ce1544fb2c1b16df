/*
 * test_forward_real.c: two real models against transformers in float32
 * (tests/oracle/make_forward_real_golden.py). Skipped where scripts/fetch_model.sh has not been.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_catch.h"

typedef struct real {
    rs_checkpoint *checkpoint, *golden;
    rs_network *network;
    input in;
    catch all;
} real;

static bool open_real(real *r, const char *model, const char *golden)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[512];
    rs_checkpoint_options options = {0};
    rs_error err = {0};
    *r = (real){0};
    snprintf(path, sizeof path, "%s%s/rankscope/%s",
             cache  ? cache
             : home ? home
                    : "",
             cache ? "" : "/.cache", model);
    FILE *there = fopen(path, "rb");
    if (!there) return false;
    fclose(there);
    assert_int_equal(rs_checkpoint_open(&r->checkpoint, path, &options, &err), RS_OK);
    snprintf(path, sizeof path, "%s/forward_real/%s", RS_TEST_DATA, golden);
    assert_int_equal(rs_checkpoint_open(&r->golden, path, &options, &err), RS_OK);
    if (rs_network_open(&r->network, r->checkpoint, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    const rs_tensor *ids = rs_checkpoint_find(r->golden, "ids");
    r->in.ids = malloc((size_t)ids->count * sizeof *r->in.ids);
    assert_non_null(r->in.ids);
    for (int64_t i = 0; i < ids->count; i++)
        r->in.ids[i] = integer(ids, i);
    r->in.begin[1] = ids->count;
    r->in.batch = (rs_batch){.samples = 1, .begin = r->in.begin, .ids = r->in.ids};
    run(r->network, RS_PRECISION_F32, &r->in, &r->all);
    return true;
}

static void close_real(real *r)
{
    forget(&r->all);
    free(r->in.ids);
    rs_network_close(r->network);
    rs_checkpoint_close(r->golden);
    rs_checkpoint_close(r->checkpoint);
}

static const found *named(const real *r, const char *name)
{
    for (size_t i = 0; i < r->all.n; i++)
        if (strcmp(r->all.items[i].name, name) == 0) return &r->all.items[i];
    fail_msg("no %s", name);
    return NULL;
}

/* The first columns of a found matrix, as many as the golden keeps. */
static double columns_distance(const real *r, const char *name, int64_t rows)
{
    const found *item = named(r, name);
    const rs_tensor *golden = rs_checkpoint_find(r->golden, name);
    assert_non_null(golden);
    int64_t width = item->count / rows, kept = golden->count / rows;
    found cut = {.count = golden->count};
    cut.values = malloc((size_t)cut.count * sizeof *cut.values);
    assert_non_null(cut.values);
    for (int64_t i = 0; i < rows; i++)
        memcpy(cut.values + i * kept, item->values + i * width, (size_t)kept * sizeof *cut.values);
    double d = distance(&cut, golden);
    free(cut.values);
    return d;
}

static void within(const char *what, double d, double bound)
{
    print_message("  %s: %.3g\n", what, d);
    if (!(d <= bound)) fail_msg("%s: %.3g, over %.3g", what, d, bound);
}

/* What sentence-transformers makes of the last state: mean of the tokens, length 1. */
static void sentence(const real *r)
{
    const found *last = named(r, "final");
    int64_t rows = r->in.begin[1], d = r->network->d_model;
    found out = {.count = d};
    double square = 0;
    out.values = calloc((size_t)d, sizeof *out.values);
    assert_non_null(out.values);
    for (int64_t i = 0; i < rows * d; i++)
        out.values[i % d] += last->values[i] / (double)rows;
    for (int64_t i = 0; i < d; i++)
        square += out.values[i] * out.values[i];
    for (int64_t i = 0; i < d; i++)
        out.values[i] /= sqrt(square);
    within("embedding", distance(&out, rs_checkpoint_find(r->golden, "embedding")), 1e-5);
    free(out.values);
}

static void minilm(void **state)
{
    (void)state;
    static real r;
    if (!open_real(&r, "all-MiniLM-L6-v2", "minilm.safetensors")) skip();
    assert_int_equal(r.network->pooling, RS_POOLING_MEAN);
    assert_true(r.network->normalize);
    int64_t rows = r.in.begin[1];
    within("state.0", columns_distance(&r, "state.0", rows), 2e-5);
    within("state.3", columns_distance(&r, "state.3", rows), 2e-5);
    within("state.6", columns_distance(&r, "state.6", rows), 2e-5);
    sentence(&r);
    close_real(&r);
}

static void compare_logits(const real *r)
{
    const found *logits = named(r, "logits");
    const rs_tensor *shown = rs_checkpoint_find(r->golden, "vocabulary");
    const rs_tensor *largest = rs_checkpoint_find(r->golden, "largest");
    int64_t rows = r->in.begin[1], vocabulary = r->network->head.decoder.out;
    found some = {.count = rows * shown->count}, sums = {.count = rows};
    some.values = calloc((size_t)some.count, sizeof *some.values);
    sums.values = calloc((size_t)rows, sizeof *sums.values);
    assert_true(some.values && sums.values);
    for (int64_t i = 0; i < rows; i++) {
        const double *row = logits->values + i * vocabulary;
        int64_t best = 0;
        double sum = 0;
        for (int64_t v = 0; v < vocabulary; v++)
            if (row[v] > row[best]) best = v;
        for (int64_t v = 0; v < vocabulary; v++)
            sum += exp(row[v] - row[best]);
        sums.values[i] = row[best] + log(sum);
        assert_int_equal(best, integer(largest, i));
        for (int64_t j = 0; j < shown->count; j++)
            some.values[i * shown->count + j] = row[integer(shown, j)];
    }
    within("logits", distance(&some, rs_checkpoint_find(r->golden, "logits")), 2e-5);
    within("log_sum_exp", distance(&sums, rs_checkpoint_find(r->golden, "log_sum_exp")), 2e-5);
    free(some.values);
    free(sums.values);
}

static void gemma(void **state)
{
    (void)state;
    static real r;
    if (!open_real(&r, "gemma-3-270m-Q4_K_M.gguf", "gemma3_270m.safetensors")) skip();
    int64_t rows = r.in.begin[1];
    static const char *const names[] = {"state.0", "state.1", "state.6", "state.18", "final"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        within(names[i], columns_distance(&r, names[i], rows), 2e-5);
    compare_logits(&r);
    close_real(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(minilm), cmocka_unit_test(gemma)};
    return cmocka_run_group_tests_name("forward_real", tests, NULL, NULL);
}
