/* test_forward_run.c: how a runner behaves: refusals, failures, threads, memory, generation. The
 * numbers are test_forward.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "forward_reference.h"
#include "property.h"

#include "base/memory.h"
#include "engine/weights.h"

#include <unistd.h>

/* A network of attention and gated MLP, causal, grouped queries, rotation, with a head. */
static built *decoder_new(uint64_t seed, rs_dtype dtype, int64_t d, int32_t layers)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 1);
    b->dtype = dtype;
    b->network =
        (rs_network){.family = "decoder", .d_model = d, .layers = b->layers, .n_layers = layers};
    rs_norm_op norm = {.kind = RS_NORM_RMSNORM, .dim = d, .eps = 1e-6};
    b->network.final_norm = norm;
    b->network.embedding = (rs_embedding_op){
        .tokens = tensor(b, dtype, 50 * d, 0, 1), .vocabulary = 50, .width = d, .scale = 1};
    for (int32_t l = 0; l < layers; l++) {
        rs_branch *mixer = &b->layers[l].branches[0], *mlp = &b->layers[l].branches[1];
        b->layers[l].n_branches = 2;
        *mixer = (rs_branch){.kind = RS_BRANCH_ATTENTION, .before = norm, .skip = 1, .scale = 1};
        *mlp = (rs_branch){.kind = RS_BRANCH_MLP, .before = norm, .skip = 1, .scale = 1};
        mixer->attention = (rs_attention_op){.heads = 4,
                                             .kv_heads = 2,
                                             .head_dim = 8,
                                             .value_dim = 8,
                                             .q = dense_of(b, d, 32, false),
                                             .k = dense_of(b, d, 16, false),
                                             .v = dense_of(b, d, 16, false),
                                             .o = dense_of(b, 32, d, false),
                                             .rope = {.kind = RS_ROPE_HALF_SPLIT,
                                                      .law = RS_ROPE_PLAIN,
                                                      .dims = 8,
                                                      .theta = 10000,
                                                      .factor = 1,
                                                      .attention_factor = 1},
                                             .scale = 1 / sqrt(8),
                                             .causal = true,
                                             .temperature = 1,
                                             .mix_softmax = 1};
        mlp->mlp = (rs_mlp_op){.up = dense_of(b, d, 3 * d, false),
                               .gate = dense_of(b, d, 3 * d, false),
                               .down = dense_of(b, 3 * d, d, false),
                               .activation = RS_ACT_SILU,
                               .width = 3 * d};
    }
    b->network.head = (rs_head_op){.decoder = {.weight = b->network.embedding.tokens,
                                               .rows = 50,
                                               .cols = d,
                                               .out_is_row = true,
                                               .in = d,
                                               .out = 50,
                                               .run = 50,
                                               .stride = 50},
                                   .scale = 1,
                                   .next_token = true};
    return b;
}

static void give_text(built *b, int32_t samples, int64_t n)
{
    free(b->ids);
    b->ids = malloc((size_t)(samples * n + 1) * sizeof *b->ids);
    b->batch = (rs_batch){.samples = samples, .begin = b->begin, .ids = b->ids};
    for (int32_t s = 0; s < samples; s++)
        b->begin[s + 1] = b->begin[s] + n;
    for (int64_t i = 0; i < samples * n; i++)
        b->ids[i] = (int32_t)draw(b, 0, 49);
}

/* ---- one pass: the final state as bytes ---- */

typedef struct last {
    uint8_t *bytes;
    size_t size;
    rs_status answer;
    int calls;
} last;

static rs_status keep_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    last *l = user;
    (void)layer;
    l->calls++;
    if (l->answer != RS_OK) return rs_fail(err, l->answer, "tap", NULL, "does not like it");
    if (site != RS_SITE_FINAL) return RS_OK;
    l->size = (size_t)(view->rows * view->cols) * rs_precision_size(view->precision);
    free(l->bytes);
    l->bytes = malloc(l->size + 1);
    memcpy(l->bytes, view->data, l->size);
    return RS_OK;
}

static rs_status hear_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)user;
    (void)view;
    (void)err;
    return RS_OK;
}

typedef struct machine {
    rs_weights *weights;
    rs_runner *runner;
    rs_context context;
} machine;

static rs_status start(machine *m, const built *b, rs_precision precision, int threads,
                       uint64_t limit, rs_error *err)
{
    *m = (machine){.context = {.threads = threads}};
    rs_status status = rs_weights_open(&m->weights, precision, limit, err);
    if (status == RS_OK)
        status = rs_runner_open(&m->runner, &b->network, m->weights, &m->context, err);
    return status;
}

static void stop(machine *m)
{
    rs_runner_close(m->runner);
    rs_weights_close(m->weights);
}

/* Opens, runs and closes; the final state into *l when it is not NULL. */
static rs_status once(const built *b, rs_precision precision, int threads, uint64_t limit, last *l,
                      bool attention, rs_error *err)
{
    machine m;
    rs_tap tap = {.user = l, .sites = ALL_SITES, .state = l ? keep_state : NULL};
    if (attention) tap.attention = hear_matrix, tap.wants_logits = true;
    const rs_tap *taps[] = {&tap};
    rs_status status = start(&m, b, precision, threads, limit, err);
    if (status == RS_OK) status = rs_runner_run(m.runner, &b->batch, taps, 1, err);
    stop(&m);
    return status;
}

/* ---- tests ---- */

/* The same bits whatever the number of threads, with matrices or without. */
static void test_threads(void **state)
{
    (void)state;
    built *b = decoder_new(5, RS_F32, 24, 2);
    give_text(b, 3, 150);
    for (int p = 0; p < RS_PRECISIONS; p++) {
        last one = {0};
        assert_int_equal(once(b, (rs_precision)p, 1, UINT64_MAX, &one, false, NULL), RS_OK);
        for (int threads = 2; threads <= 4; threads++) {
            last other = {0};
            assert_int_equal(once(b, (rs_precision)p, threads, 0, &other, false, NULL), RS_OK);
            assert_memory_equal(one.bytes, other.bytes, one.size);
            free(other.bytes);
        }
        free(one.bytes);
    }
    built_free(b);
}

/* One batch of three texts gives what three batches of one do. */
static void test_packed(void **state)
{
    (void)state;
    built *b = decoder_new(6, RS_BF16, 16, 2);
    last together = {0}, alone = {0};
    give_text(b, 3, 20);
    assert_int_equal(once(b, RS_PRECISION_F64, 2, 0, &together, false, NULL), RS_OK);
    const int32_t *ids = b->ids;
    for (int s = 0; s < 3; s++) {
        b->batch.samples = 1;
        b->batch.ids = ids + 20 * s;
        assert_int_equal(once(b, RS_PRECISION_F64, 2, 0, &alone, false, NULL), RS_OK);
        const double *x = (const double *)together.bytes + 20 * 16 * s;
        for (size_t i = 0; i < 20 * 16; i++)
            assert_true(fabs(x[i] - ((const double *)alone.bytes)[i]) < 1e-12);
    }
    free(together.bytes);
    free(alone.bytes);
    built_free(b);
}

/* Under dynamic rotations the frequencies hang on a text's length: its own, whatever the batch's
 * other texts are. Six lengths, more than tables are kept, in an order that takes turns. */
static void test_ragged_dynamic(void **state)
{
    (void)state;
    enum { D = 16, SAMPLES = 6 };
    static const int64_t lengths[SAMPLES] = {20, 3, 9, 20, 31, 12};
    built *b = decoder_new(11, RS_F32, D, 2);
    for (int32_t l = 0; l < 2; l++) {
        rs_rope_op *rope = &b->layers[l].branches[0].attention.rope;
        rope->law = RS_ROPE_DYNAMIC;
        rope->theta = 100;
        rope->factor = 4;
        rope->original_positions = 10;
    }
    last together = {0}, alone = {0};
    give_text(b, SAMPLES, 31);
    for (int s = 0; s < SAMPLES; s++)
        b->begin[s + 1] = b->begin[s] + lengths[s];
    const int32_t *ids = b->ids;
    assert_int_equal(once(b, RS_PRECISION_F64, 2, 0, &together, false, NULL), RS_OK);
    int64_t at = 0;
    for (int s = 0; s < SAMPLES; s++) {
        b->batch.samples = 1;
        b->batch.ids = ids + at;
        b->begin[1] = lengths[s];
        assert_int_equal(once(b, RS_PRECISION_F64, 2, 0, &alone, false, NULL), RS_OK);
        const double *x = (const double *)together.bytes + at * D;
        for (int64_t i = 0; i < lengths[s] * D; i++)
            if (!(fabs(x[i] - ((const double *)alone.bytes)[i]) < 1e-12))
                fail_msg("sample %d differs from itself alone by %g", s,
                         x[i] - ((const double *)alone.bytes)[i]);
        at += lengths[s];
    }
    free(together.bytes);
    free(alone.bytes);
    built_free(b);
}

static void test_refusals(void **state)
{
    (void)state;
    built *b = decoder_new(7, RS_F32, 8, 1);
    rs_error err;
    give_text(b, 2, 5);
    b->ids[8] = 50;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TOKEN_RANGE);
    assert_string_equal(err.where, "sample 1");
    assert_non_null(strstr(err.what, "id 50 at position 3"));
    b->ids[8] = -1;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TOKEN_RANGE);
    b->ids[8] = 0;
    b->network.max_positions = 4;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TOO_LONG);
    b->network.max_positions = 5;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_OK);
    b->batch.ids = NULL;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_INPUT_SHAPE);
    b->batch.ids = b->ids;
    b->layers[0].branches[0].attention.cross = true;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_INPUT_SHAPE);
    b->layers[0].branches[0].attention.cross = false;
    b->layers[0].branches[1].mlp.down.in++;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TENSOR_SHAPE);
    b->layers[0].branches[1].mlp.down.in--;
    b->layers[0].branches[0].attention.kv_heads = 3;
    assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_CONFIG_HEADS);
    built_free(b);
}

/* The scales of an FP8 map are a grid of blocks that covers it. */
static void test_scales_that_do_not_cover(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        built *b = decoder_new(seed, RS_F8_E4M3, 8, 1);
        rs_dense *maps[] = {&b->layers[0].branches[0].attention.k, &b->layers[0].branches[1].mlp.up,
                            &b->layers[0].branches[1].mlp.down};
        rs_dense *map = maps[seed % 3], kept = *map;
        rs_tensor *scale = (rs_tensor *)(uintptr_t)map->scale;
        rs_error err;
        give_text(b, 2, 5);
        assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_OK);
        scale->count--;
        assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TENSOR_SHAPE);
        assert_string_equal(err.where, scale->name);
        scale->count++;
        map->scale_block_rows = 0;
        assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TENSOR_SHAPE);
        *map = kept;
        map->scale_block_cols = -1;
        assert_int_equal(once(b, RS_PRECISION_F32, 1, 0, NULL, false, &err), RS_E_TENSOR_SHAPE);
        built_free(b);
    }
}

/* What a tap answers ends the pass; so does the context. */
static void test_ends(void **state)
{
    (void)state;
    built *b = decoder_new(8, RS_F32, 8, 2);
    rs_error err;
    last l = {.answer = RS_E_WRITE};
    give_text(b, 1, 5);
    assert_int_equal(once(b, RS_PRECISION_F32, 2, 0, &l, false, &err), RS_E_WRITE);
    assert_int_equal(l.calls, 1);
    volatile sig_atomic_t cancel = 1;
    machine m;
    assert_int_equal(start(&m, b, RS_PRECISION_F32, 2, 0, &err), RS_OK);
    m.context.cancel = &cancel;
    assert_int_equal(rs_runner_run(m.runner, &b->batch, NULL, 0, &err), RS_E_INTERRUPTED);
    cancel = 0;
    assert_int_equal(rs_runner_run(m.runner, &b->batch, NULL, 0, &err), RS_OK);
    stop(&m);
    built_free(b);
}

/* A map whose decoding was cancelled is decoded again, not taken for done. */
static void test_cancelled_decoding(void **state)
{
    (void)state;
    const uint64_t limits[] = {0, UINT64_MAX};
    for (int i = 0; i < 2; i++) {
        built *b = decoder_new(11, RS_BF16, 16, 1);
        last whole = {0}, again = {0};
        const rs_tap tap = {.user = &again, .sites = ALL_SITES, .state = keep_state},
                     *taps[] = {&tap};
        const rs_branch *mlp = &b->network.layers[0].branches[1];
        volatile sig_atomic_t cancel = 1;
        machine m;
        rs_dense_map map;
        rs_error err;
        give_text(b, 1, 5);
        assert_int_equal(mlp->kind, RS_BRANCH_MLP);
        assert_int_equal(once(b, RS_PRECISION_F32, 2, limits[i], &whole, false, &err), RS_OK);
        assert_int_equal(start(&m, b, RS_PRECISION_F32, 2, limits[i], &err), RS_OK);
        m.context.cancel = &cancel;
        assert_int_equal(rs_weights_map(&map, m.weights, &mlp->mlp.up, 0, &m.context, &err),
                         RS_E_INTERRUPTED);
        cancel = 0;
        assert_int_equal(rs_runner_run(m.runner, &b->batch, taps, 1, &err), RS_OK);
        assert_int_equal(again.size, whole.size);
        assert_memory_equal(again.bytes, whole.bytes, whole.size);
        stop(&m);
        free(whole.bytes);
        free(again.bytes);
        built_free(b);
    }
}

/* Other numbers at the same addresses: told of them, a runner gives what a new one gives. */
static void test_changed_weights(void **state)
{
    (void)state;
    const rs_dtype dtypes[] = {RS_F32, RS_F64, RS_BF16};
    for (int i = 0; i < 3 * RS_PRECISIONS; i++) {
        rs_precision precision = (rs_precision)(i % RS_PRECISIONS);
        built *b = decoder_new(12, dtypes[i / RS_PRECISIONS], 16, 2);
        last before = {0}, after = {0}, fresh = {0};
        rs_tap tap = {.user = &before, .sites = ALL_SITES, .state = keep_state};
        const rs_tap *taps[] = {&tap};
        machine m;
        give_text(b, 2, 7);
        for (int32_t l = 0; l < b->network.n_layers; l++) {
            rs_rope_op *rope = &b->layers[l].branches[0].attention.rope;
            rope->law = RS_ROPE_FACTORS;
            rope->divisors = tensor(b, RS_F32, rope->dims / 2, 2, 0.1);
        }
        assert_int_equal(start(&m, b, precision, 2, UINT64_MAX, NULL), RS_OK);
        assert_int_equal(rs_runner_run(m.runner, &b->batch, taps, 1, NULL), RS_OK);
        for (int t = 0; t < b->n_tensors; t++) {
            const rs_tensor *changed = &b->tensors[t];
            fill_bytes(b, (uint8_t *)(uintptr_t)changed->data, changed->dtype, changed->count, 1,
                       0.2);
        }
        rs_weights_changed(m.weights);
        tap.user = &after;
        assert_int_equal(rs_runner_run(m.runner, &b->batch, taps, 1, NULL), RS_OK);
        assert_int_equal(once(b, precision, 2, UINT64_MAX, &fresh, false, NULL), RS_OK);
        assert_memory_equal(after.bytes, fresh.bytes, fresh.size);
        assert_memory_not_equal(after.bytes, before.bytes, fresh.size);
        stop(&m);
        free(before.bytes);
        free(after.bytes);
        free(fresh.bytes);
        built_free(b);
    }
}

/* Nothing is allocated for a second batch of the same shape; peak and operations are told. */
static void test_workspace(void **state)
{
    (void)state;
    built *b = decoder_new(9, RS_BF16, 16, 2);
    machine m;
    give_text(b, 2, 10);
    assert_int_equal(start(&m, b, RS_PRECISION_F32, 2, UINT64_MAX, NULL), RS_OK);
    assert_int_equal(rs_runner_run(m.runner, &b->batch, NULL, 0, NULL), RS_OK);
    int64_t requests = rs_memory_requests();
    uint64_t peak = rs_runner_peak(m.runner);
    assert_int_equal(rs_runner_run(m.runner, &b->batch, NULL, 0, NULL), RS_OK);
    assert_int_equal(rs_memory_requests(), requests);
    assert_true(peak > 0 && rs_runner_peak(m.runner) == peak);
    /* two layers: projections 16 -> 32, 16, 16 and 32 -> 16; 2*55 visible pairs a head; 3 maps */
    double rows = 20, dense = 16 * 32 * 2 + 2 * 16 * 16, pairs = 2 * 55 * 4 * 16, mlp = 3 * 16 * 48;
    assert_true(rs_runner_flops(m.runner) == 2 * 2 * (rows * (dense + mlp) + pairs));
    stop(&m);
    built_free(b);
}

/* Memory may end at any point: the failure is told, and nothing leaks or is left half done. */
static void test_no_memory(void **state)
{
    (void)state;
    built *b = decoder_new(10, RS_F16, 8, 1);
    b->layers[0].branches[0].attention.mix_uniform = 0.5;
    give_text(b, 2, 6);
    int64_t before = rs_memory_requests();
    last l = {0};
    assert_int_equal(once(b, RS_PRECISION_F64, 2, 2000, &l, true, NULL), RS_OK);
    int64_t needed = rs_memory_requests() - before;
    assert_true(needed > 20);
    for (int64_t n = 1; n <= needed; n++) {
        rs_error err = {0};
        rs_memory_fail_at(n);
        rs_status status = once(b, RS_PRECISION_F64, 2, 2000, &l, true, &err);
        rs_memory_fail_at(0);
        assert_int_equal(status, RS_E_NO_MEMORY);
        assert_int_equal(err.status, RS_E_NO_MEMORY);
    }
    free(l.bytes);
    built_free(b);
}

/* Weights that are no numbers give states that are none, and no crash. */
static void test_nan(void **state)
{
    (void)state;
    for (int what = 0; what < 2; what++) {
        built *b = decoder_new(11, RS_F64, 8, 2);
        const double bad[] = {(double)NAN, (double)INFINITY};
        last l = {0};
        give_text(b, 1, 6);
        memcpy(b->blocks[2], &bad[what], sizeof *bad);
        assert_int_equal(once(b, RS_PRECISION_F64, 2, 0, &l, true, NULL), RS_OK);
        double sum = 0;
        for (size_t i = 0; i < l.size / 8; i++)
            sum += ((const double *)l.bytes)[i];
        assert_true(isnan(sum));
        free(l.bytes);
        built_free(b);
    }
}

/* A file of weights that is cut short while it is mapped ends the pass with that error. */
static void test_truncated(void **state)
{
    (void)state;
    enum { PAGES = 1 << 18 };
    built *b = decoder_new(12, RS_F32, 16, 2);
    rs_checkpoint_file file = {.name = (char *)"weights"};
    rs_checkpoint checkpoint = {.files = &file, .n_files = 1};
    rs_tensor *tokens = &b->tensors[0];
    char path[] = "/tmp/rankscope-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && tokens == b->network.embedding.tokens);
    assert_true(write(fd, tokens->data, tokens->bytes) == (ssize_t)tokens->bytes);
    assert_int_equal(ftruncate(fd, PAGES), 0);
    assert_int_equal(rs_mapping_open(&file.mapping, path, NULL), RS_OK);
    rs_guard_install();
    tokens->data = file.mapping->data;
    b->network.checkpoint = &checkpoint;
    give_text(b, 1, 6);
    assert_int_equal(once(b, RS_PRECISION_F32, 2, 0, NULL, false, NULL), RS_OK);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(once(b, RS_PRECISION_F32, 2, 0, NULL, false, NULL),
                     RS_E_TRUNCATED_WHILE_MAPPED);
    rs_mapping_close(file.mapping);
    close(fd);
    unlink(path);
    built_free(b);
}

/* The likeliest id after a text, from the plain loops. */
static int32_t ref_next(built *b, const int32_t *ids, int64_t n)
{
    const int64_t begin[] = {0, n};
    const rs_batch batch = {.samples = 1, .begin = begin, .ids = ids};
    double *last_state = ref_run(&b->network, &batch, NULL, NULL, NULL);
    double *logits = ref_logits(&b->network.head, last_state, n), *row = logits + 50 * (n - 1);
    int32_t best = 0;
    for (int32_t i = 1; i < 50; i++)
        if (row[i] > row[best]) best = i;
    free(last_state);
    free(logits);
    return best;
}

static void test_generate(void **state)
{
    (void)state;
    enum { PROMPT = 5, NEW = 12 };
    for (int t = property_start(6, 20); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = decoder_new(seed, RS_F32, 16, 2);
        int32_t ids[PROMPT + NEW], out[NEW];
        const int64_t begin[] = {0, PROMPT};
        const rs_batch prompt = {.samples = 1, .begin = begin, .ids = ids};
        machine m;
        if (seed % 2) b->layers[1].branches[0].attention.window = 4;
        for (int i = 0; i < PROMPT; i++)
            ids[i] = (int32_t)draw(b, 0, 49);
        for (int i = 0; i < NEW; i++)
            ids[PROMPT + i] = ref_next(b, ids, PROMPT + i);
        assert_int_equal(start(&m, b, RS_PRECISION_F64, 2, UINT64_MAX, NULL), RS_OK);
        assert_int_equal(rs_generate(out, m.runner, &prompt, NEW, NULL), RS_OK);
        assert_memory_equal(out, ids + PROMPT, sizeof out);
        stop(&m);
        b->network.head.next_token = false;
        assert_int_equal(start(&m, b, RS_PRECISION_F32, 2, UINT64_MAX, NULL), RS_OK);
        assert_int_equal(rs_generate(out, m.runner, &prompt, NEW, NULL), RS_E_UNSUPPORTED);
        stop(&m);
        built_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_ragged_dynamic),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_scales_that_do_not_cover),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_changed_weights),
        cmocka_unit_test(test_workspace),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_cancelled_decoding),
        cmocka_unit_test(test_generate),
        cmocka_unit_test(test_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
