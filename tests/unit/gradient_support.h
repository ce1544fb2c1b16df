/* gradient_support.h: gradients of the engine held against central differences of a loss that is
 * computed here, from what a forward pass tells. Include behind cmocka.h. */
#ifndef RS_TEST_GRADIENT_SUPPORT_H
#define RS_TEST_GRADIENT_SUPPORT_H

#include "base/random.h"
#include "engine/gradient.h"
#include "network/graph.h"
#include "network/op_traits.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a copy of a network whose weights are doubles of its own ---- */

enum { LOOSE_TENSORS = 4096, LOOSE_BRANCHES = 512 };

typedef struct loose {
    rs_network network;
    struct {
        const rs_tensor *from;
        rs_tensor to;
        double *values;
    } tensors[LOOSE_TENSORS];
    int n;
    rs_graph graphs[LOOSE_BRANCHES]; /* of mixers with a given matrix, which know it as well */
    int n_graphs;
} loose;

static inline const rs_tensor *loosen_tensor(loose *l, const rs_tensor *from)
{
    if (!from) return NULL;
    for (int i = 0; i < l->n; i++)
        if (l->tensors[i].from == from) return &l->tensors[i].to;
    assert_true(l->n < LOOSE_TENSORS);
    double *values = malloc(((size_t)from->count + 1) * sizeof *values);
    rs_tensor_decode_f64(values, from, 0, from->count);
    l->tensors[l->n].from = from;
    l->tensors[l->n].values = values;
    l->tensors[l->n].to = *from;
    l->tensors[l->n].to.dtype = RS_F64;
    l->tensors[l->n].to.data = (const uint8_t *)values;
    l->tensors[l->n].to.bytes = (uint64_t)from->count * sizeof *values;
    return &l->tensors[l->n++].to;
}

static inline void loosen_norm(loose *l, rs_norm_op *norm)
{
    norm->gain = loosen_tensor(l, norm->gain);
    norm->bias = loosen_tensor(l, norm->bias);
}

static inline void loosen_row(loose *l, const rs_weight_row *row, void *owner)
{
    rs_dense *map = rs_weight_map_to_fill(row, owner);
    rs_norm_op *norm = rs_weight_norm_to_fill(row, owner);
    rs_conv_op *conv = rs_weight_conv_to_fill(row, owner);
    if (map) {
        map->weight = loosen_tensor(l, map->weight);
        map->bias = loosen_tensor(l, map->bias);
        map->scale = NULL; /* so its numbers are others, of another network: as good */
    } else if (norm) {
        loosen_norm(l, norm);
    } else if (conv) {
        conv->weight = loosen_tensor(l, conv->weight);
        conv->more[0] = loosen_tensor(l, conv->more[0]);
        conv->more[1] = loosen_tensor(l, conv->more[1]);
        conv->bias = loosen_tensor(l, conv->bias);
    } else {
        const rs_tensor **at = (const rs_tensor **)(void *)((char *)owner + row->offset);
        *at = loosen_tensor(l, *at);
    }
}

static inline void loosen_list(loose *l, const rs_weight_list *list, void *owner)
{
    for (size_t i = 0; i < list->n; i++)
        loosen_row(l, &list->rows[i], owner);
}

static inline void loosen_graph(loose *l, rs_graph_op *op)
{
    assert_true(l->n_graphs < LOOSE_BRANCHES);
    rs_graph *graph = &l->graphs[l->n_graphs++];
    *graph = *op->graph;
    graph->matrix = op->matrix;
    op->graph = graph;
}

static inline loose *loose_new(const rs_network *from)
{
    loose *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->network = *from;
    l->network.checkpoint = NULL;
    l->network.layers = malloc(((size_t)from->n_layers + 1) * sizeof *l->network.layers);
    memcpy(l->network.layers, from->layers, (size_t)from->n_layers * sizeof *from->layers);
    loosen_list(l, &rs_embedding_weights, &l->network.embedding);
    for (int32_t i = 0; i < from->n_layers; i++)
        for (int32_t b = 0; b < from->layers[i].n_branches; b++) {
            rs_branch *branch = &l->network.layers[i].branches[b];
            loosen_norm(l, &branch->before);
            loosen_norm(l, &branch->inside);
            loosen_norm(l, &branch->after);
            loosen_list(l, &rs_branch_traits(branch)->weights, branch);
            if (branch->kind == RS_BRANCH_GRAPH) loosen_graph(l, &branch->graph);
        }
    loosen_list(l, &rs_read_out_weights, &l->network.read_out);
    loosen_norm(l, &l->network.final_norm);
    loosen_list(l, &rs_head_weights, &l->network.head);
    return l;
}

static inline void loose_free(loose *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->tensors[i].values);
    free(l->network.layers);
    free(l);
}

static inline double *loose_values(loose *l, const rs_tensor *tensor)
{
    for (int i = 0; i < l->n; i++)
        if (&l->tensors[i].to == tensor) return l->tensors[i].values;
    return NULL;
}

/* ---- the loss, from a forward pass ---- */

typedef struct heard_loss {
    const rs_loss *wanted;
    double loss;
} heard_loss;

/* The loss of one row [n] of outputs, plainly. */
static inline double row_loss_of(const rs_loss *wanted, const double *x, int64_t n, int64_t row)
{
    bool shares = wanted->kind == RS_LOSS_SHARES, squared = wanted->kind == RS_LOSS_SQUARED;
    const double *values = shares || squared ? wanted->values + row * n : NULL;
    int32_t target = values ? -1 : wanted->targets[row];
    double most = -INFINITY, sum = 0, loss = 0;
    if (values ? wanted->counted && !wanted->counted[row] : target < 0) return 0;
    if (wanted->kind == RS_LOSS_OUTPUT) return x[target];
    if (wanted->kind == RS_LOSS_HINGE && n == 1) return fmax(0, 1 - x[0] * (2 * target - 1));
    for (int64_t c = 0; c < n; c++)
        most = fmax(most, x[c]);
    for (int64_t c = 0; c < n; c++)
        sum += exp(x[c] - most);
    for (int64_t c = 0; c < n; c++) {
        double p = shares ? values[c] : c == target, s = wanted->smoothing;
        if (squared)
            loss += (x[c] - values[c]) * (x[c] - values[c]);
        else if (wanted->kind == RS_LOSS_HINGE)
            loss += c == target ? 0 : fmax(0, 1 + x[c] - x[target]) / (double)n;
        else if (p != 0 || s != 0)
            loss += ((1 - s) * p + s / (double)n) * (log(sum) + most - x[c]);
    }
    return loss;
}

static inline rs_status hear_logits(void *user, int64_t first, const rs_state_view *view,
                                    rs_error *err)
{
    heard_loss *h = user;
    (void)err;
    for (int64_t i = 0; i < view->rows; i++)
        h->loss +=
            h->wanted->weight * row_loss_of(h->wanted, (const double *)view->data + i * view->cols,
                                            view->cols, first + i);
    return RS_OK;
}

static inline bool of_logits(const rs_loss *loss)
{
    return loss->kind == RS_LOSS_TARGETS || loss->kind == RS_LOSS_OUTPUT ||
           loss->kind >= RS_LOSS_SHARES;
}

static inline double length_of(const double *x, int64_t n)
{
    double square = 0;
    for (int64_t c = 0; c < n; c++)
        square += x[c] * x[c];
    return sqrt(square);
}

static inline rs_status hear_state(void *user, rs_site site, int32_t layer,
                                   const rs_state_view *view, rs_error *err)
{
    heard_loss *h = user;
    const rs_loss *wanted = h->wanted;
    (void)err, (void)layer;
    if ((site == RS_SITE_FINAL) == wanted->at_state || of_logits(wanted)) return RS_OK;
    h->loss = 0; /* the last state told counts */
    double *drawn = malloc(((size_t)view->cols + 1) * sizeof *drawn);
    for (int64_t i = 0; i < view->rows; i++) {
        const double *x = (const double *)view->data + i * view->cols;
        rs_random random = rs_random_new(wanted->seed, (uint64_t)(wanted->first_row + i));
        if (wanted->kind == RS_LOSS_LENGTH) {
            if (wanted->targets[i] >= 0) h->loss += wanted->weight * length_of(x, view->cols);
            continue;
        }
        rs_random_normals(&random, drawn, (size_t)view->cols);
        for (int64_t c = 0; c < view->cols; c++)
            h->loss += wanted->weight *
                       (wanted->kind == RS_LOSS_RANDOM ? drawn[c] * x[c] : 0.5 * x[c] * x[c]);
    }
    free(drawn);
    return RS_OK;
}

/* Everything of one check. */
typedef struct gradient_case {
    const char *name;
    loose *loose;
    const rs_batch *batch;
    rs_loss loss;
    rs_gradient_plan plan;
    int directions; /* of each parameter */
    uint64_t seed;
    int threads;
    /* found */
    rs_weights *weights;
    rs_runner *runner;
    double own; /* the loss itself: its rounding, over a step, is what differences cannot see */
    int wrong, compared, kinks;
    double worst; /* of |difference - <g, v>| over its tolerance */
} gradient_case;

static inline double loss_of(gradient_case *c)
{
    heard_loss h = {.wanted = &c->loss};
    rs_tap tap = {
        .user = &h, .sites = 1u << RS_SITE_FINAL | 1u << RS_SITE_BLOCK_OUT, .state = hear_state};
    rs_error err = {0};
    if (of_logits(&c->loss)) tap.logits = hear_logits;
    const rs_tap *taps[] = {&tap};
    rs_weights_changed(c->weights);
    if (rs_runner_run(c->runner, c->batch, taps, 1, &err) != RS_OK)
        fail_msg("%s: %s: %s", c->name, err.where, err.what);
    return h.loss;
}

/* ---- gradients ---- */

typedef struct told {
    rs_parameter parameter;
    rs_gradient_use use;
    double *values; /* [out, in] */
} told;

typedef struct told_all {
    told items[LOOSE_TENSORS];
    int n;
} told_all;

/* Holds sums of squares over stretches of a gradient against its numbers. */
static inline void check_squares(const rs_gradient_view *view, const double *values)
{
    double bound = view->precision == RS_PRECISION_F64 ? 1e-11 : 1e-4;
    for (int by_input = 0; by_input < 2; by_input++) {
        int64_t side = by_input ? view->in : view->out, parts = side % 3 == 0 && side > 0 ? 3 : 1;
        double squares[3], expected[3] = {0}, all = 0;
        assert_int_equal(rs_gradient_squares(squares, view, parts, by_input, NULL), RS_OK);
        for (int64_t u = 0; u < view->out; u++)
            for (int64_t i = 0; i < view->in; i++) {
                double g = values[u * view->in + i];
                expected[(by_input ? i : u) / (side / parts)] += g * g;
                all += g * g;
            }
        for (int64_t p = 0; p < parts; p++)
            if (!(fabs(squares[p] - expected[p]) <=
                  bound * expected[p] + 1e-3 * bound * all + DBL_MIN) &&
                isfinite(all))
                fail_msg("%s: part %d of %d (by input %d): %.17g, not %.17g", view->parameter->name,
                         (int)p, (int)parts, by_input, squares[p], expected[p]);
    }
}

static inline rs_status keep_gradient(void *user, const rs_gradient_view *view, rs_error *err)
{
    told_all *all = user;
    assert_true(all->n < LOOSE_TENSORS);
    told *t = &all->items[all->n++];
    size_t count = (size_t)(view->out * view->in);
    *t = (told){.parameter = *view->parameter, .use = view->use};
    t->values = malloc((count + 1) * sizeof *t->values);
    if (view->precision == RS_PRECISION_F64) {
        rs_status status = rs_gradient_write(t->values, view, err);
        check_squares(view, t->values);
        return status;
    }
    float *narrow = malloc((count + 1) * sizeof *narrow);
    rs_status status = rs_gradient_write(narrow, view, err);
    for (size_t i = 0; i < count; i++)
        t->values[i] = (double)narrow[i];
    free(narrow);
    check_squares(view, t->values);
    return status;
}

static inline void told_free(told_all *all)
{
    for (int i = 0; i < all->n; i++)
        free(all->items[i].values);
    free(all);
}

/* All gradients of a case, in a precision; *loss: the engine's own. */
static inline told_all *gradients_of(const gradient_case *c, rs_precision precision, double *loss)
{
    told_all *all = calloc(1, sizeof *all);
    rs_gradient_tap tap = {.user = all, .parameter = keep_gradient};
    const rs_gradient_tap *taps[] = {&tap};
    rs_context context = {.threads = c->threads > 0 ? c->threads : 2};
    rs_weights *weights;
    rs_runner *runner;
    rs_gradients *gradients = NULL;
    rs_error err = {0};
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, &c->loose->network, weights, &context, &err) != RS_OK ||
        rs_gradients_open(&gradients, &c->loose->network, precision, &c->plan, taps, 1, &context,
                          &err) != RS_OK)
        fail_msg("%s: %s: %s", c->name, err.where, err.what);
    *loss = 0;
    if (rs_runner_gradient(loss, runner, c->batch, &c->loss, gradients, NULL, 0, &err) != RS_OK ||
        rs_gradients_finish(gradients, &err) != RS_OK)
        fail_msg("%s: %s: %s", c->name, err.where, err.what);
    rs_gradients_close(gradients);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return all;
}

/* ---- differences ---- */

/* Where entry (u, i) of a parameter is: NULL for numbers that are not there. */
static inline double *parameter_entry(gradient_case *c, const rs_parameter *p, int64_t u, int64_t i)
{
    const rs_dense *map = p->map;
    const double *number = rs_parameter_number(&c->loose->network, p);
    if (number) return (double *)(uintptr_t)number;
    double *values = loose_values(c->loose, p->tensor);
    if (!map) return values + u * p->in + i;
    int64_t v = map->first + u / map->run * map->stride + u % map->run;
    if (p->part == RS_OF_BIAS) return values + v;
    return values + (map->out_is_row ? v * map->cols + i : i * map->cols + v);
}

/* The loss at the parameter + step direction. */
static inline double loss_at(gradient_case *c, const rs_parameter *p, const double *direction,
                             const double *start, double step)
{
    for (int64_t u = 0; u < p->out; u++)
        for (int64_t i = 0; i < p->in; i++)
            *parameter_entry(c, p, u, i) = start[u * p->in + i] + step * direction[u * p->in + i];
    return step == 0 ? 0 : loss_of(c);
}

/* The slope, and how far the loss bends over h: twice as far over h as over h/2 where the step
 * crosses a kink, four times where it is smooth. */
static inline double slope_at(gradient_case *c, const rs_parameter *p, const double *direction,
                              const double *start, double h, double *bend)
{
    double f1 = loss_at(c, p, direction, start, h), b1 = loss_at(c, p, direction, start, -h);
    double f2 = loss_at(c, p, direction, start, 2 * h),
           b2 = loss_at(c, p, direction, start, -2 * h);
    loss_at(c, p, direction, start, 0);
    *bend = fabs(f1 - 2 * c->own + b1);
    return (8 * (f1 - b1) - (f2 - b2)) / (12 * h);
}

/* Compares <g, v> with differences along v of N(0, 1). Where two steps disagree or the loss has a
 * kink, the direction is drawn again and the step is made shorter; a parameter that stands on a kink
 * itself has no derivative to compare with. */
static inline void check_direction(gradient_case *c, const told *t, rs_random *random)
{
    const rs_parameter *p = &t->parameter;
    size_t count = (size_t)(p->out * p->in);
    double *start = malloc((count + 1) * sizeof *start), *v = malloc((count + 1) * sizeof *v);
    double size = 0;
    int misses = 0;
    for (int64_t u = 0; u < p->out; u++)
        for (int64_t i = 0; i < p->in; i++)
            start[u * p->in + i] = *parameter_entry(c, p, u, i);
    for (size_t i = 0; i < count; i++)
        size += start[i] * start[i];
    size = sqrt(size / (double)count);
    if (size == 0) size = 1;
    for (int attempt = 0; attempt < 16; attempt++) {
        double dot = 0, g = 0, length = 0;
        for (size_t i = 0; i < count; i++) {
            v[i] = rs_random_normal(random) / sqrt((double)count);
            dot += v[i] * t->values[i];
            g += t->values[i] * t->values[i];
            length += v[i] * v[i];
        }
        double h = ldexp(1e-3 * size * sqrt((double)count), -2 * (attempt / 2));
        double bends[2], coarse = slope_at(c, p, v, start, h, &bends[0]);
        double fine = slope_at(c, p, v, start, h / 2, &bends[1]);
        double noise = 16 * DBL_EPSILON * (1 + fabs(c->own));
        double tolerance = 1e-6 * (fabs(dot) + sqrt(g * length / (double)count)) + noise / h;
        bool kink = bends[1] > 0.4 * bends[0] && bends[1] > noise + tolerance * h;
        if (!(fabs(coarse - fine) <= 0.5 * tolerance) || kink) {
            c->kinks++;
            continue;
        }
        double ratio = fabs(fine - dot) / tolerance;
        if (!(ratio <= 1) && ++misses < 3) continue; /* a step may still have met a kink */
        c->compared++;
        if (!(ratio <= c->worst)) c->worst = ratio;
        if (!(ratio <= 1)) {
            print_error("%s: layer %d branch %d %s part %d (use %d, %lld x %lld): difference "
                        "%.12g, gradient %.12g\n",
                        c->name, p->layer, p->branch, p->name, (int)p->part, (int)t->use,
                        (long long)p->out, (long long)p->in, fine, dot);
            c->wrong++;
        }
        break;
    }
    free(start);
    free(v);
}

/* The number of directions along which differences and gradients disagree. */
static inline int check_gradients(gradient_case *c)
{
    double loss;
    rs_error err = {0};
    rs_context context = {.threads = 1};
    rs_random random = rs_random_new(c->seed, 77);
    told_all *all = gradients_of(c, RS_PRECISION_F64, &loss);
    assert_int_equal(rs_weights_open(&c->weights, RS_PRECISION_F64, 1 << 28, &err), RS_OK);
    assert_int_equal(rs_runner_open(&c->runner, &c->loose->network, c->weights, &context, &err),
                     RS_OK);
    c->own = loss_of(c);
    if (!(fabs(c->own - loss) <= 1e-11 * (1 + fabs(c->own)))) {
        print_error("%s: the loss is %.17g, not %.17g\n", c->name, c->own, loss);
        c->wrong++;
    }
    for (int i = 0; i < all->n; i++)
        for (int k = 0; k < c->directions && all->items[i].use != RS_USE_ONE; k++)
            if (all->items[i].parameter.out * all->items[i].parameter.in > 0)
                check_direction(c, &all->items[i], &random);
    rs_runner_close(c->runner);
    rs_weights_close(c->weights);
    told_free(all);
    return c->wrong;
}

/* ---- drawn networks ---- */

/* A loss, drawn: of targets where there is a head. */
static inline rs_loss draw_loss(const rs_network *network, const rs_batch *batch, int32_t *targets,
                                rs_random *random)
{
    int64_t rows = batch->begin[batch->samples];
    double which = rs_random_uniform(random);
    rs_loss loss = {.weight = 0.25 + rs_random_uniform(random),
                    .targets = targets,
                    .seed = 5,
                    .first_row = 1000,
                    .at_state = rs_random_uniform(random) < 0.5};
    loss.kind = which < 0.4 ? RS_LOSS_RANDOM : RS_LOSS_SQUARE;
    if (network->head.decoder.weight && which < 0.8) loss.kind = RS_LOSS_TARGETS;
    for (int64_t i = 0; i < rows; i++) {
        targets[i] = -1;
        if (network->head.decoder.weight && rs_random_uniform(random) < 0.8)
            targets[i] = (int32_t)(rs_random_uniform(random) * (double)network->head.decoder.out);
    }
    return loss;
}

/* Holds the gradients of one network, batch and loss against differences, and those of recomputation
 * and of other numbers of threads against the first, bit for bit. Returns the number of faults. */
static inline int check_loss(const char *name, const rs_network *network, const rs_batch *batch,
                             const rs_loss *loss, int directions, uint64_t seed)
{
    gradient_case c = {.name = name,
                       .batch = batch,
                       .directions = directions,
                       .seed = seed,
                       .threads = 1,
                       .plan = {.numbers = RS_NUMBERS_SHAPED},
                       .loss = *loss};
    double losses[3];
    c.loose = loose_new(network);
    int wrong = check_gradients(&c);
    told_all *all[3];
    for (int k = 0; k < 3; k++) {
        c.plan.recompute = k == 1;
        c.threads = k == 2 ? 3 : 1;
        all[k] = gradients_of(&c, RS_PRECISION_F64, &losses[k]);
    }
    for (int k = 1; k < 3; k++) {
        assert_int_equal(all[k]->n, all[0]->n);
        for (int i = 0; i < all[0]->n; i++) {
            const told *a = &all[0]->items[i], *b = &all[k]->items[i];
            size_t bytes = (size_t)(a->parameter.out * a->parameter.in) * sizeof *a->values;
            if (memcmp(a->values, b->values, bytes) == 0) continue;
            print_error("%s: layer %d %s part %d: other bits %s\n", name, a->parameter.layer,
                        a->parameter.name, (int)a->parameter.part,
                        k == 1 ? "with recomputation" : "with three threads");
            wrong++;
        }
    }
    for (int k = 0; k < 3; k++)
        told_free(all[k]);
    loose_free(c.loose);
    return wrong;
}

/* The same of a loss that is drawn. */
static inline int check_network(const char *name, const rs_network *network, const rs_batch *batch,
                                int directions, uint64_t seed)
{
    int64_t rows = batch->begin[batch->samples];
    rs_random random = rs_random_new(seed, 78);
    int32_t *targets = malloc(((size_t)rows + 1) * sizeof *targets);
    rs_loss loss = draw_loss(network, batch, targets, &random);
    int wrong = check_loss(name, network, batch, &loss, directions, seed);
    free(targets);
    return wrong;
}

#endif
