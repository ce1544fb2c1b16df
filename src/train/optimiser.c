/* optimiser.c: a list of tensors in chunks, their states, norms and steps. */
#include "train/optimiser.h"
#include "train/optimiser_parts.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* Large enough that a chunk's cost is its memory, small enough that few tensors fill all threads. */
enum { CHUNK = 16384 };

typedef struct chunk {
    int64_t item, first, n;
    double squares;
    double moved, before; /* squares of what a watched step changed, and of what was there */
} chunk;

struct rs_optimiser {
    rs_optimiser_rule rule;
    const rs_optimiser_ops *ops;
    rs_trained *items; /* [n] */
    double *scales;    /* [n] of gradients, for the next step */
    void **states;     /* [n, 2] */
    int64_t n, steps;
    chunk *chunks;
    int64_t n_chunks;
    rs_optimiser_change *changes; /* [n] that the next step fills; or NULL */
};

int rs_optimiser_states(rs_optimiser_kind kind)
{
    return kind == RS_OPTIMISER_SGD ? 0 : kind == RS_OPTIMISER_HEAVY_BALL ? 1 : 2;
}

static rs_status add_states(rs_optimiser *o, rs_error *err)
{
    for (int64_t i = 0; i < o->n; i++)
        for (int s = 0; s < rs_optimiser_states(o->rule.kind) && !o->items[i].frozen; s++) {
            size_t count = (size_t)o->items[i].count;
            o->states[2 * i + s] = rs_calloc(count, o->ops->size);
            if (!o->states[2 * i + s])
                return rs_fail_memory(err, "the state of an optimiser", count * o->ops->size);
        }
    return RS_OK;
}

static rs_status add_chunks(rs_optimiser *o, rs_error *err)
{
    for (int64_t i = 0; i < o->n; i++)
        if (!o->items[i].frozen) o->n_chunks += (o->items[i].count + CHUNK - 1) / CHUNK;
    o->chunks = rs_malloc((size_t)o->n_chunks, sizeof *o->chunks);
    if (!o->chunks) return rs_fail_memory(err, "an optimiser", (size_t)o->n_chunks * 32);
    chunk *next = o->chunks;
    for (int64_t i = 0; i < o->n; i++)
        for (int64_t at = 0; at < o->items[i].count && !o->items[i].frozen; at += CHUNK) {
            int64_t left = o->items[i].count - at;
            *next++ = (chunk){.item = i, .first = at, .n = left < CHUNK ? left : CHUNK};
        }
    return RS_OK;
}

static rs_status open_optimiser(rs_optimiser *o, const rs_trained *items, rs_error *err)
{
    size_t n = (size_t)o->n;
    o->items = rs_malloc(n, sizeof *o->items);
    o->scales = rs_malloc(n, sizeof *o->scales);
    o->states = rs_calloc(n, 2 * sizeof *o->states);
    if (!o->items || !o->scales || !o->states)
        return rs_fail_memory(err, "an optimiser", n * sizeof *o->items);
    for (int64_t i = 0; i < o->n; i++)
        o->items[i] = items[i], o->scales[i] = 1;
    RS_TRY(add_states(o, err));
    return add_chunks(o, err);
}

static const rs_optimiser_ops *widest_f32(void)
{
    size_t n;
    const rs_optimiser_ops *const *tables = rs_optimiser_f32_tables(&n);
    return tables[n - 1];
}

rs_status rs_optimiser_new(rs_optimiser **out, const rs_optimiser_rule *rule,
                           rs_precision precision, const rs_trained *items, int64_t n,
                           rs_error *err)
{
    *out = NULL;
    if (precision != RS_PRECISION_F32 && precision != RS_PRECISION_F64)
        return rs_fail(err, RS_E_UNSUPPORTED, "precision", "choose f32 or f64",
                       "weights are trained in f32 and f64 alone");
    rs_optimiser *o = rs_calloc(1, sizeof *o);
    if (!o) return rs_fail_memory(err, "an optimiser", sizeof *o);
    o->rule = *rule;
    o->ops = precision == RS_PRECISION_F32 ? widest_f32() : &rs_optimiser_f64;
    o->n = n;
    rs_status status = open_optimiser(o, items, err);
    if (status != RS_OK)
        rs_optimiser_free(o);
    else
        *out = o;
    return status;
}

void rs_optimiser_free(rs_optimiser *o)
{
    if (!o) return;
    for (int64_t i = 0; o->states && i < 2 * o->n; i++)
        rs_free(o->states[i]);
    rs_free(o->states);
    rs_free(o->scales);
    rs_free(o->items);
    rs_free(o->chunks);
    rs_free(o);
}

int64_t *rs_optimiser_steps(rs_optimiser *o)
{
    return &o->steps;
}

void *rs_optimiser_state(rs_optimiser *o, int64_t item, int which)
{
    return o->states[2 * item + which];
}

void rs_optimiser_add_direction(double *out, const rs_optimiser *o, int64_t item, int64_t first,
                                int64_t n, double by, double eps)
{
    o->ops->direction(out, o->states[2 * item], o->states[2 * item + 1], first, n, by, eps);
}

/* ---- norms ---- */

double rs_optimiser_norm(double *norms, rs_optimiser *o, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t c = 0; c < o->n_chunks; c++) {
        chunk *at = &o->chunks[c];
        at->squares = o->ops->squares(o->items[at->item].gradient, at->first, at->n);
    }
    double all = 0, own = 0;
    int64_t c = 0;
    for (int64_t i = 0; i < o->n; i++, all += own) {
        for (own = 0; c < o->n_chunks && o->chunks[c].item == i; c++)
            own += o->chunks[c].squares;
        if (norms) norms[i] = sqrt(own);
    }
    return sqrt(all);
}

/* As torch.nn.utils.clip_grad_norm_: a NaN stays a NaN, so that it is seen. */
static double scale_of(double norm, double most)
{
    double scale = most / (norm + 1e-6);
    return scale > 1 ? 1 : scale;
}

double rs_optimiser_clip(rs_optimiser *o, rs_clip_kind kind, double most, int threads)
{
    double all = rs_optimiser_norm(o->scales, o, threads);
    for (int64_t i = 0; i < o->n; i++)
        o->scales[i] = isinf(most) ? 1 : scale_of(kind == RS_CLIP_ALL ? all : o->scales[i], most);
    return all;
}

/* ---- steps ---- */

static rs_step_numbers numbers_of(const rs_optimiser *o, int64_t item, double lr)
{
    const rs_optimiser_rule *rule = &o->rule;
    double t = (double)o->steps;
    return (rs_step_numbers){
        .kind = rule->kind,
        .scale = o->scales[item],
        .lr = lr * o->items[item].rate,
        .decay = o->items[item].decay,
        .beta1 = rule->betas[0],
        .beta2 = rule->betas[1],
        .eps = rule->eps,
        .correction1 = 1 - pow(rule->betas[0], t),
        .correction2_root = sqrt(1 - pow(rule->betas[1], t)),
    };
}

static void step_chunk(const rs_optimiser *o, const chunk *at, double lr)
{
    const rs_trained *item = &o->items[at->item];
    rs_step_numbers numbers = numbers_of(o, at->item, lr);
    o->ops->step(item->weight, item->gradient, o->states[2 * at->item], o->states[2 * at->item + 1],
                 at->first, at->n, &numbers);
}

static void step_watched(const rs_optimiser *o, chunk *at, double lr)
{
    double before[CHUNK]; /* room for numbers of either precision */
    const char *weight = o->items[at->item].weight;
    size_t size = o->ops->size;
    memcpy(before, weight + (size_t)at->first * size, (size_t)at->n * size);
    at->before = o->ops->squares(before, 0, at->n);
    step_chunk(o, at, lr);
    at->moved = o->ops->moved(weight, before, at->first, at->n);
}

void rs_optimiser_watch(rs_optimiser *o, rs_optimiser_change *changes)
{
    o->changes = changes;
}

static void fill_changes(rs_optimiser *o, double lr)
{
    for (int64_t i = 0; i < o->n; i++)
        o->changes[i] = (rs_optimiser_change){.scale = o->scales[i], .rate = lr * o->items[i].rate};
    for (int64_t c = 0; c < o->n_chunks; c++) {
        const chunk *at = &o->chunks[c];
        o->changes[at->item].change += at->moved;
        o->changes[at->item].weight += at->before;
    }
    for (int64_t i = 0; i < o->n; i++)
        if (o->items[i].frozen) o->changes[i] = (rs_optimiser_change){0};
    o->changes = NULL;
}

void rs_optimiser_step(rs_optimiser *o, double lr, int threads)
{
    o->steps++;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t c = 0; c < o->n_chunks; c++)
        if (o->changes)
            step_watched(o, &o->chunks[c], lr);
        else
            step_chunk(o, &o->chunks[c], lr);
    if (o->changes) fill_changes(o, lr);
    for (int64_t i = 0; i < o->n; i++)
        o->scales[i] = 1;
}

double rs_optimiser_effective(const rs_optimiser *o, int64_t item, double lr)
{
    rs_step_numbers numbers = numbers_of(o, item, lr);
    if (rs_optimiser_states(o->rule.kind) < 2 || o->steps == 0 || o->items[item].frozen)
        return numbers.lr;
    return o->ops->effective(o->states[2 * item + 1], o->items[item].count, &numbers);
}

double rs_product_penalty(const rs_product_factor *a, const rs_product_factor *b, int64_t r,
                          double mu, rs_precision precision, void *work)
{
    bool single = precision == RS_PRECISION_F32;
    return (single ? &rs_optimiser_f32 : &rs_optimiser_f64)->penalty(a, b, r, mu, work);
}
