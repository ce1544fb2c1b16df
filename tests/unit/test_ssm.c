/* test_ssm.c: the state-space mixers of the engine against their definitions, written as plain
 * loops over the matrices M_ij of docs/theory/ssm.md, and against published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "forward_reference.h"
#include "property.h"

#include "base/memory.h"

#include <omp.h>

/* ---- drawn mixers ---- */

static rs_conv_op conv_of(built *b, int64_t channels)
{
    rs_conv_op conv = {.channels = channels, .width = draw(b, 1, 6)};
    conv.weight = tensor(b, RS_F32, channels * conv.width, 0, 0.7);
    if (chance(b, 0.7)) conv.bias = tensor(b, RS_F32, channels, 0, 0.3);
    return conv;
}

static rs_branch around_of(built *b, int64_t d, rs_branch_kind kind)
{
    rs_branch branch = {.kind = kind, .skip = chance(b, 0.3) ? 0.5 : 1, .scale = 1};
    if (chance(b, 0.7)) branch.before = norm_of(b, d);
    if (chance(b, 0.3)) branch.after = norm_of(b, d);
    return branch;
}

static rs_branch ssd_of(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_SSD);
    rs_ssd_op *op = &branch.ssd;
    op->groups = (int32_t)draw(b, 1, 3);
    op->heads = op->groups * (int32_t)draw(b, 1, 4);
    op->head_dim = chance(b, 0.1) ? 130 : draw(b, 1, 9);
    op->state = draw(b, 1, 9);
    int64_t inner = op->heads * op->head_dim, keys = op->groups * op->state;
    op->conv = conv_of(b, inner + 2 * keys);
    op->in = dense_of(b, d, 2 * inner + 2 * keys + op->heads, chance(b, 0.3));
    op->o = dense_of(b, inner, d, chance(b, 0.3));
    op->a_log = tensor(b, RS_F32, op->heads, 0, 1.5);
    if (chance(b, 0.7)) op->dt_bias = tensor(b, RS_F32, op->heads, -1, 2);
    if (chance(b, 0.7)) op->d = tensor(b, RS_F32, op->heads, 1, 0.5);
    op->step_least = chance(b, 0.3) ? 0.05 : 0;
    op->step_most = chance(b, 0.3) ? 0.2 : INFINITY;
    op->gate = (rs_gate_place)draw(b, RS_GATE_BEFORE_NORM, RS_GATE_NONE);
    op->norm_groups = chance(b, 0.5) ? op->groups : 1;
    if (chance(b, 0.8))
        op->norm =
            (rs_norm_op){RS_NORM_RMSNORM, inner, 1e-5, tensor(b, RS_F32, inner, 1, 0.2), NULL};
    return branch;
}

static rs_norm_op inner_norm(built *b, bool there, int64_t dim)
{
    const rs_tensor *gain = there && chance(b, 0.5) ? tensor(b, RS_F32, dim, 1, 0.2) : NULL;
    return there ? (rs_norm_op){RS_NORM_RMSNORM, dim, 1e-6, gain, NULL} : (rs_norm_op){0};
}

static rs_branch s6_of(built *b, int64_t d)
{
    rs_branch branch = around_of(b, d, RS_BRANCH_S6);
    rs_s6_op *op = &branch.s6;
    op->inner = chance(b, 0.2) ? 70 : draw(b, 1, 20);
    op->state = draw(b, 1, 9);
    op->rank = draw(b, 1, 4);
    op->conv = conv_of(b, op->inner);
    op->in = dense_of(b, d, 2 * op->inner, chance(b, 0.3));
    op->x = dense_of(b, op->inner, op->rank + 2 * op->state, false);
    op->step = dense_of(b, op->rank, op->inner, chance(b, 0.8));
    op->o = dense_of(b, op->inner, d, chance(b, 0.3));
    op->a_log = tensor(b, RS_F32, op->inner * op->state, 0, 1);
    if (chance(b, 0.7)) op->d = tensor(b, RS_F32, op->inner, 1, 0.5);
    op->gated = chance(b, 0.8);
    bool norms = chance(b, 0.3);
    op->dt_norm = inner_norm(b, norms, op->rank);
    op->b_norm = inner_norm(b, norms, op->state);
    op->c_norm = inner_norm(b, norms, op->state);
    return branch;
}

/* States of up to `longest` tokens through one or two mixers. */
static built *mixers_new(uint64_t seed, int64_t longest)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 78);
    b->dtype = RS_F32;
    int64_t d = draw(b, 1, 12);
    b->network = (rs_network){
        .family = "drawn", .d_model = d, .layers = b->layers, .n_layers = (int32_t)draw(b, 1, 2)};
    b->network.embedding.width = d;
    b->network.embedding.scale = 1;
    for (int32_t l = 0; l < b->network.n_layers; l++) {
        b->layers[l].n_branches = 1;
        b->layers[l].branches[0] = chance(b, 0.5) ? ssd_of(b, d) : s6_of(b, d);
    }
    b->batch = (rs_batch){.samples = (int32_t)draw(b, 1, 4), .begin = b->begin};
    for (int32_t s = 0; s < b->batch.samples; s++)
        b->begin[s + 1] = b->begin[s] + (chance(b, 0.1) ? 0 : draw(b, 1, longest));
    int64_t count = b->begin[b->batch.samples] * d;
    b->states = malloc((size_t)(count + 1) * sizeof *b->states);
    for (int64_t i = 0; i < count; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch.states = b->states;
    return b;
}

/* ---- the definitions ---- */

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 20 ? x : log1p(exp(x));
}

/* u: [n, channels] from rows of `width` numbers, from column `first` on. */
static double *ref_conv(const double *rows, int64_t n, int64_t width, int64_t first,
                        const rs_conv_op *conv)
{
    double *w = ref_numbers(conv->weight), *bias = ref_numbers(conv->bias);
    double *u = malloc((size_t)(n * conv->channels + 1) * sizeof *u);
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < conv->channels; c++) {
            double sum = bias ? bias[c] : 0;
            for (int64_t j = 0; j < conv->width; j++) {
                int64_t row = t - conv->width + 1 + j;
                if (row >= 0) sum += w[c * conv->width + j] * rows[row * width + first + c];
            }
            u[t * conv->channels + c] = silu(sum);
        }
    free(w);
    free(bias);
    return u;
}

typedef void hear_matrix(void *user, int32_t head, const double *m, int64_t n);

/* y: [n, d] of one sample. */
static void ref_ssd(double *y, const rs_ssd_op *op, const double *x, int64_t n, hear_matrix *hear,
                    void *user)
{
    int64_t inner = op->heads * op->head_dim, width = op->in.out, channels = op->conv.channels;
    double *p = ref_dense_rows(x, n, &op->in), *u = ref_conv(p, n, width, inner, &op->conv);
    double *a = ref_numbers(op->a_log), *bias = ref_numbers(op->dt_bias), *d = ref_numbers(op->d);
    double *gain = ref_numbers(op->norm.gain), *m = malloc((size_t)(n * n + 1) * sizeof *m);
    double *step = malloc((size_t)(n + 1) * sizeof *step);
    double *v = calloc((size_t)(n * inner + 1), sizeof *v);
    for (int32_t h = 0; h < op->heads; h++) {
        const double *keys = u + inner + h / (op->heads / op->groups) * op->state;
        const double *queries = keys + op->groups * op->state;
        for (int64_t t = 0; t < n; t++) {
            double dt = p[t * width + width - op->heads + h] + (bias ? bias[h] : 0);
            step[t] = fmin(fmax(softplus(dt), op->step_least), op->step_most);
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double dot = 0, sum = 0;
                for (int64_t s = 0; s < op->state; s++)
                    dot += queries[i * channels + s] * keys[j * channels + s];
                for (int64_t t = j + 1; t <= i; t++)
                    sum += step[t];
                m[i * n + j] = j > i ? 0 : dot * exp(-exp(a[h]) * sum) * step[j];
                if (i == j && d) m[i * n + j] += d[h];
            }
        if (hear) hear(user, h, m, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                for (int64_t c = h * op->head_dim; c < (h + 1) * op->head_dim; c++)
                    v[i * inner + c] += m[i * n + j] * u[j * channels + c];
    }
    int64_t dim = inner / op->norm_groups;
    for (int64_t i = 0; i < n; i++) {
        double *row = v + i * inner;
        for (int64_t c = 0; c < inner && op->gate == RS_GATE_BEFORE_NORM; c++)
            row[c] *= silu(p[i * width + c]);
        for (int64_t g = 0; g < op->norm_groups && op->norm.kind != RS_NORM_NONE; g++) {
            double square = 0;
            for (int64_t c = g * dim; c < (g + 1) * dim; c++)
                square += row[c] * row[c];
            for (int64_t c = g * dim; c < (g + 1) * dim; c++)
                row[c] *= (gain ? gain[c] : 1) / sqrt(square / (double)dim + op->norm.eps);
        }
        for (int64_t c = 0; c < inner && op->gate == RS_GATE_AFTER_NORM; c++)
            row[c] *= silu(p[i * width + c]);
        ref_dense(y + i * op->o.out, row, &op->o);
    }
    void *used[] = {p, u, a, bias, d, gain, m, step, v};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

/* y: [n, d] of one sample. */
static void ref_s6(double *y, const rs_s6_op *op, const double *x, int64_t n, hear_matrix *hear,
                   void *user)
{
    int64_t inner = op->inner, width = op->in.out, read = op->x.out, k = op->state;
    double *p = ref_dense_rows(x, n, &op->in), *u = ref_conv(p, n, width, 0, &op->conv);
    double *r = ref_dense_rows(u, n, &op->x), *a = ref_numbers(op->a_log), *d = ref_numbers(op->d);
    double *step = malloc((size_t)(n * inner + 1) * sizeof *step);
    double *m = malloc((size_t)(n * n + 1) * sizeof *m), *v = calloc((size_t)(n * inner + 1), 8);
    for (int64_t t = 0; t < n; t++) {
        ref_norm(r + t * read, &op->dt_norm);
        ref_norm(r + t * read + op->rank, &op->b_norm);
        ref_norm(r + t * read + op->rank + k, &op->c_norm);
        ref_dense(step + t * inner, r + t * read, &op->step);
        for (int64_t c = 0; c < inner; c++)
            step[t * inner + c] = softplus(step[t * inner + c]);
    }
    for (int64_t c = 0; c < inner; c++) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, entry = 0;
                for (int64_t t = j + 1; t <= i; t++)
                    sum += step[t * inner + c];
                for (int64_t s = 0; s < k && j <= i; s++)
                    entry += r[i * read + op->rank + k + s] * r[j * read + op->rank + s] *
                             exp(-exp(a[c * k + s]) * sum) * step[j * inner + c];
                m[i * n + j] = entry + (i == j && d ? d[c] : 0);
            }
        if (hear) hear(user, (int32_t)c, m, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++)
                v[i * inner + c] += m[i * n + j] * u[j * inner + c];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < inner && op->gated; c++)
            v[i * inner + c] *= silu(p[i * width + inner + c]);
        ref_dense(y + i * op->o.out, v + i * inner, &op->o);
    }
    void *used[] = {p, u, r, a, d, step, m, v};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

static void ref_mixer(double *y, const rs_branch *branch, const double *x, int64_t n,
                      hear_matrix *hear, void *user)
{
    if (branch->kind == RS_BRANCH_SSD)
        ref_ssd(y, &branch->ssd, x, n, hear, user);
    else
        ref_s6(y, &branch->s6, x, n, hear, user);
}

/* ---- what the engine tells ---- */

typedef struct heard {
    const built *b;
    double *states[3];           /* behind layer l, as double */
    double *matrices[2][4][210]; /* [layer][sample][head] */
    rs_precision precision;
    bool matrices_wanted;
} heard;

static double *as_double(const void *data, bool f32, size_t count)
{
    double *copy = malloc((count + 1) * sizeof *copy);
    for (size_t i = 0; i < count; i++)
        copy[i] = f32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
    return copy;
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    heard *h = user;
    (void)err, (void)site;
    h->states[layer] = as_double(view->data, view->precision == RS_PRECISION_F32,
                                 (size_t)(view->rows * view->cols));
    return RS_OK;
}

static rs_status on_matrix(void *user, const rs_attention_view *view, rs_error *err)
{
    heard *h = user;
    (void)err;
    assert_true(view->causal && !view->probabilities && view->n == view->keys);
    double **place = &h->matrices[view->layer][view->sample][view->head];
    assert_null(*place);
    *place = as_double(view->mixing, view->precision == RS_PRECISION_F32,
                       (size_t)(view->n * view->keys));
    return RS_OK;
}

static void run_engine(heard *h, const built *b, rs_precision precision, int threads, bool matrices)
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    *h = (heard){.b = b, .precision = precision};
    rs_context context = {.threads = threads};
    rs_tap tap = {.user = h, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    if (matrices) tap.attention = on_matrix;
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, &b->network, weights, &context, &err) != RS_OK)
        fail_msg("%s", err.what);
    if (rs_runner_run(runner, &b->batch, taps, 1, &err) != RS_OK) fail_msg("%s", err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static void heard_free(heard *h)
{
    for (int l = 0; l < 3; l++)
        free(h->states[l]);
    for (int l = 0; l < 2; l++)
        for (int s = 0; s < 4; s++)
            for (int i = 0; i < 210; i++)
                free(h->matrices[l][s][i]);
}

/* ---- comparing ---- */

typedef struct comparison {
    const heard *heard;
    int32_t layer, sample;
    double tolerance;
    uint64_t seed;
} comparison;

static void is_near(const double *a, const double *b, size_t count, double tolerance, uint64_t seed,
                    const char *what)
{
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(b[i]));
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, isfinite(a[i]) ? fabs(a[i] - b[i]) : INFINITY);
    if (worst > tolerance * largest)
        fail_msg("seed %d: %s off by %g of %g", (int)seed, what, worst, largest);
}

static void compare_matrix(void *user, int32_t head, const double *m, int64_t n)
{
    const comparison *c = user;
    const double *told = c->heard->matrices[c->layer][c->sample][head];
    assert_non_null(told);
    is_near(told, m, (size_t)(n * n), c->tolerance, c->seed, "matrix");
}

/* The reference continues from the engine's own states, so that errors do not add up. */
static void compare_all(const heard *h, const built *b, double tolerance, uint64_t seed)
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
            ref_mixer(y, branch, x, n, h->matrices[l][s][0] ? compare_matrix : NULL, &c);
            for (size_t i = 0; i < count; i++)
                y[i] += branch->skip * h->states[l][(size_t)(from * d) + i];
            ref_norm_rows(y, n, d, &branch->after);
            is_near(h->states[l + 1] + from * d, y, count, tolerance, seed, "state");
            free(x);
            free(y);
        }
    }
}

static void is_same(const heard *a, const heard *b, const built *of, uint64_t seed)
{
    size_t bytes = (size_t)(of->begin[of->batch.samples] * of->network.d_model) * sizeof(double);
    for (int32_t l = 0; l <= of->network.n_layers; l++)
        if (memcmp(a->states[l], b->states[l], bytes) != 0)
            fail_msg("seed %d, layer %d", (int)seed, (int)l);
}

static void drawn_mixers(void **state)
{
    (void)state;
    for (int t = property_start(150, 1000); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, seed % 10 ? 40 : 200);
        heard exact, single, threads;
        run_engine(&exact, b, RS_PRECISION_F64, 1, true);
        compare_all(&exact, b, 1e-11, seed);
        run_engine(&single, b, RS_PRECISION_F32, 1, seed % 2);
        compare_all(&single, b, 3e-4, seed);
        run_engine(&threads, b, RS_PRECISION_F64, 3, seed % 2);
        is_same(&exact, &threads, b, seed);
        heard_free(&exact);
        heard_free(&single);
        heard_free(&threads);
        built_free(b);
    }
    property_holds(1);
}

/* Texts longer than a panel, beside short ones: what is carried is what alone gives. */
static void long_texts(void **state)
{
    (void)state;
    for (int t = property_start(12, 500); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, 5000);
        heard all, whole;
        run_engine(&all, b, RS_PRECISION_F64, 2, false);
        rs_batch together = b->batch;
        for (int32_t s = 0; s < together.samples; s++) {
            int64_t from = together.begin[s], n = together.begin[s + 1] - from,
                    d = b->network.d_model;
            b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states + from * d};
            int64_t begin[8];
            memcpy(begin, b->begin, sizeof begin);
            b->begin[0] = 0, b->begin[1] = n;
            run_engine(&whole, b, RS_PRECISION_F64, 1, false);
            for (int32_t l = 0; l <= b->network.n_layers && n; l++)
                is_near(all.states[l] + from * d, whole.states[l], (size_t)(n * d), 1e-12, seed,
                        "long");
            memcpy(b->begin, begin, sizeof begin);
            heard_free(&whole);
        }
        b->batch = together;
        heard_free(&all);
        built_free(b);
    }
    property_holds(1);
}

/* ---- vectors ---- */

/* Entry k of the tensor with that tag: scale (h / 2^31 - 1) + shift, h a hash of both. */
static double generated(uint32_t tag, uint32_t k)
{
    uint32_t h = (k + 1) * 2654435761u + tag * 2246822519u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    h *= 3266489917u;
    h ^= h >> 16;
    return (double)h / 2147483648.0 - 1;
}

static rs_tensor *generate(built *b, uint32_t tag, int64_t count, double scale, double shift)
{
    rs_tensor *t = (rs_tensor *)(uintptr_t)tensor(b, RS_F64, count, 0, 0);
    double *numbers = (double *)(uintptr_t)t->data;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = scale * generated(tag, (uint32_t)i) + shift;
    return t;
}

/* A_log = ln(1 .. n) in each of the rows. */
static rs_tensor *logarithms(built *b, int64_t rows, int64_t n)
{
    rs_tensor *t = generate(b, 0, rows * n, 0, 0);
    double *numbers = (double *)(uintptr_t)t->data;
    for (int64_t i = 0; i < rows * n; i++)
        numbers[i] = log((double)(i % n + 1));
    return t;
}

static rs_dense generated_map(built *b, uint32_t tag, int64_t in, int64_t out, double scale)
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

enum { TOKENS = 6 };

static built *vector_new(uint32_t tag, int64_t d, uint32_t norm_tag, rs_branch_kind kind)
{
    built *b = calloc(1, sizeof *b);
    b->dtype = RS_F64;
    b->network = (rs_network){.family = "vector", .d_model = d, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = d;
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] =
        (rs_branch){.kind = kind,
                    .scale = 1, /* no skip: what leaves is the mixer's output */
                    .before = {RS_NORM_RMSNORM, d, 1e-5, generate(b, norm_tag, d, 0.2, 1), NULL}};
    b->begin[1] = TOKENS;
    b->states = malloc((size_t)(TOKENS * d) * sizeof *b->states);
    for (int64_t i = 0; i < TOKENS * d; i++)
        b->states[i] = generated(tag, (uint32_t)i);
    b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
    return b;
}

static void are(const double *found, const double *expected, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(found[i] - expected[i]) <= 1e-10))
            fail_msg("%.12f, not %.12f", found[i], expected[i]);
}

/* lambda_skip_ssm, 7.2: block vectors that were computed in NumPy. */
static void mamba_vector(void **state)
{
    (void)state;
    built *b = vector_new(1, 4, 10, RS_BRANCH_S6);
    rs_s6_op *op = &b->layers[0].branches[0].s6;
    *op = (rs_s6_op){.inner = 8, .state = 4, .rank = 2, .gated = true};
    op->in = generated_map(b, 11, 4, 16, 0.8);
    op->conv = (rs_conv_op){8, 4, generate(b, 12, 32, 0.6, 0), generate(b, 13, 8, 0.1, 0)};
    op->x = generated_map(b, 14, 8, 10, 0.7);
    op->step = generated_map(b, 15, 2, 8, 0.7);
    op->step.bias = generate(b, 16, 8, 1, -2);
    op->a_log = logarithms(b, 8, 4);
    op->d = generate(b, 17, 8, 0.3, 1);
    op->o = generated_map(b, 18, 8, 4, 0.5);
    static const double first[] = {-0.013769707938, -0.023641162951, -0.007041031304,
                                   0.041102322119};
    static const double last[] = {0.071635756469, -0.090710599448, 0.046265891997, -0.021849579017};
    static const double row[] = {-0.003569010648, -0.002800562004, -0.018014194140,
                                 0.003272316722,  0.001074621349,  0.749960797252};
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    are(h.states[1], first, 4);
    are(h.states[1] + 20, last, 4);
    are(h.matrices[0][0][0] + 30, row, 6);
    heard_free(&h);
    op->gated = false;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    double square = 0, norm = 1.163451624815;
    for (int i = 0; i < 24; i++)
        square += h.states[1][i] * h.states[1][i];
    square = sqrt(square);
    are(&square, &norm, 1);
    heard_free(&h);
    built_free(b);
}

static void mamba2_vector(void **state)
{
    (void)state;
    built *b = vector_new(2, 8, 30, RS_BRANCH_SSD);
    rs_ssd_op *op = &b->layers[0].branches[0].ssd;
    *op = (rs_ssd_op){.heads = 4,
                      .groups = 2,
                      .head_dim = 4,
                      .state = 4,
                      .step_most = INFINITY,
                      .gate = RS_GATE_BEFORE_NORM,
                      .norm_groups = 2};
    op->in = generated_map(b, 31, 8, 52, 0.6);
    op->conv = (rs_conv_op){32, 4, generate(b, 32, 128, 0.6, 0), generate(b, 33, 32, 0.1, 0)};
    op->dt_bias = generate(b, 34, 4, 1, -1);
    op->a_log = logarithms(b, 1, 4);
    op->d = generate(b, 35, 4, 0.3, 1);
    op->norm = (rs_norm_op){RS_NORM_RMSNORM, 16, 1e-5, generate(b, 36, 16, 0.2, 1), NULL};
    op->o = generated_map(b, 37, 16, 8, 0.5);
    static const double grouped[] = {1.905280599605,  -1.168090847042, -0.179256734462,
                                     0.198232205364,  -0.967395527668, -0.244663536106,
                                     -0.521692912380, 0.032378948187};
    static const double whole_first[] = {0.215526525968,  1.229554531078,  0.968675375600,
                                         -0.164426022569, -0.033908396558, 0.480225836506,
                                         0.590587813774,  -1.685903403879};
    static const double whole[] = {1.723069767133,  0.123783047623,  -1.077744741036,
                                   -0.450225835360, -0.652577474325, -0.290594963996,
                                   -0.407934347757, -1.259421116209};
    static const double row[] = {3.327976865470e-03,  -7.902976400806e-04, -4.478998551881e-03,
                                 -2.031610356984e-03, -2.549990671532e-02, 8.325846255205e-01};
    heard h;
    run_engine(&h, b, RS_PRECISION_F64, 1, true);
    are(h.states[1] + 40, grouped, 8);
    are(h.matrices[0][0][0] + 30, row, 6);
    heard_free(&h);
    op->norm_groups = 1;
    run_engine(&h, b, RS_PRECISION_F64, 1, false);
    are(h.states[1], whole_first, 8);
    are(h.states[1] + 40, whole, 8);
    heard_free(&h);
    built_free(b);
}

/* ---- what a checkpoint may hold ---- */

/* A rate that overflows is named, where 0 times infinity would be NaN. */
static void rates_that_overflow(void **state)
{
    (void)state;
    for (int kind = RS_BRANCH_SSD; kind <= RS_BRANCH_S6; kind++) {
        built *b = calloc(1, sizeof *b);
        b->random = rs_random_new(7, 7);
        b->network =
            (rs_network){.family = "drawn", .d_model = 3, .layers = b->layers, .n_layers = 1};
        b->layers[0].n_branches = 1;
        b->layers[0].branches[0] = kind == RS_BRANCH_SSD ? ssd_of(b, 3) : s6_of(b, 3);
        rs_branch *branch = &b->layers[0].branches[0];
        const rs_tensor **a = kind == RS_BRANCH_SSD ? &branch->ssd.a_log : &branch->s6.a_log;
        *a = tensor(b, RS_F32, (*a)->count, 5000, 0);
        b->begin[1] = 2;
        b->states = calloc(6, sizeof *b->states);
        b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
        rs_weights *weights;
        rs_runner *runner;
        rs_error err = {0};
        rs_context context = {.threads = 1};
        assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F32, 1 << 20, &err), RS_OK);
        assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err), RS_OK);
        assert_int_equal(rs_runner_run(runner, &b->batch, NULL, 0, &err), RS_E_TENSOR_VALUE);
        assert_string_equal(err.where, "drawn");
        rs_runner_close(runner);
        rs_weights_close(weights);
        built_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mamba_vector),        cmocka_unit_test(mamba2_vector),
        cmocka_unit_test(drawn_mixers),        cmocka_unit_test(long_texts),
        cmocka_unit_test(rates_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
