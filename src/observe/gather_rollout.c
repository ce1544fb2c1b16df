/*
 * gather_rollout.c: table rollout: the running product of the layers' mean matrices, later layers on the
 * left, and of half of those and the identity (attention rollout, Abnar and Zuidema 2020): how many
 * directions are left of the tokens if attention alone acted on them.
 *
 * Heads are told by several threads in no promised order. Their sum is one of whole numbers, 2⁻⁵² each,
 * which no order changes: an entry of a distribution loses no more than it would in float64.
 */
#include "observe/gather.h"

#include "linalg/blas.h"
#include "linalg/threads.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* The largest entry of a matrix whose sums over heads surely fit. */
#define LARGEST 1024.0
#define UNIT 0x1p-52

enum { FORMS = RS_ROLLOUT_FORMS, RATIO = 0, EFFECTIVE, COLUMNS };

/* What is kept of one sample of the batch. */
typedef struct rs_rolled {
    int64_t *sum;           /* [n, n] over the heads of the running layer, in UNITs */
    double *product[FORMS]; /* [n, n] of the layers so far */
    bool begun;             /* the products are there */
    bool lost;              /* an entry was NaN or too large: nothing is known from here on */
} rs_rolled;

/* Whether a layer does nothing to the order of tokens, or one mixer alone does whose heads are told. */
static bool is_followed(const rs_layer *layer)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    if (mixer && (rs_branch_heads(mixer) == 0 || (op && op->cross))) return false;
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_branch *branch = &layer->branches[b];
        const rs_op_traits *traits = rs_branch_traits(branch);
        if (branch != mixer && (traits->mixes || traits->reads_memory(branch))) return false;
    }
    return true;
}

static bool is_asked(const rs_gather *g)
{
    for (int32_t l = 0; l < g->network->n_layers; l++)
        if (!is_followed(&g->network->layers[l])) return false;
    return g->network->n_layers > 0 && rs_gather_longest_ranks(g) > 0;
}

static rs_status open_sample(rs_rolled *sample, size_t entries, rs_error *err)
{
    sample->sum = rs_calloc(entries, sizeof *sample->sum);
    bool there = sample->sum;
    for (int f = 0; f < FORMS; f++) {
        sample->product[f] = rs_malloc(entries, sizeof(double));
        there = there && sample->product[f];
    }
    return there ? RS_OK : rs_fail_memory(err, "rollout", entries * sizeof(double));
}

rs_status rs_gather_rollout_open(rs_gather *g, rs_error *err)
{
    int64_t n = rs_gather_longest_ranks(g);
    size_t rows = (size_t)g->network->n_layers * FORMS;
    if (!is_asked(g)) return RS_OK;
    g->rolled = rs_calloc((size_t)g->capacity, sizeof *g->rolled);
    g->out->rollout = rs_calloc(rows, sizeof *g->out->rollout);
    if (!g->rolled || !g->out->rollout) return rs_fail_memory(err, "rollout", 0);
    g->out->n_rollout = rows;
    for (size_t r = 0; r < rows; r++)
        g->out->rollout[r] = (rs_rollout_row){.layer = (int32_t)(r / FORMS), .form = r % FORMS};
    for (int64_t s = 0; s < g->capacity; s++)
        RS_TRY(open_sample(&g->rolled[s], (size_t)(n * n), err));
    size_t bytes = rs_rollout_room(n);
    if (bytes > g->listener.scratch_bytes) g->listener.scratch_bytes = bytes;
    return rs_sums_open(&g->rollout, rows, COLUMNS, err);
}

double rs_rollout_bytes(double samples, int64_t longest, int threads)
{
    double entries = (double)longest * (double)longest;
    return samples * entries * (sizeof(int64_t) + FORMS * sizeof(double)) +
           threads * (double)rs_rollout_room(longest);
}

/* ---- a head ---- */

static void add_entry(rs_rolled *sample, int64_t at, double entry)
{
    if (!(fabs(entry) <= LARGEST)) {
        __atomic_store_n(&sample->lost, true, __ATOMIC_RELAXED);
        return;
    }
    __atomic_fetch_add(&sample->sum[at], (int64_t)rint(entry / UNIT), __ATOMIC_RELAXED);
}

void rs_gather_rollout_head(rs_gather *g, const rs_attention_view *v)
{
    if (!g->rolled || !rs_measures_ranks(g->options, v->n)) return;
    rs_rolled *sample = &g->rolled[v->sample];
    for (int64_t i = 0; i < v->n; i++)
        for (int64_t j = 0; j < (v->causal ? i + 1 : v->n); j++) {
            int64_t at = i * v->ld + j;
            add_entry(sample, i * v->n + j,
                      v->precision == RS_PRECISION_F32 ? (double)((const float *)v->mixing)[at]
                                                       : ((const double *)v->mixing)[at]);
        }
}

/* ---- a layer ---- */

typedef struct rooms {
    double *mean, *next; /* [n, n] */
    rs_workspace ranks;
} rooms;

static rooms take_rooms(int64_t n, rs_workspace *space)
{
    rooms r;
    r.mean = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof *r.mean);
    r.next = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof *r.next);
    r.ranks = *space;
    rs_matrix_ranks_space(n, space);
    return r;
}

size_t rs_rollout_room(int64_t n)
{
    rs_workspace space = {0};
    (void)take_rooms(n, &space);
    return space.used;
}

/* product = M product, M the heads' mean, or half of it and the identity. */
static void multiply_layer(double *product, const rs_rolled *sample, int64_t n, int32_t heads,
                           rs_rollout_form form, const rooms *r)
{
    int64_t count = n * n;
    bool half = form == RS_ROLLOUT_HALF;
    for (int64_t i = 0; i < count; i++) {
        double mean = (double)sample->sum[i] * UNIT / heads;
        r->mean[i] = half ? 0.5 * (mean + (i % (n + 1) == 0)) : mean;
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)n, (blasint)n, 1,
                r->mean, (blasint)n, product, (blasint)n, 0, r->next, (blasint)n);
    memcpy(product, r->next, (size_t)count * sizeof *product);
}

static void set_identity(double *product, int64_t n)
{
    memset(product, 0, (size_t)(n * n) * sizeof *product);
    for (int64_t i = 0; i < n; i++)
        product[i * (n + 1)] = 1;
}

/* values: [COLUMNS] of one sample and form, behind a layer. */
static void fold(double *values, rs_rolled *sample, int64_t n, const rs_branch *mixer,
                 rs_rollout_form form, rs_workspace space)
{
    rooms r = take_rooms(n, &space);
    double sigma[2];
    rs_matrix_ranks ranks;
    values[RATIO] = values[EFFECTIVE] = NAN;
    if (sample->lost) return;
    if (!sample->begun) set_identity(sample->product[form], n);
    if (mixer && mixer->scale != 0)
        multiply_layer(sample->product[form], sample, n, rs_branch_heads(mixer), form, &r);
    if (!rs_matrix_ranks_measure(&ranks, sigma, sample->product[form], n, &r.ranks)) return;
    values[RATIO] = sigma[0] > 0 ? sigma[1] / sigma[0] : (double)NAN;
    values[EFFECTIVE] = ranks.effective;
}

/* Every product is followed by one thread, and they are averaged in the order of the samples. */
rs_status rs_gather_rollout_layer(rs_gather *g, int32_t layer, rs_error *err)
{
    const int64_t *begin = g->batch->batch.begin;
    const rs_branch *mixer = rs_layer_mixer(&g->network->layers[layer]);
    int64_t samples = g->batch->batch.samples;
    double *values = rs_malloc((size_t)samples * FORMS * COLUMNS, sizeof *values);
    if (!values) return rs_fail_memory(err, "rollout", (size_t)samples * sizeof *values);
#pragma omp parallel for num_threads(g->context->threads) schedule(dynamic)
    for (int64_t t = 0; t < samples * FORMS; t++) {
        int64_t s = t / FORMS, n = begin[s + 1] - begin[s];
        double *own = values + t * COLUMNS;
        own[RATIO] = own[EFFECTIVE] = NAN;
        if (n > 0 && rs_measures_ranks(g->options, n))
            fold(own, &g->rolled[s], n, mixer, (rs_rollout_form)(t % FORMS),
                 (rs_workspace){.base = g->listener.scratch[rs_thread_number()]});
    }
    for (int64_t t = 0; t < samples * FORMS; t++)
        rs_sums_add(&g->rollout, (size_t)layer * FORMS + (size_t)(t % FORMS), values + t * COLUMNS);
    for (int64_t s = 0; s < samples; s++) {
        int64_t n = begin[s + 1] - begin[s];
        g->rolled[s].begun = true;
        if (rs_measures_ranks(g->options, n))
            memset(g->rolled[s].sum, 0, (size_t)(n * n) * sizeof *g->rolled[s].sum);
    }
    rs_free(values);
    return RS_OK;
}

void rs_gather_rollout_end_batch(rs_gather *g)
{
    for (int64_t s = 0; g->rolled && s < g->capacity; s++)
        g->rolled[s].begun = g->rolled[s].lost = false;
}

void rs_gather_rollout_finish(rs_gather *g)
{
    for (size_t r = 0; r < g->out->n_rollout; r++) {
        g->out->rollout[r].sigma_ratio = rs_sums_mean(&g->rollout, r, RATIO);
        g->out->rollout[r].effective_rank = rs_sums_mean(&g->rollout, r, EFFECTIVE);
    }
}

void rs_gather_rollout_close(rs_gather *g)
{
    for (int64_t s = 0; g->rolled && s < g->capacity; s++) {
        rs_free(g->rolled[s].sum);
        for (int f = 0; f < FORMS; f++)
            rs_free(g->rolled[s].product[f]);
    }
    rs_free(g->rolled);
    rs_sums_close(&g->rollout);
}
