/* paths_support.h: what the tests of paths share: models opened or drawn, their sums, and results
 * held against JSON. Include behind cmocka.h. */
#ifndef RS_TEST_PATHS_SUPPORT_H
#define RS_TEST_PATHS_SUPPORT_H

#include "base/memory.h"
#include "base/random.h"
#include "forward_catch.h"
#include "paths/paths.h"

#include <unistd.h>

/* ---- opening ---- */

typedef struct opened {
    rs_checkpoint *checkpoint;
    rs_network *network;
    rs_weights *weights;
} opened;

/* False where the model is not one to run. */
static inline bool open_model(opened *o, const char *name)
{
    char path[512];
    rs_error err = {0};
    rs_checkpoint_options how = {0};
    snprintf(path, sizeof path, "%s/forward/%s/model.gguf", RS_TEST_DATA, name);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/forward/%s", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&o->checkpoint, path, &how, &err), RS_OK);
    assert_int_equal(rs_network_open(&o->network, o->checkpoint, &err), RS_OK);
    return rs_weights_open(&o->weights, RS_PRECISION_F64, UINT64_MAX, &err) == RS_OK;
}

static inline void close_model(opened *o)
{
    rs_weights_close(o->weights);
    rs_network_close(o->network);
    rs_checkpoint_close(o->checkpoint);
}

static inline rs_path_sums *sums_of(const opened *o, const rs_batch *batch,
                                    const rs_path_plan *plan, const rs_path_set *set, int threads)
{
    rs_error err = {0};
    rs_path_sums *sums;
    rs_context context = {.threads = threads};
    if (rs_path_sums_of(&sums, o->network, o->weights, batch, plan, set, true, &context, &err) !=
        RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return sums;
}

static inline rs_path_plan *plan_of(const rs_network *network, int64_t most)
{
    rs_error err = {0};
    rs_path_plan *plan;
    if (rs_path_plan_open(&plan, network, most, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return plan;
}

/* ---- drawn networks ---- */

/* A network of an architecture file, fed states of N(0, 1). */
typedef struct drawn {
    rs_init *init;
    rs_network *network;
    rs_weights *weights;
    double *states;
    int64_t begin[2];
    rs_batch batch;
} drawn;

static inline void draw_network(drawn *o, const char *arch, int64_t n, uint64_t seed)
{
    rs_error err = {0};
    json_t *json = json_loads(arch, 0, NULL);
    assert_non_null(json);
    assert_int_equal(rs_init_open(&o->init, NULL, seed, &err), RS_OK);
    if (rs_network_from_arch(&o->network, json, "ARCH", o->init, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    json_decref(json);
    assert_int_equal(rs_weights_open(&o->weights, RS_PRECISION_F64, UINT64_MAX, &err), RS_OK);
    rs_random random = rs_random_new(seed, 5);
    int64_t count = n * o->network->d_model;
    o->states = malloc((size_t)count * sizeof *o->states);
    for (int64_t i = 0; i < count; i++)
        o->states[i] = rs_random_normal(&random);
    o->begin[0] = 0;
    o->begin[1] = n;
    o->batch = (rs_batch){.samples = 1, .begin = o->begin, .states = o->states};
}

static inline void close_drawn(drawn *o)
{
    free(o->states);
    rs_weights_close(o->weights);
    rs_network_close(o->network);
    rs_init_close(o->init);
}

static inline rs_path_sums *sums_drawn(const drawn *o, const rs_path_plan *plan,
                                       const rs_path_set *set, int threads)
{
    const opened as = {.network = o->network, .weights = o->weights};
    return sums_of(&as, &o->batch, plan, set, threads);
}

/* ---- results ---- */

static inline void near(const char *name, const char *what, double got, const json_t *expected,
                        double tolerance)
{
    assert_non_null(expected);
    if (json_is_null(expected)) {
        if (!isnan(got)) fail_msg("%s: %s is %.15g, expected none", name, what, got);
        return;
    }
    double value = json_number_value(expected);
    if (!(fabs(got - value) <= tolerance * fmax(1, fabs(value))))
        fail_msg("%s: %s is %.15g, expected %.15g", name, what, got, value);
}

static char tokens_path[] = "/tmp/rs_paths_XXXXXX";

static inline rs_result *run_paths(const char *name, const rs_paths_options *options, int threads)
{
    char path[512];
    rs_error err = {0};
    rs_context context = {.threads = threads, .seed = 3};
    rs_result *result = rs_result_new("paths");
    snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", name);
    rs_paths_request request = {.path = path, .options = *options};
    request.options.source.tokens = tokens_path;
    if (rs_paths_path(result, rs_result_files(result), &request, &context, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static inline double cell(const rs_table *table, size_t row, const char *column)
{
    int c = rs_table_find_column(table, column);
    if (c < 0) fail_msg("no column %s", column);
    return rs_table_real(table, row, (size_t)c);
}

static inline int64_t whole(const rs_table *table, size_t row, const char *column)
{
    int c = rs_table_find_column(table, column);
    if (c < 0) fail_msg("no column %s", column);
    return rs_table_int(table, row, (size_t)c);
}

/* The row of a sample and a length. */
static inline size_t row_of(const rs_table *table, const char *column, int64_t sample,
                            int64_t length)
{
    for (size_t row = 0; row < rs_table_rows(table); row++)
        if (whole(table, row, "sample") == sample && whole(table, row, column) == length)
            return row;
    fail_msg("%s has no row for sample %lld, length %lld", rs_table_name(table), (long long)sample,
             (long long)length);
    return 0;
}

static inline void put_tokens(const char *text)
{
    FILE *file = fopen(tokens_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif
