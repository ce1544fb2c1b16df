/*
 * gather_nulls.c: the null of the ranks in table attention: matrices of independent logits of each head's
 * own variance, under its mask (docs/theory/attention.md, 8). One set a head and length, whatever
 * the number of samples: a mean over the samples weights lengths by how many have them.
 */
#include "linalg/threads.h"
#include "observe/gather.h"

#include <math.h>
#include <stdatomic.h>

enum { DRAWS = 4 };

/* A length that samples have. */
typedef struct length_count {
    int64_t n, samples;
} length_count;

typedef struct nulls {
    rs_gather *g;
    length_count *lengths; /* [n_lengths] */
    size_t n_lengths;
    int64_t longest;
    rs_attention_ranks *drawn; /* [heads, n_lengths] */
    unsigned char *rooms;      /* [threads] of `room` bytes */
    size_t room;
} nulls;

static void count_length(nulls *o, int64_t n)
{
    size_t i = 0;
    if (n < 1 || !rs_measures_ranks(o->g->options, n)) return;
    while (i < o->n_lengths && o->lengths[i].n != n)
        i++;
    if (i == o->n_lengths) o->lengths[o->n_lengths++] = (length_count){.n = n};
    o->lengths[i].samples++;
    if (n > o->longest) o->longest = n;
}

/* The softmax of a head; NULL: it is none, or an edit changed what is applied to the values. */
static const rs_attention_op *softmax_of(const nulls *o, const rs_attention_row *row)
{
    const rs_branch *mixer = rs_layer_mixer(&o->g->network->layers[row->layer]);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    return op && !rs_attention_is_edited(op) && row->samples > 0 ? op : NULL;
}

static bool draw(nulls *o, size_t task)
{
    const rs_gather *g = o->g;
    const rs_attention_row *row = &g->out->attention[task / o->n_lengths];
    const rs_attention_op *op = softmax_of(o, row);
    int64_t n = o->lengths[task % o->n_lengths].n;
    uint64_t stream =
        (uint64_t)1 << 62 | (uint64_t)row->layer << 44 | (uint64_t)row->head << 26 | (uint64_t)n;
    return rs_attention_ranks_null(&o->drawn[task], op ? row->mean.logit_variance : (double)NAN, n,
                                   op && op->causal, op ? op->window : 0, DRAWS, g->context->seed,
                                   stream, o->rooms + o->room * (size_t)rs_thread_number());
}

/* The mean over the samples of what was drawn for their lengths. */
static void take_mean(const nulls *o, rs_attention_row *row, const rs_attention_ranks *drawn)
{
    static const size_t count = sizeof(rs_matrix_ranks) / sizeof(double);
    rs_attention_ranks mean = {0};
    double *to[] = {&mean.whole.effective, &mean.centred.effective};
    int64_t samples = 0;
    for (size_t k = 0; k < o->n_lengths; k++)
        samples += o->lengths[k].samples;
    for (size_t k = 0; k < o->n_lengths; k++) {
        const double *from[] = {&drawn[k].whole.effective, &drawn[k].centred.effective};
        double share = (double)o->lengths[k].samples / (double)samples;
        for (size_t half = 0; half < 2; half++)
            for (size_t c = 0; c < count; c++)
                to[half][c] += share * from[half][c];
    }
    rs_attention_null_ranks(&row->null, &mean);
}

static rs_status draw_all(nulls *o, rs_error *err)
{
    rs_measured *out = o->g->out;
    size_t tasks = out->n_attention * o->n_lengths;
    atomic_bool failed = false;
#pragma omp parallel for num_threads(o->g->context->threads) schedule(dynamic)
    for (size_t t = 0; t < tasks; t++)
        if (!atomic_load(&failed) &&
            (rs_check_cancelled(o->g->context, NULL) != RS_OK || !draw(o, t)))
            atomic_store(&failed, true);
    RS_TRY(rs_check_cancelled(o->g->context, err));
    if (atomic_load(&failed))
        return rs_fail(err, RS_E_LAPACK, "dgesdd", NULL,
                       "did not converge on a matrix of random logits");
    for (size_t i = 0; i < out->n_attention; i++)
        take_mean(o, &out->attention[i], o->drawn + i * o->n_lengths);
    return RS_OK;
}

static rs_status open_nulls(nulls *o, rs_error *err)
{
    const rs_inputs *inputs = o->g->inputs;
    size_t drawn, threads = (size_t)o->g->context->threads, bytes;
    o->lengths = rs_calloc((size_t)inputs->samples, sizeof *o->lengths);
    if (!o->lengths) return rs_fail_memory(err, "lengths", 0);
    for (int64_t s = 0; s < inputs->samples; s++)
        count_length(o, inputs->begin[s + 1] - inputs->begin[s]);
    if (o->n_lengths == 0) return RS_OK;
    o->room = rs_attention_ranks_null_room(o->longest);
    if (!rs_size_mul(o->g->out->n_attention, o->n_lengths, &drawn) ||
        !rs_size_mul(o->room, threads, &bytes))
        return rs_fail_memory(err, "ranks of random attention", SIZE_MAX);
    o->drawn = rs_calloc(drawn, sizeof *o->drawn);
    o->rooms = rs_malloc(threads, o->room);
    if (!o->drawn || !o->rooms) return rs_fail_memory(err, "ranks of random attention", bytes);
    return RS_OK;
}

rs_status rs_gather_attention_nulls(rs_gather *g, rs_error *err)
{
    nulls o = {.g = g};
    rs_status status = open_nulls(&o, err);
    if (status == RS_OK && o.n_lengths > 0) status = draw_all(&o, err);
    rs_free(o.lengths);
    rs_free(o.drawn);
    rs_free(o.rooms);
    return status;
}
