/* shapes.c: which widths have a number of parameters, depth by depth. */
#include "predict/shapes.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Layers that theory may run in all, where states are two numbers, where they are a matrix, and where
 * logits turn with the distance as well; of large architectures as many as their remedies take. */
enum { LAYERS = 16384, MASKED_LAYERS = 384, TURNED_LAYERS = 48, REMEDIES = 16, DEEPEST = 4096 };
/* Operations of all trials: unless the user says how many, and what is refused. Where layers are many and
 * narrow, it is the softmax that takes the time: an entry of it, there and back, as much as so many. */
static const double operations = 3e11, most_operations = 1e14, softmax_entry = 200;
enum { FEWEST_TRIALS = 4, MOST_TRIALS = 16 };

typedef struct finder {
    const rs_predict_run *run;
    rs_shapes *shapes;
    int64_t step, least,
        most; /* widths are so many of it: from the narrowest that is one, to the widest */
} finder;

/* ---- one shape ---- */

static int64_t at_ratio(int64_t size, int64_t width, int64_t of)
{
    int64_t scaled = llround((double)size * ((double)width / (double)of));
    return scaled < 1 ? 1 : scaled;
}

/* A head of rotary positions has an even number of numbers. */
static int64_t head_width(const rs_arch *arch, int64_t width)
{
    if (arch->positions != RS_ARCH_POSITIONS_ROPE)
        return at_ratio(arch->d_head, width, arch->d_model);
    return 2 * at_ratio(arch->d_head / 2, width, arch->d_model);
}

json_t *rs_shape_file(const rs_predict_run *run, const rs_budget_shape *shape, rs_error *err)
{
    const rs_arch *arch = run->design->arch;
    const json_t *json = run->design->json;
    rs_predict_field fields[4] = {{"depth", (double)shape->depth},
                                  {"d_model", (double)shape->width}};
    size_t n = 2;
    if (json_object_get(json, "mlp_width"))
        fields[n++] = (rs_predict_field){
            "mlp_width", (double)at_ratio(arch->mlp_width, shape->width, arch->d_model)};
    if (json_object_get(json, "d_head"))
        fields[n++] = (rs_predict_field){"d_head", (double)head_width(arch, shape->width)};
    return rs_predict_edit(run, fields, n, err);
}

/* Fills what a description alone says of a shape; *why where it makes no architecture. */
static rs_status plan(rs_budget_shape *s, const finder *f, rs_error *err)
{
    const rs_design *design = f->run->design;
    rs_init *init = NULL;
    rs_network *network = NULL;
    rs_error why;
    s->parameters = s->operations = NAN;
    s->why[0] = 0;
    json_t *json = rs_shape_file(f->run, s, err);
    if (!json) return err->status;
    rs_status status = rs_init_open(&init, design->law, 0, &why);
    if (status == RS_OK) status = rs_arch_plan(&network, json, design->name, init, &why);
    if (status == RS_OK) {
        s->parameters = (double)network->stored.parameters;
        s->operations = rs_trials_cost(network, design->input.n);
    }
    rs_network_close(network);
    rs_init_close(init);
    json_decref(json);
    if (status == RS_OK) return RS_OK;
    snprintf(s->why, sizeof s->why, "%.150s", why.what);
    if (status != RS_E_NO_MEMORY && status != RS_E_INTERRUPTED) return RS_OK;
    *err = why;
    return status;
}

static rs_status plan_at(rs_budget_shape *s, const finder *f, int64_t multiple, rs_error *err)
{
    s->width = multiple * f->step;
    return plan(s, f, err);
}

/* ---- the nearest width ---- */

static int64_t clamp(double multiple, const finder *f)
{
    return multiple < (double)f->least  ? f->least
           : multiple > (double)f->most ? f->most
                                        : llround(multiple);
}

/* Parameters grow with a power of the width between 1 and 2: k √(wanted/parameters) is nearer than k,
 * from the same side, until rounding keeps it where it is. */
static rs_status approach(rs_budget_shape *s, const finder *f, rs_error *err)
{
    enum { STEPS = 64 };
    for (int i = 0; i < STEPS && !isnan(s->parameters); i++) {
        double now = (double)(s->width / f->step);
        int64_t next = clamp(now * sqrt(f->shapes->parameters / s->parameters), f);
        if (next == (int64_t)now) break;
        RS_TRY(plan_at(s, f, next, err));
    }
    return RS_OK;
}

/* Neighbours, while they are nearer. */
static rs_status settle(rs_budget_shape *s, const finder *f, rs_error *err)
{
    const double wanted = f->shapes->parameters;
    int64_t side = s->parameters < wanted ? 1 : -1;
    while (!isnan(s->parameters)) {
        int64_t next = s->width / f->step + side;
        rs_budget_shape beside = *s;
        if (next < f->least || next > f->most) break;
        RS_TRY(plan_at(&beside, f, next, err));
        if (!(fabs(beside.parameters - wanted) < fabs(s->parameters - wanted))) break;
        *s = beside;
    }
    return RS_OK;
}

/* ---- all depths ---- */

static int64_t layers_allowed(const rs_predict_run *run)
{
    const rs_arch *arch = run->design->arch;
    bool turned = arch->positions == RS_ARCH_POSITIONS_ROPE;
    double n = fmax((double)run->design->input.n / 128, 1.0 / 16);
    double layers = turned         ? TURNED_LAYERS / (n * n)
                    : arch->causal ? MASKED_LAYERS / (n * n)
                                   : LAYERS;
    return (int64_t)fmin(LAYERS, fmax(layers, (double)(REMEDIES * arch->depth)));
}

static rs_status add(rs_shapes *shapes, const rs_budget_shape *s, size_t *capacity, rs_error *err)
{
    if (!RS_GROW(shapes->list, shapes->n, *capacity))
        return rs_fail_memory(err, "shapes", sizeof *s);
    shapes->list[shapes->n++] = *s;
    return RS_OK;
}

/* The shape of a depth. *ends: its narrowest network has more parameters already. (One number is too few
 * where tokens are correlated.) */
static rs_status find_width(rs_budget_shape *s, bool *ends, finder *f, double guess, rs_error *err)
{
    const double wanted = f->shapes->parameters, near = 0.9;
    f->least = 1;
    RS_TRY(plan_at(s, f, f->least, err));
    if (isnan(s->parameters)) RS_TRY(plan_at(s, f, f->least = 2, err));
    *ends = s->parameters > wanted;
    if (*ends || isnan(s->parameters)) return RS_OK;
    RS_TRY(plan_at(s, f, clamp(guess, f), err));
    RS_TRY(approach(s, f, err));
    RS_TRY(settle(s, f, err));
    if (s->width / f->step == f->most && s->parameters < near * wanted) {
        snprintf(s->why, sizeof s->why, "width %lld, the largest there is, has %.3g parameters",
                 (long long)s->width, s->parameters);
        s->parameters = NAN;
    }
    return RS_OK;
}

/* The next power of √2, or the architecture's own depth. */
static int64_t depth_behind(int64_t before, int64_t own)
{
    int64_t depth = 1;
    for (int i = 0; depth <= before; i++)
        depth = llround(exp2(i / 2.0));
    return own > before && own < depth ? own : depth;
}

static rs_status find_all(rs_shapes *shapes, finder *f, int64_t *narrowest, rs_error *err)
{
    int64_t allowed = layers_allowed(f->run), used = 0, before = 0;
    size_t capacity = 0;
    double guess = 1;
    for (;;) {
        int64_t depth = depth_behind(before, f->run->design->arch->depth);
        rs_budget_shape s = {.depth = depth, .gap = NAN};
        bool ends;
        RS_TRY(rs_check_cancelled(f->run->context, err));
        RS_TRY(find_width(&s, &ends, f, guess * sqrt((double)before / (double)depth), err));
        if (ends && before == 0) *narrowest = (int64_t)s.parameters;
        if (ends) return RS_OK;
        used += depth;
        shapes->more = before > 0 && (depth > DEEPEST || used > allowed);
        if (shapes->more) return RS_OK;
        RS_TRY(add(shapes, &s, &capacity, err));
        if (!isnan(s.parameters)) guess = (double)(s.width / f->step);
        before = depth;
    }
}

/* ---- what is refused ---- */

/* Of a trial of each. */
static double operations_of(const rs_shapes *shapes, const finder *f)
{
    double n = (double)f->run->design->input.n, sum = 0;
    double entries = n * n * (double)f->run->design->arch->heads;
    for (size_t i = 0; i < shapes->n; i++) {
        const rs_budget_shape *s = &shapes->list[i];
        if (!isnan(s->parameters))
            sum += s->operations + softmax_entry * entries * (double)s->depth;
    }
    return sum;
}

static rs_status check_found(const rs_shapes *shapes, const finder *f, int64_t narrowest,
                             rs_error *err)
{
    if (narrowest > 0)
        return rs_fail(err, RS_E_BAD_OPTION, "budget", "give more",
                       "%.12g parameters are none: one layer of width %lld has %lld already",
                       shapes->parameters, (long long)(f->least * f->step), (long long)narrowest);
    for (size_t i = 0; i < shapes->n; i++)
        if (!isnan(shapes->list[i].parameters)) return RS_OK;
    const rs_budget_shape *last = &shapes->list[shapes->n - 1];
    return rs_fail(err, RS_E_BAD_OPTION, "budget", "give fewer, or another architecture file",
                   "no depth to %lld has an architecture of %.12g parameters: %.120s",
                   (long long)last->depth, shapes->parameters, last->why);
}

/* As many as they take, or as the user asks for. */
static rs_status set_trials(rs_shapes *shapes, const finder *f, rs_error *err)
{
    int64_t wanted = f->run->options->trials;
    double one = operations_of(shapes, f);
    if (wanted >= 0) {
        shapes->trials = (int32_t)wanted;
        if (!((double)wanted * one > most_operations)) return RS_OK;
        return rs_fail(err, RS_E_BAD_OPTION, "budget", "give fewer --trials, or fewer parameters",
                       "%d trials of %zu shapes would take %.2g operations; at most %.0g are run",
                       (int)wanted, shapes->n, (double)wanted * one, most_operations);
    }
    shapes->trials = (int32_t)fmin(MOST_TRIALS, operations / one);
    if (shapes->trials < FEWEST_TRIALS) shapes->trials = 0;
    return RS_OK;
}

rs_status rs_shapes_find(rs_shapes *out, const rs_predict_run *run, double parameters,
                         rs_error *err)
{
    const rs_arch *arch = run->design->arch;
    int64_t narrowest = 0;
    *out = (rs_shapes){.parameters = parameters};
    if (!rs_predict_can_change(run))
        return rs_fail(err, RS_E_UNSUPPORTED, "budget",
                       "give an architecture file or --preset NAME", "%s",
                       rs_predict_fixed_because(run));
    bool turned = arch->positions == RS_ARCH_POSITIONS_ROPE;
    finder f = {.run = run, .shapes = out, .step = (turned ? 2 : 1) * arch->heads};
    f.most = RS_ARCH_LARGEST / f.step;
    RS_TRY(find_all(out, &f, &narrowest, err));
    RS_TRY(check_found(out, &f, narrowest, err));
    return set_trials(out, &f, err);
}

void rs_shapes_free(rs_shapes *shapes)
{
    rs_free(shapes->list);
    *shapes = (rs_shapes){0};
}
