/* init.c: laws of random weights, and the tensors drawn from them. */
#include "network/network.h"

#include "base/random.h"
#include "linalg/orthonormal.h"
#include "network/draw.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum law_kind {
    LAW_DEFAULT,
    LAW_XAVIER,
    LAW_NORMAL,  /* mean, variance */
    LAW_UNIFORM, /* low, high */
    LAW_ORTHOGONAL,
    LAW_ZERO,
    LAW_IDENTITY
} law_kind;

typedef struct law {
    law_kind kind;
    const char *arguments[2]; /* formulas, in the arena */
    const char *where;        /* for messages when a formula fails for some sizes */
} law;

enum { AS_INIT = 1, AS_ROLE = 2 }; /* where a law may be named */
typedef struct law_row {
    const char *name;
    law_kind kind;
    int arguments;
    int places;
} law_row;

static const law_row law_rows[] = {
    {"default", LAW_DEFAULT, 0, AS_INIT},
    {"xavier", LAW_XAVIER, 0, AS_INIT},
    {"normal", LAW_NORMAL, 2, AS_INIT | AS_ROLE},
    {"uniform", LAW_UNIFORM, 2, AS_ROLE},
    {"orthogonal", LAW_ORTHOGONAL, 0, AS_INIT | AS_ROLE},
    {"zero", LAW_ZERO, 0, AS_ROLE},
    {"identity", LAW_IDENTITY, 0, AS_ROLE},
};
enum { LAW_ROWS = sizeof law_rows / sizeof *law_rows };

/* What a law is once its formulas have numbers. */
static const rs_weight_law_kind law_kinds[] = {
    [LAW_DEFAULT] = RS_LAW_NORMAL,        [LAW_XAVIER] = RS_LAW_NORMAL,
    [LAW_NORMAL] = RS_LAW_NORMAL,         [LAW_UNIFORM] = RS_LAW_UNIFORM,
    [LAW_ORTHOGONAL] = RS_LAW_ORTHOGONAL, [LAW_ZERO] = RS_LAW_ZERO,
    [LAW_IDENTITY] = RS_LAW_IDENTITY,
};

typedef struct drawn_tensor {
    rs_tensor tensor; /* first: a pointer to it is one to this */
    rs_weight_law law;
} drawn_tensor;

static const char *const formula_names[] = {"fan_in", "fan_out", "d", "L", NULL};

typedef struct place {
    int64_t count; /* elements */
    double fan_in, fan_out;
    int64_t rows, cols; /* the matrix view */
} place;

struct rs_init {
    rs_arena *arena;
    law general;
    law roles[RS_ROLE_COUNT];
    bool has_role[RS_ROLE_COUNT];
    uint64_t seed, bytes;
    bool planning; /* tensors are counted, not drawn */
    double planned;
    double std, residual_std, d_model, layers;
    int threads;
    rs_memory_bound bound;
    const char *where;  /* who is refused; NULL: random weights */
    rs_init_need *need; /* NULL: nothing else than weights is known of */
    const void *need_user;
    rs_strmap names; /* of the tensors drawn: asking twice draws another tensor */
    float **blocks;
    size_t n_blocks, blocks_capacity;
};

/* What a role is to a law. */
static bool is_norm(rs_role role)
{
    return (role >= RS_ROLE_Q_NORM && role <= RS_ROLE_NORM_HEAD) ||
           (role >= RS_ROLE_SSM_NORM && role <= RS_ROLE_SSM_C_NORM);
}

static bool is_bias(rs_role role)
{
    static const rs_role biases[] = {
        RS_ROLE_Q_BIAS,
        RS_ROLE_K_BIAS,
        RS_ROLE_V_BIAS,
        RS_ROLE_O_BIAS,
        RS_ROLE_QKV_BIAS,
        RS_ROLE_NORM_MIXER_BIAS,
        RS_ROLE_NORM_MIXER_OUT_BIAS,
        RS_ROLE_NORM_MLP_BIAS,
        RS_ROLE_NORM_MLP_OUT_BIAS,
        RS_ROLE_NORM_CROSS_BIAS,
        RS_ROLE_NORM_FINAL_BIAS,
        RS_ROLE_NORM_EMBED_BIAS,
        RS_ROLE_MLP_UP_BIAS,
        RS_ROLE_MLP_GATE_BIAS,
        RS_ROLE_MLP_DOWN_BIAS,
        RS_ROLE_SSM_CONV_BIAS,
        RS_ROLE_SSM_DT_BIAS,
    };
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        if (biases[i] == role) return true;
    return false;
}

/* Maps of mixers and MLP: what a law other than default is for. */
static bool is_branch_weight(rs_role role)
{
    return (role >= RS_ROLE_Q && role <= RS_ROLE_R) ||
           (role >= RS_ROLE_MLP_UP && role <= RS_ROLE_MLP_DOWN) || role == RS_ROLE_Q_GATE ||
           role == RS_ROLE_SSM_IN || role == RS_ROLE_SSM_X || role == RS_ROLE_SSM_OUT ||
           (role >= RS_ROLE_DELTA_Q && role <= RS_ROLE_DELTA_BA);
}

bool rs_init_is_default(const rs_init *init)
{
    return init->general.kind == LAW_DEFAULT;
}

/* ---- laws ---- */

static const law_row *find_law(const char *text, size_t length, int places)
{
    for (size_t i = 0; i < LAW_ROWS; i++)
        if (law_rows[i].places & places && strlen(law_rows[i].name) == length &&
            memcmp(law_rows[i].name, text, length) == 0)
            return &law_rows[i];
    return NULL;
}

static rs_status unknown_law(const char *text, size_t length, int places, const char *where,
                             rs_error *err)
{
    const char *known[LAW_ROWS + 1];
    size_t n = 0;
    for (size_t i = 0; i < LAW_ROWS; i++)
        if (law_rows[i].places & places) known[n++] = law_rows[i].name;
    known[n] = NULL;
    char name[65], list[128];
    snprintf(name, sizeof name, "%.*s", (int)(length < 64 ? length : 64), text);
    size_t used = 0;
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", known[i]);
    char hint[96];
    snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(name, known));
    return rs_fail(err, RS_E_BAD_OPTION, where, hint,
                   "\"%s\" is not a law of weights; there are %s", name, list);
}

/* The comma between two arguments, outside of parentheses; or the end. */
static size_t argument_length(const char *text)
{
    int depth = 0;
    size_t i = 0;
    for (; text[i]; i++) {
        if (text[i] == '(') depth++;
        if (text[i] == ')' && depth-- == 0) break;
        if (text[i] == ',' && depth == 0) break;
    }
    return i;
}

static rs_status law_arguments(law *out, const law_row *row, const char *rest, rs_init *init,
                               rs_error *err)
{
    const char *at = rest + strspn(rest, " ");
    int n = 0;
    if (*at == '(') do {
            at++;
            size_t length = argument_length(at);
            if (n == 2)
                return rs_fail(err, RS_E_BAD_OPTION, out->where, NULL,
                               "%s has more than two arguments", row->name);
            out->arguments[n] = rs_arena_strndup(init->arena, at, length);
            if (!out->arguments[n]) return rs_fail_memory(err, "a law of weights", length);
            n++;
            at += length;
        } while (*at == ',');
    if (n != row->arguments || (n && *at != ')') || (n && at[1 + strspn(at + 1, " ")]) ||
        (!n && *at))
        return rs_fail(err, RS_E_BAD_OPTION, out->where,
                       row->arguments == 0       ? NULL
                       : row->kind == LAW_NORMAL ? "write normal(MEAN, VARIANCE), for example "
                                                   "normal(0, 1/fan_in)"
                                                 : "write uniform(LOW, HIGH)",
                       "\"%s%.80s\": %s takes %d arguments in parentheses", row->name, rest,
                       row->name, row->arguments);
    for (int i = 0; i < n; i++) {
        double value;
        RS_TRY(rs_expression(&value, out->arguments[i], formula_names, NULL, out->where, err));
    }
    return RS_OK;
}

static rs_status parse_law(law *out, rs_init *init, const char *text, int places, const char *where,
                           rs_error *err)
{
    text += strspn(text, " ");
    size_t length = strcspn(text, " (");
    const law_row *row = find_law(text, length, places);
    if (!row) return unknown_law(text, length, places, where, err);
    *out = (law){.kind = row->kind, .where = rs_arena_strdup(init->arena, where)};
    if (!out->where) return rs_fail_memory(err, "a law of weights", strlen(where));
    return law_arguments(out, row, text + length, init, err);
}

rs_status rs_init_open(rs_init **out, const char *text, uint64_t seed, rs_error *err)
{
    *out = NULL;
    rs_init *init = rs_calloc(1, sizeof *init);
    if (!init) return rs_fail_memory(err, "random weights", sizeof *init);
    init->arena = rs_arena_new();
    init->seed = seed;
    init->std = init->residual_std = 0.02;
    init->d_model = init->layers = 1;
    init->threads = 1;
    init->bound = rs_memory_bound_of(0);
    rs_status status = init->arena ? parse_law(&init->general, init, text ? text : "default",
                                               AS_INIT, "--init", err)
                                   : rs_fail_memory(err, "random weights", sizeof *init);
    if (status != RS_OK) {
        rs_init_close(init);
        return status;
    }
    *out = init;
    return RS_OK;
}

void rs_init_close(rs_init *init)
{
    if (!init) return;
    for (size_t i = 0; i < init->n_blocks; i++)
        rs_free(init->blocks[i]);
    rs_free(init->blocks);
    rs_strmap_free(&init->names);
    rs_arena_free(init->arena);
    rs_free(init);
}

void rs_init_set_default(rs_init *init, double std, double residual_std, int64_t d_model,
                         int32_t layers)
{
    init->std = std;
    init->residual_std = residual_std;
    init->d_model = (double)d_model;
    init->layers = layers;
}

void rs_init_set_threads(rs_init *init, int threads)
{
    init->threads = threads;
}

rs_status rs_init_set_role(rs_init *init, rs_role role, const char *text, const char *where,
                           rs_error *err)
{
    RS_TRY(parse_law(&init->roles[role], init, text, AS_ROLE, where, err));
    init->has_role[role] = true;
    return RS_OK;
}

/* The law that applies to a weight. A law given on the command line replaces the file's. */
static law law_of(const rs_init *init, rs_role role)
{
    if (init->general.kind != LAW_DEFAULT && is_branch_weight(role)) return init->general;
    if (init->has_role[role]) return init->roles[role];
    return (law){.kind = LAW_DEFAULT};
}

/* ---- drawing ---- */

static rs_status evaluate(double *value, const rs_init *init, const law *from, int i,
                          const place *at, rs_error *err)
{
    double values[] = {at->fan_in, at->fan_out, init->d_model, init->layers};
    return rs_expression(value, from->arguments[i], formula_names, values, from->where, err);
}

static rs_status draw_orthogonal(float *out, const rs_init *init, const rs_draw *stream,
                                 const place *at, rs_error *err)
{
    int64_t m = at->rows < at->cols ? at->rows : at->cols, n = at->count / m;
    double *vectors = rs_malloc((size_t)at->count, sizeof *vectors);
    if (!vectors)
        return rs_fail_memory(err, "an orthogonal weight", (size_t)at->count * sizeof *vectors);
    rs_draw_normal_f64(vectors, stream, at->count, 0, 1, init->threads);
    rs_status status = rs_orthonormal_rows(vectors, m, n, err);
    for (int64_t i = 0; status == RS_OK && i < m; i++)
        for (int64_t j = 0; j < n; j++)
            out[at->rows <= at->cols ? i * n + j : j * m + i] = (float)vectors[i * n + j];
    rs_free(vectors);
    return status;
}

static rs_status normal_law(rs_weight_law *out, const rs_init *init, const law *from,
                            const place *at, rs_error *err)
{
    double variance;
    RS_TRY(evaluate(&out->mean, init, from, 0, at, err));
    RS_TRY(evaluate(&variance, init, from, 1, at, err));
    if (!(variance >= 0))
        return rs_fail(
            err, RS_E_EXPRESSION, from->where, NULL,
            "the variance %s is %g for fan_in %g and fan_out %g; it must not be negative",
            from->arguments[1], variance, at->fan_in, at->fan_out);
    out->deviation = sqrt(variance);
    return RS_OK;
}

static rs_status uniform_law(rs_weight_law *out, const rs_init *init, const law *from,
                             const place *at, rs_error *err)
{
    RS_TRY(evaluate(&out->low, init, from, 0, at, err));
    RS_TRY(evaluate(&out->high, init, from, 1, at, err));
    if (!(out->low <= out->high))
        return rs_fail(err, RS_E_EXPRESSION, from->where, NULL,
                       "uniform from %g to %g: the first must not be above the second", out->low,
                       out->high);
    return RS_OK;
}

/* What the model's own library does. */
static void default_law(rs_weight_law *out, const rs_init *init, rs_role role)
{
    bool residual = role == RS_ROLE_O || role == RS_ROLE_CROSS_O || role == RS_ROLE_MLP_DOWN;
    out->deviation = residual ? init->residual_std : init->std;
}

/* The numbers of a weight's law, for its sizes. */
static rs_status weight_law(rs_weight_law *out, const rs_init *init, rs_role role, const place *at,
                            rs_error *err)
{
    law from = law_of(init, role);
    *out = (rs_weight_law){.kind = law_kinds[from.kind]};
    switch (from.kind) {
    case LAW_DEFAULT:
        default_law(out, init, role);
        break;
    case LAW_XAVIER:
        out->deviation = sqrt(2.0 / (at->fan_in + at->fan_out));
        break;
    case LAW_NORMAL:
        return normal_law(out, init, &from, at, err);
    case LAW_UNIFORM:
        return uniform_law(out, init, &from, at, err);
    case LAW_ORTHOGONAL:
    case LAW_ZERO:
    case LAW_IDENTITY:
        break;
    }
    return RS_OK;
}

/* Biases are 0 and norms 1 under every law. */
static rs_status tensor_law(rs_weight_law *out, const rs_init *init, rs_role role, bool bias,
                            const place *at, rs_error *err)
{
    bool zero = bias || is_bias(role);
    *out = (rs_weight_law){.kind = zero ? RS_LAW_ZERO : RS_LAW_ONE};
    if (zero || is_norm(role) || role == RS_ROLE_LAYER_SCALE) return RS_OK;
    return weight_law(out, init, role, at, err);
}

static void fill_with(float *out, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = value;
}

static rs_status draw_by(float *out, const rs_init *init, const rs_weight_law *from,
                         const rs_draw *stream, const place *at, rs_error *err)
{
    switch (from->kind) {
    case RS_LAW_NORMAL:
        rs_draw_normal(out, stream, at->count, from->mean, from->deviation, init->threads);
        break;
    case RS_LAW_UNIFORM:
        rs_draw_uniform(out, stream, at->count, from->low, from->high, init->threads);
        break;
    case RS_LAW_ORTHOGONAL:
        return draw_orthogonal(out, init, stream, at, err);
    case RS_LAW_ZERO:
    case RS_LAW_ONE:
        fill_with(out, at->count, from->kind == RS_LAW_ONE);
        break;
    case RS_LAW_IDENTITY:
        fill_with(out, at->count, 0);
        for (int64_t i = 0; i < at->rows && i < at->cols; i++)
            out[i * at->cols + i] = 1;
        break;
    }
    return RS_OK;
}

double rs_weight_law_square(const rs_weight_law *from, int64_t in, int64_t out)
{
    double spread = from->high - from->low, middle = (from->high + from->low) / 2;
    double most = (double)(in > out ? in : out);
    switch (from->kind) {
    case RS_LAW_NORMAL:
        return from->mean * from->mean + from->deviation * from->deviation;
    case RS_LAW_UNIFORM:
        return middle * middle + spread * spread / 12;
    case RS_LAW_ORTHOGONAL: /* the lesser of rows and columns has length 1 */
    case RS_LAW_IDENTITY:
        return 1 / most;
    case RS_LAW_ZERO:
        return 0;
    case RS_LAW_ONE:
        return 1;
    }
    return NAN;
}

double rs_weight_law_mean(const rs_weight_law *from)
{
    if (from->kind == RS_LAW_NORMAL) return from->mean;
    return from->kind == RS_LAW_UNIFORM ? (from->high + from->low) / 2 : 0;
}

const rs_weight_law *rs_init_law(const rs_tensor *tensor)
{
    return tensor->fixed ? NULL : &((const drawn_tensor *)(const void *)tensor)->law;
}

/* ---- tensors ---- */

/* The matrix view keeps the first dimension and joins the others: [out, in], nn.Conv2d's [out,
 * channels, y, x], Conv1D's [in, out] and XLNet's [in, heads, head_dim]. */
static rs_status measure_place(place *at, rs_role role, uint32_t rank, const int64_t *shape,
                               bool out_is_row, rs_error *err)
{
    size_t count = 1, bytes;
    bool fits = true;
    for (uint32_t i = 0; i < rank; i++)
        fits = fits && shape[i] > 0 && rs_size_mul(count, (size_t)shape[i], &count);
    if (!fits || !rs_size_mul(count, sizeof(float), &bytes) || bytes > INT64_MAX)
        return rs_fail(err, RS_E_CONFIG_SIZE, rs_role_name(role), NULL,
                       "the sizes of this weight multiply to more than memory can address");
    at->count = (int64_t)count;
    at->rows = rank > 1 || (rank == 1 && out_is_row) ? shape[0] : 1;
    at->cols = at->count / at->rows;
    at->fan_in = (double)(out_is_row ? at->cols : at->rows);
    at->fan_out = (double)(out_is_row ? at->rows : at->cols);
    return RS_OK;
}

/* ---- memory: added up before it is taken (base/budget.h) ---- */

static const char smaller[] = "choose a smaller model, or say how much it may take: --memory SIZE";

static rs_status refuse_beyond(const rs_init *init, rs_budget *budget, double numbers,
                               rs_error *err)
{
    rs_budget_add(budget, "weights", (double)init->bytes + numbers * sizeof(float));
    return rs_budget_check(budget, init->bound, init->where ? init->where : "random weights",
                           smaller, err);
}

rs_status rs_init_expect(const rs_init *init, double numbers, rs_error *err)
{
    rs_budget budget = {0};
    return refuse_beyond(init, &budget, numbers, err);
}

rs_status rs_init_expect_layers(const rs_init *init, int64_t layers, size_t layer_bytes,
                                rs_error *err)
{
    enum { TENSORS = 4096, COPIES = 2 }; /* names and shapes of a layer; the plan and the network */
    rs_budget budget = {0};
    rs_budget_add(&budget, "layers", COPIES * (double)layers * (double)(layer_bytes + TENSORS));
    return rs_budget_check(&budget, init->bound, init->where ? init->where : "layers", smaller,
                           err);
}

void rs_init_set_memory(rs_init *init, rs_memory_bound bound, const char *where, rs_init_need *need,
                        const void *user)
{
    if (bound.bytes) init->bound = bound;
    init->where = where;
    init->need = need;
    init->need_user = user;
}

uint64_t rs_init_bytes(const rs_init *init)
{
    return init->bytes;
}

void rs_init_plan(rs_init *init)
{
    init->planning = true;
    init->planned = 0;
}

rs_status rs_init_start(rs_init *init, const rs_network *plan, rs_error *err)
{
    rs_budget budget = {0};
    init->planning = false;
    rs_strmap_free(&init->names);
    if (init->need && plan) init->need(&budget, plan, init->need_user);
    return refuse_beyond(init, &budget, init->planned, err);
}

static rs_status new_block(float **out, rs_init *init, uint64_t count, rs_error *err)
{
    RS_TRY(rs_init_expect(init, (double)count, err));
    if (!RS_GROW(init->blocks, init->n_blocks, init->blocks_capacity))
        return rs_fail_memory(err, "random weights", sizeof *init->blocks);
    *out = rs_malloc(count, sizeof(float));
    if (!*out)
        return rs_fail(err, RS_E_NO_MEMORY, "random weights", "choose a smaller model",
                       "out of memory for a weight of %" PRIu64 " numbers (%.3g GiB so far)", count,
                       (double)init->bytes / 0x1p30);
    init->blocks[init->n_blocks++] = *out;
    init->bytes += count * sizeof(float);
    return RS_OK;
}

/* A name of its own, "layer 3 q"; *times counts how often that role was drawn for that layer before
 * (self- and cross-attention of one layer). */
static rs_status name_tensor(const char **out, uint32_t *times, rs_init *init, rs_role role,
                             bool bias, int32_t layer, rs_error *err)
{
    char layer_text[32] = "", again[32] = "";
    if (layer >= 0) snprintf(layer_text, sizeof layer_text, "layer %d ", (int)layer);
    for (*times = 0;; ++*times) {
        if (*times) snprintf(again, sizeof again, " (%u)", (unsigned)*times + 1);
        const char *name = rs_arena_printf(init->arena, "%s%s%s%s", layer_text, rs_role_name(role),
                                           bias ? ".bias" : "", again);
        bool existed = false;
        if (!name || !rs_strmap_insert(&init->names, name, strlen(name), 0, &existed))
            return rs_fail_memory(err, "a random weight", 64);
        *out = name;
        if (!existed) return RS_OK;
    }
}

static rs_status new_tensor(drawn_tensor **out, rs_init *init, uint32_t rank, const int64_t *shape,
                            rs_error *err)
{
    drawn_tensor *drawn = rs_arena_alloc(init->arena, 1, sizeof *drawn);
    int64_t *sizes = rs_arena_alloc(init->arena, rank ? rank : 1, sizeof *sizes);
    if (!drawn || !sizes) return rs_fail_memory(err, "a random weight", sizeof *drawn);
    rs_tensor *tensor = &drawn->tensor;
    if (rank) memcpy(sizes, shape, rank * sizeof *sizes);
    tensor->dtype = RS_F32;
    tensor->rank = rank;
    tensor->shape = sizes;
    tensor->type_id = -1;
    *out = drawn;
    return RS_OK;
}

/* Names it, and draws it from the law that it has; or counts it. */
static rs_status draw_tensor(drawn_tensor *drawn, rs_init *init, rs_role role, bool bias,
                             int32_t layer, const place *at, rs_error *err)
{
    rs_tensor *tensor = &drawn->tensor;
    uint32_t times = 0;
    RS_TRY(name_tensor(&tensor->name, &times, init, role, bias, layer, err));
    tensor->count = at->count;
    tensor->bytes = (uint64_t)at->count * sizeof(float);
    if (init->planning) {
        init->planned += (double)at->count;
        return RS_OK;
    }
    float *data = NULL;
    RS_TRY(new_block(&data, init, (uint64_t)at->count, err));
    rs_draw stream = {init->seed, {(uint32_t)role | times << 8, (uint32_t)(layer + 1)}};
    RS_TRY(draw_by(data, init, &drawn->law, &stream, at, err));
    tensor->data = (const uint8_t *)data;
    return RS_OK;
}

rs_status rs_init_tensor(const rs_tensor **out, rs_init *init, rs_role role, bool bias,
                         int32_t layer, uint32_t rank, const int64_t *shape, bool out_is_row,
                         rs_error *err)
{
    *out = NULL;
    place at = {0};
    RS_TRY(measure_place(&at, role, rank, shape, out_is_row, err));
    drawn_tensor *drawn = NULL;
    RS_TRY(new_tensor(&drawn, init, rank, shape, err));
    RS_TRY(tensor_law(&drawn->law, init, role, bias, &at, err));
    RS_TRY(draw_tensor(drawn, init, role, bias, layer, &at, err));
    *out = &drawn->tensor;
    return RS_OK;
}

rs_status rs_init_tensor_by(const rs_tensor **out, rs_init *init, rs_role role, int32_t layer,
                            const rs_weight_law *given, uint32_t rank, const int64_t *shape,
                            rs_error *err)
{
    *out = NULL;
    place at = {0};
    RS_TRY(measure_place(&at, role, rank, shape, true, err));
    drawn_tensor *drawn = NULL;
    RS_TRY(new_tensor(&drawn, init, rank, shape, err));
    drawn->law = *given;
    RS_TRY(draw_tensor(drawn, init, role, false, layer, &at, err));
    *out = &drawn->tensor;
    return RS_OK;
}

float *rs_init_numbers(const rs_init *init, const rs_tensor *tensor)
{
    return init->planning ? NULL : (float *)(uintptr_t)tensor->data;
}

/* Streams of their own, away from those of the weights: a hash of the name (FNV-1a). */
double rs_init_uniform(const rs_init *init, const rs_tensor *tensor, int64_t i)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *c = tensor->name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    rs_random random = rs_random_new(init->seed, hash);
    random.counter = (uint64_t)i;
    return rs_random_uniform(&random);
}
