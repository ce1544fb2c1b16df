/* mixer_support.h: what the engine tells of drawn mixers without a softmax, compared with plain
 * loops. Include behind cmocka.h. */
#ifndef RS_TEST_MIXER_SUPPORT_H
#define RS_TEST_MIXER_SUPPORT_H

#include "forward_reference.h"
#include "mixer_builder.h"
#include "property.h"

#include "network/op_traits.h"

/* ---- the definitions ---- */

static inline double silu(double x)
{
    return x / (1 + exp(-x));
}

static inline double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

/* [channels, width] */
static inline double *ref_kernels(const rs_conv_op *conv)
{
    const rs_tensor *tensors[] = {conv->weight, conv->more[0], conv->more[1]};
    double *w = malloc((size_t)(conv->channels * conv->width) * sizeof *w);
    for (int64_t t = 0, at = 0; t < 3 && tensors[t]; at += tensors[t++]->count) {
        double *part = ref_numbers(tensors[t]);
        memcpy(w + at, part, (size_t)tensors[t]->count * sizeof *w);
        free(part);
    }
    return w;
}

/* u: [n, channels] from rows of `width` numbers, from column `first` on. */
static inline double *ref_conv(const double *rows, int64_t n, int64_t width, int64_t first,
                               const rs_conv_op *conv, bool activated)
{
    double *w = ref_kernels(conv), *bias = ref_numbers(conv->bias);
    double *u = calloc((size_t)(n * conv->channels + 1), sizeof *u);
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < conv->channels; c++) {
            double sum = bias ? bias[c] : 0;
            for (int64_t j = 0; j < conv->width; j++) {
                int64_t row = t - conv->width + 1 + j;
                if (row >= 0) sum += w[c * conv->width + j] * rows[row * width + first + c];
            }
            u[t * conv->channels + c] = activated ? silu(sum) : sum;
        }
    free(w);
    free(bias);
    return u;
}

typedef void hear_matrix(void *user, int32_t head, const double *m, int64_t n);

/* ---- what the engine tells ---- */

typedef struct heard {
    const built *b;
    double *states[3];           /* behind layer l, as double */
    double *matrices[2][4][210]; /* [layer][sample][head] */
    rs_precision precision;
} heard;

static inline double *as_double(const void *data, bool f32, size_t count)
{
    double *copy = malloc((count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = f32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
    return copy;
}

static inline rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                                 rs_error *err)
{
    heard *h = user;
    (void)err, (void)site;
    h->states[layer] = as_double(view->data, view->precision == RS_PRECISION_F32,
                                 (size_t)(view->rows * view->cols));
    return RS_OK;
}

static inline rs_status on_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    heard *h = user;
    (void)err;
    const rs_branch *branch = &h->b->layers[view->layer].branches[0];
    assert_int_equal(view->causal, rs_branch_traits(branch)->causal(branch));
    assert_true(!view->probabilities && view->n == view->keys);
    double **place = &h->matrices[view->layer][view->sample][view->head];
    assert_null(*place);
    *place = as_double(view->mixing, view->precision == RS_PRECISION_F32,
                       (size_t)(view->n * view->keys));
    return RS_OK;
}

/* samples: whose matrices are asked for; NULL: those of all. */
static inline void run_engine_for(heard *h, const built *b, rs_precision precision, int threads,
                                  bool matrices, bool (*samples)(void *, int32_t))
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    *h = (heard){.b = b, .precision = precision};
    rs_context context = {.threads = threads};
    rs_tap tap = {.user = h, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    if (matrices) tap.attention = on_matrix;
    tap.wants_sample = samples;
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, &b->network, weights, &context, &err) != RS_OK)
        fail_msg("%s", err.what);
    if (rs_runner_run(runner, &b->batch, taps, 1, &err) != RS_OK) fail_msg("%s", err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static inline void run_engine(heard *h, const built *b, rs_precision precision, int threads,
                              bool matrices)
{
    run_engine_for(h, b, precision, threads, matrices, NULL);
}

static inline void heard_free(heard *h)
{
    for (int l = 0; l < 3; l++)
        free(h->states[l]);
    for (int l = 0; l < 2; l++)
        for (int s = 0; s < 4; s++)
            for (int i = 0; i < 210; i++)
                free(h->matrices[l][s][i]);
}

/* ---- comparing ---- */

/* y: [n, d] of one sample through the branch's op alone; its matrices are told to `hear`. */
typedef void reference_mixer(double *y, const rs_branch *branch, const double *x, int64_t n,
                             hear_matrix *hear, void *user);

typedef struct comparison {
    const heard *heard;
    int32_t layer, sample;
    double tolerance;
    uint64_t seed;
} comparison;

static inline void is_near(const double *a, const double *b, size_t count, double tolerance,
                           uint64_t seed, const char *what)
{
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(b[i]));
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, isfinite(a[i]) ? fabs(a[i] - b[i]) : INFINITY);
    if (worst > tolerance * largest)
        fail_msg("seed %d: %s off by %g of %g", (int)seed, what, worst, largest);
}

static inline void compare_matrix(void *user, int32_t head, const double *m, int64_t n)
{
    const comparison *c = user;
    const double *told = c->heard->matrices[c->layer][c->sample][head];
    assert_non_null(told);
    is_near(told, m, (size_t)(n * n), c->tolerance, c->seed, "matrix");
}

/* The reference continues from the engine's own states, so that errors do not add up. */
static inline void compare_all(const heard *h, const built *b, reference_mixer *reference,
                               double tolerance, uint64_t seed)
{
    int64_t d = b->network.d_model;
    for (int32_t l = 0; l < b->network.n_layers; l++) {
        const rs_branch *branch = &b->layers[l].branches[0];
        for (int32_t s = 0; s < b->batch.samples; s++) {
            int64_t from = b->begin[s], n = b->begin[s + 1] - from;
            size_t count = (size_t)(n * d);
            if (n == 0) continue;
            double *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y);
            comparison c = {h, l, s, tolerance, seed};
            memcpy(x, h->states[l] + from * d, count * sizeof *x);
            ref_norm_rows(x, n, d, &branch->before);
            reference(y, branch, x, n, h->matrices[l][s][0] ? compare_matrix : NULL, &c);
            for (size_t i = 0; i < count; i++)
                y[i] += branch->skip * h->states[l][(size_t)(from * d) + i];
            ref_norm_rows(y, n, d, &branch->after);
            is_near(h->states[l + 1] + from * d, y, count, tolerance, seed, "state");
            free(x);
            free(y);
        }
    }
}

static inline void is_same(const heard *a, const heard *b, const built *of, uint64_t seed)
{
    size_t bytes = (size_t)(of->begin[of->batch.samples] * of->network.d_model) * sizeof(double);
    for (int32_t l = 0; l <= of->network.n_layers; l++)
        if (memcmp(a->states[l], b->states[l], bytes) != 0)
            fail_msg("seed %d, layer %d", (int)seed, (int)l);
}

/* ---- vectors ---- */

enum { TOKENS = 6 };

/* Entry k of the tensor with that tag: scale (h / 2^31 - 1) + shift, h a hash of both. */
static inline double generated(uint32_t tag, uint32_t k)
{
    uint32_t h = (k + 1) * 2654435761u + tag * 2246822519u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    h *= 3266489917u;
    h ^= h >> 16;
    return (double)h / 2147483648.0 - 1;
}

static inline rs_tensor *generate(built *b, uint32_t tag, int64_t count, double scale, double shift)
{
    rs_tensor *t = (rs_tensor *)(uintptr_t)tensor(b, RS_F64, count, 0, 0);
    double *numbers = (double *)(uintptr_t)t->data;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = scale * generated(tag, (uint32_t)i) + shift;
    return t;
}

static inline rs_dense generated_map(built *b, uint32_t tag, int64_t in, int64_t out, double scale)
{
    return (rs_dense){.weight = generate(b, tag, in * out, scale, 0),
                      .rows = out,
                      .cols = in,
                      .out_is_row = true,
                      .in = in,
                      .out = out,
                      .run = out,
                      .stride = out};
}

/* ---- maps that only pass on ---- */

/* Rows first .. first+out-1 of the identity of `in`. */
static inline rs_dense pick(built *b, int64_t in, int64_t first, int64_t out)
{
    rs_dense map = generated_map(b, 0, in, out, 0);
    double *numbers = (double *)(uintptr_t)map.weight->data;
    for (int64_t i = 0; i < out; i++)
        numbers[i * in + first + i] = 1;
    return map;
}

/* The identity into the first of `out` numbers, the others 0. */
static inline rs_dense place(built *b, int64_t in, int64_t out)
{
    rs_dense map = generated_map(b, 0, in, out, 0);
    double *numbers = (double *)(uintptr_t)map.weight->data;
    for (int64_t i = 0; i < in; i++)
        numbers[i * in + i] = 1;
    return map;
}

/* A convolution that hands on the token itself. */
static inline rs_conv_op no_conv(built *b, int64_t channels)
{
    return (rs_conv_op){channels, 1, generate(b, 0, channels, 0, 1), NULL, {0}};
}

/* One branch of that kind, its op still empty, without skip or norm, so that what leaves is the op's
 * output; on n tokens of width d that `tag` generates. */
static inline built *bare_new(uint32_t tag, int64_t d, int64_t n, rs_branch_kind kind)
{
    built *b = calloc(1, sizeof *b);
    b->dtype = RS_F64;
    b->network = (rs_network){.family = "bare", .d_model = d, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = d;
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] = (rs_branch){.kind = kind, .scale = 1};
    b->begin[1] = n;
    b->states = malloc((size_t)(n * d) * sizeof *b->states);
    for (int64_t i = 0; i < n * d; i++)
        b->states[i] = generated(tag, (uint32_t)i);
    b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
    return b;
}

/* The same behind a norm. */
static inline built *vector_new(uint32_t tag, int64_t d, uint32_t norm_tag, rs_branch_kind kind)
{
    built *b = bare_new(tag, d, TOKENS, kind);
    b->layers[0].branches[0].before =
        (rs_norm_op){RS_NORM_RMSNORM, d, 1e-5, generate(b, norm_tag, d, 0.2, 1), NULL};
    return b;
}

static inline void are(const double *found, const double *expected, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(found[i] - expected[i]) <= 1e-10))
            fail_msg("%.12f, not %.12f", found[i], expected[i]);
}

#endif
