/* certify_steps_head.c: a head of a mixer as proof/steps.h reads it. */
#include "certify/certify_steps.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "network/op_traits.h"

#include <math.h>

const char *rs_steps_unproved(const rs_branch *mixer)
{
    rs_branch bare = *mixer;
    if (!rs_branch_attention(mixer)) return "the mixer is no softmax attention";
    const char *why = rs_branch_unproved(mixer);
    if (!why) why = rs_branch_traits(mixer)->not_stochastic(mixer);
    if (why) return why;
    bare.attention.causal = false; /* masks are for the lines to tell */
    bare.attention.window = 0;
    why = rs_branch_traits(&bare)->not_bilinear(&bare);
    if (!why && mixer->scale == 0) why = "the mixer has strength 0: nothing enters it";
    return why;
}

/* The weights of one head. */
typedef struct head_weights {
    double *q, *k, *v, *o, *o_all, *bias;
} head_weights;

static void close_weights(head_weights *w)
{
    rs_free(w->q);
    rs_free(w->k);
    rs_free(w->v);
    rs_free(w->o);
    rs_free(w->o_all);
    rs_free(w->bias);
}

static rs_status room(double **out, int64_t rows, int64_t cols, rs_error *err)
{
    size_t count;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count))
        return rs_fail_memory(err, "proof steps", SIZE_MAX);
    *out = rs_malloc(count, sizeof **out);
    return *out ? RS_OK : rs_fail_memory(err, "proof steps", count * sizeof **out);
}

/* What each unit of the head's value writes: columns of the output map. */
static rs_status read_output(head_weights *w, const rs_attention_op *op, int32_t h, rs_error *err)
{
    int64_t dim = op->value_dim;
    if (!op->o.weight) return RS_OK;
    RS_TRY(room(&w->o_all, op->o.out, op->o.in, err));
    RS_TRY(room(&w->o, dim, op->o.out, err));
    RS_TRY(rs_dense_rows(w->o_all, NULL, &op->o, 0, op->o.out, err));
    for (int64_t u = 0; u < dim; u++)
        for (int64_t k = 0; k < op->o.out; k++)
            w->o[u * op->o.out + k] = w->o_all[k * op->o.in + h * dim + u];
    return RS_OK;
}

static rs_status read_weights(head_weights *w, const rs_attention_op *op, int32_t h, rs_error *err)
{
    int32_t g = h / (op->heads / op->kv_heads);
    int64_t dim = op->head_dim, value = op->value_dim;
    RS_TRY(room(&w->q, dim, op->q.in, err));
    RS_TRY(room(&w->k, dim, op->k.in, err));
    RS_TRY(room(&w->v, value, op->v.in, err));
    RS_TRY(room(&w->bias, dim, 1, err));
    RS_TRY(rs_dense_rows(w->q, w->bias, &op->q, h * dim, dim, err));
    RS_TRY(rs_dense_rows(w->k, NULL, &op->k, g * dim, dim, err));
    RS_TRY(rs_dense_rows(w->v, NULL, &op->v, g * value, value, err));
    return read_output(w, op, h, err);
}

static rs_steps_head sizes_of(const rs_attention_op *op, int64_t n)
{
    return (rs_steps_head){.n = n,
                           .d = op->q.in,
                           .units = op->head_dim,
                           .values = op->value_dim,
                           .out = op->o.weight ? op->o.out : op->value_dim,
                           .scale = op->scale / op->temperature,
                           .causal = op->causal,
                           .window = op->window};
}

static bool all_finite(const double *a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(a[i])) return false;
    return true;
}

static bool finite_weights(const head_weights *w, const rs_steps_head *h)
{
    return isfinite(h->scale) && all_finite(w->q, h->units * h->d) &&
           all_finite(w->k, h->units * h->d) && all_finite(w->v, h->values * h->d) &&
           all_finite(w->bias, h->units) && (!w->o || all_finite(w->o, h->values * h->out));
}

rs_status rs_steps_read(rs_proved_head *out, const rs_branch *mixer, const double *x, int64_t n,
                        const rs_context *context, rs_error *err)
{
    const rs_attention_op *op = rs_branch_attention(mixer);
    head_weights w = {0};
    rs_steps_head head = sizes_of(op, n);
    out->masked = n > 1 && (op->causal || (op->window > 0 && op->window < n));
    if (!all_finite(x, n * head.d)) {
        out->failed = "what enters the mixer is not finite";
        return RS_OK;
    }
    rs_status status = read_weights(&w, op, out->head, err);
    if (status == RS_OK && !finite_weights(&w, &head))
        out->failed = "the head's weights are not finite";
    else if (status == RS_OK) {
        head.x = x;
        head.q = w.q;
        head.k = w.k;
        head.q_bias = w.bias;
        head.v = w.v;
        head.o = w.o;
        status = rs_steps_of(&out->steps, &head, context, err);
    }
    close_weights(&w);
    return status;
}

double rs_steps_need(const rs_branch *mixer, int64_t n)
{
    const rs_attention_op *op = rs_branch_attention(mixer);
    if (rs_steps_unproved(mixer)) return 0;
    rs_steps_head head = sizes_of(op, n);
    double weights = (double)(2 * op->head_dim + op->value_dim) * (double)head.d +
                     (double)head.out * (double)(op->heads + 1) * (double)op->value_dim;
    static const double one;
    head.o = op->o.weight ? &one : NULL;
    return rs_steps_bytes(&head) + weights * sizeof(double);
}
