/* edit.c: interventions by name, as the command line spells them. */
#include "network/edit_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 65536 };

void rs_edit_init(rs_edit *edit)
{
    *edit = (rs_edit){.temperature = 1};
    edit->mix_identity = edit->mix_softmax = edit->mix_uniform = NAN;
}

/* ---- values ---- */

static const char *const strength_names[] = {"L", "l", NULL};

static rs_status bad_value(const char *where, const char *value, const char *wanted, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, where, NULL, "\"%.80s\" given; %s is needed",
                   value ? value : "", wanted);
}

/* One piece of a list whose separators are commas or colons. Returns what follows it, or NULL at
 * the end. */
static const char *next_piece(char *piece, size_t size, const char *text)
{
    size_t n = strcspn(text, ",:"), kept = n < size ? n : size - 1;
    memcpy(piece, text, kept);
    piece[kept] = 0;
    return text[n] ? text + n + 1 : NULL;
}

static rs_status check_strengths(const char *text, const char *where, rs_error *err)
{
    char piece[320];
    double value;
    for (const char *at = text; at;) {
        at = next_piece(piece, sizeof piece, at);
        RS_TRY(rs_expression(&value, piece, strength_names, NULL, where, err));
    }
    return RS_OK;
}

static rs_status read_number(double *out, const char *text, const char *where, rs_error *err)
{
    const double none = 0; /* there are no names, but divisions are to be checked */
    return rs_expression(out, text, NULL, &none, where, err);
}

/* ---- one function for each kind of option ---- */

typedef rs_status set_fn(rs_edit *edit, const char *value, size_t offset, const char *where,
                         rs_error *err);

static rs_status set_flag(rs_edit *edit, const char *value, size_t offset, const char *where,
                          rs_error *err)
{
    (void)value, (void)where, (void)err;
    *(bool *)(void *)((char *)edit + offset) = true;
    return RS_OK;
}

/* One matrix takes the place of P: two of them would contradict each other. */
static rs_status set_mix(rs_edit *edit, double identity, double softmax, double uniform,
                         const char *where, rs_error *err)
{
    bool same = edit->mix_identity == identity && edit->mix_softmax == softmax &&
                edit->mix_uniform == uniform;
    if (!isnan(edit->mix_softmax) && !same)
        return rs_fail(
            err, RS_E_BAD_OPTION, where,
            "give one of --center-attention, --remove-gap, --uniform-attention, --shaped "
            "and --attention-rescale",
            "another option has replaced the attention matrix already");
    edit->mix_identity = identity;
    edit->mix_softmax = softmax;
    edit->mix_uniform = uniform;
    return RS_OK;
}

static rs_status set_centred(rs_edit *edit, const char *value, size_t offset, const char *where,
                             rs_error *err)
{
    (void)value, (void)offset;
    return set_mix(edit, 0, 1, 1, where, err);
}

static rs_status set_gap(rs_edit *edit, const char *value, size_t offset, const char *where,
                         rs_error *err)
{
    (void)value, (void)offset;
    edit->remove_gap = true;
    return set_mix(edit, 0, 1, 1, where, err);
}

static rs_status set_uniform(rs_edit *edit, const char *value, size_t offset, const char *where,
                             rs_error *err)
{
    (void)value, (void)offset;
    return set_mix(edit, 0, 0, -1, where, err);
}

static rs_status set_shaped(rs_edit *edit, const char *value, size_t offset, const char *where,
                            rs_error *err)
{
    (void)offset;
    static const char wanted[] = "A,B,C for A*I + B*P - C*(uniform)";
    double numbers[3];
    int n = 0;
    char piece[320];
    for (const char *at = value; at; n++) {
        at = next_piece(piece, sizeof piece, at);
        if (n == 3) return bad_value(where, value, wanted, err);
        RS_TRY(read_number(&numbers[n], piece, where, err));
    }
    if (n != 3) return bad_value(where, value, wanted, err);
    return set_mix(edit, numbers[0], numbers[1], numbers[2], where, err);
}

static rs_status set_rescale(rs_edit *edit, const char *value, size_t offset, const char *where,
                             rs_error *err)
{
    (void)offset;
    double w;
    RS_TRY(read_number(&w, value, where, err));
    return set_mix(edit, 0, 1 + w, w, where, err);
}

bool rs_edit_cuts_attention(const rs_edit *edit)
{
    return edit->attention_rank > 0 || edit->attention_energy > 0;
}

/* "16": a rank; "90%": what holds so much of the energy. */
static rs_status set_rank(rs_edit *edit, const char *value, size_t offset, const char *where,
                          rs_error *err)
{
    (void)offset;
    static const char wanted[] = "a whole rank from 1 on, or a share of the energy such as 90%";
    char *end = NULL;
    double read = value && value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : 0;
    bool share = read > 0 && strcmp(end, "%") == 0;
    bool fits =
        share ? read <= 100 : read >= 1 && read <= INT32_MAX && read == floor(read) && !*end;
    if (!fits) return bad_value(where, value, wanted, err);
    edit->attention_rank = share ? 0 : (int64_t)read;
    edit->attention_energy = share ? read / 100 : 0;
    return RS_OK;
}

static rs_status set_temperature(rs_edit *edit, const char *value, size_t offset, const char *where,
                                 rs_error *err)
{
    (void)offset;
    double temperature;
    RS_TRY(read_number(&temperature, value, where, err));
    if (!(temperature > 0)) return bad_value(where, value, "a number above 0", err);
    edit->temperature = temperature;
    return RS_OK;
}

static rs_status set_lambda(rs_edit *edit, const char *value, size_t offset, const char *where,
                            rs_error *err)
{
    (void)offset;
    static const char mixer[] = "mixer:", mlp[] = "mlp:";
    bool only_mixer = strncmp(value, mixer, sizeof mixer - 1) == 0;
    bool only_mlp = strncmp(value, mlp, sizeof mlp - 1) == 0;
    const char *list = value + (only_mixer ? sizeof mixer - 1 : only_mlp ? sizeof mlp - 1 : 0);
    RS_TRY(check_strengths(list, where, err));
    if (!only_mlp) edit->mixer_lambda = list;
    if (!only_mixer) edit->mlp_lambda = list;
    return RS_OK;
}

static rs_status set_residual(rs_edit *edit, const char *value, size_t offset, const char *where,
                              rs_error *err)
{
    (void)offset;
    RS_TRY(check_strengths(value, where, err));
    edit->residual_scale = value;
    return RS_OK;
}

static rs_status set_depth(rs_edit *edit, const char *value, size_t offset, const char *where,
                           rs_error *err)
{
    (void)offset;
    size_t n = strspn(value, "0123456789");
    int32_t depth = 0;
    for (size_t i = 0; i < n && depth <= DEEPEST; i++)
        depth = 10 * depth + (value[i] - '0');
    if (value[n] || depth < 1 || depth > DEEPEST)
        return bad_value(where, value, "a number of layers from 1 to 65536", err);
    edit->depth = depth;
    return RS_OK;
}

static rs_status set_fusion(rs_edit *edit, const char *value, size_t offset, const char *where,
                            rs_error *err)
{
    (void)offset;
    static const char *const names[] = {"none", "concat", "max", "gate", NULL};
    static const rs_fusion fusions[] = {RS_FUSION_NONE, RS_FUSION_CONCAT, RS_FUSION_MAX,
                                        RS_FUSION_GATE};
    for (size_t i = 0; names[i]; i++)
        if (strcmp(names[i], value) == 0) {
            edit->fusion = fusions[i];
            return RS_OK;
        }
    return bad_value(where, value, "concat, max, gate or none", err);
}

static rs_status set_placement(rs_edit *edit, const char *value, size_t offset, const char *where,
                               rs_error *err)
{
    (void)offset;
    bool pre = strcmp(value, "pre") == 0;
    if (!pre && strcmp(value, "post") != 0) return bad_value(where, value, "pre or post", err);
    edit->placement = pre ? RS_PLACEMENT_PRE : RS_PLACEMENT_POST;
    return RS_OK;
}

static rs_status set_ablate(rs_edit *edit, const char *value, size_t offset, const char *where,
                            rs_error *err)
{
    (void)offset;
    size_t n = 0;
    RS_TRY(rs_ablation_check(value, where, err));
    while (n < RS_ABLATIONS && edit->ablate[n])
        n++;
    if (n == RS_ABLATIONS)
        return rs_fail(err, RS_E_BAD_OPTION, where, "put the heads into one list, L:H,L:H",
                       "it is given more than %d times", (int)RS_ABLATIONS);
    edit->ablate[n] = value;
    return RS_OK;
}

/* ---- the table of options ---- */

typedef struct option_row {
    const char *name;
    set_fn *set;
    size_t offset; /* of the flag */
    bool has_value;
} option_row;

#define FLAG(name, field)                                                                          \
    {                                                                                              \
        name, set_flag, offsetof(rs_edit, field), false                                            \
    }
static const option_row option_rows[] = {
    FLAG("no-skip", no_skip),
    FLAG("no-mixer-skip", no_mixer_skip),
    FLAG("no-mlp", no_mlp),
    FLAG("no-mlp-branch", no_mlp_branch),
    FLAG("no-norm", no_norm),
    FLAG("no-mask", no_mask),
    FLAG("no-gate", no_gate),
    FLAG("no-inner-norm", no_inner_norm),
    {"norm-placement", set_placement, 0, true},
    {"center-attention", set_centred, 0, false},
    {"centre-attention", set_centred, 0, false},
    {"remove-gap", set_gap, 0, false},
    {"uniform-attention", set_uniform, 0, false},
    {"shaped", set_shaped, 0, true},
    {"attention-rescale", set_rescale, 0, true},
    {"attention-rank", set_rank, 0, true},
    {"temperature", set_temperature, 0, true},
    {"lambda", set_lambda, 0, true},
    {"residual-scale", set_residual, 0, true},
    {"ablate", set_ablate, 0, true},
    {"depth", set_depth, 0, true},
    {"fusion", set_fusion, 0, true},
};
enum { OPTION_ROWS = sizeof option_rows / sizeof *option_rows };

static const option_row *find_option(const char *name)
{
    for (size_t i = 0; i < OPTION_ROWS; i++)
        if (strcmp(option_rows[i].name, name) == 0) return &option_rows[i];
    return NULL;
}

bool rs_edit_is_option(const char *name)
{
    return find_option(name) != NULL;
}

rs_status rs_edit_option(rs_edit *edit, const char *name, const char *value, rs_error *err)
{
    char where[96];
    snprintf(where, sizeof where, "--%.80s", name);
    const option_row *row = find_option(name);
    if (!*name)
        return rs_fail(err, RS_E_BAD_OPTION, "--variants", "write NAME=option,option",
                       "a variant without any option, or an option without a name");
    if (!row) {
        const char *known[OPTION_ROWS + 1];
        for (size_t i = 0; i < OPTION_ROWS; i++)
            known[i] = option_rows[i].name;
        known[OPTION_ROWS] = NULL;
        char hint[96];
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(name, known));
        return rs_fail(err, RS_E_BAD_OPTION, where, hint, "is no intervention");
    }
    if (row->has_value && (!value || !*value))
        return rs_fail(err, RS_E_BAD_OPTION, where, NULL, "needs a value");
    if (!row->has_value && value)
        return rs_fail(err, RS_E_BAD_OPTION, where, NULL, "takes no value; \"%.60s\" given", value);
    return row->set(edit, value, row->offset, where, err);
}

/* ---- named sets (docs/contract.md) ---- */

enum { DROP_SKIP = 1u << 0, DROP_MIXER_SKIP = 1u << 1, DROP_MLP = 1u << 2, DROP_NORM = 1u << 3 };
static const struct {
    const char *name;
    unsigned drops;
} named_rows[] = {
    {"san", DROP_MIXER_SKIP | DROP_MLP},
    {"san+mlp", DROP_MIXER_SKIP},
    {"san+skip", DROP_MLP},
    {"full", 0},
    {"pure", DROP_SKIP | DROP_MLP | DROP_NORM},
};
enum { NAMED_ROWS = sizeof named_rows / sizeof *named_rows };

rs_status rs_edit_named(rs_edit *edit, const char *name, rs_error *err)
{
    const char *known[NAMED_ROWS + 1];
    for (size_t i = 0; i < NAMED_ROWS; i++) {
        known[i] = named_rows[i].name;
        if (strcmp(name, known[i]) != 0) continue;
        unsigned drops = named_rows[i].drops;
        edit->no_skip |= (drops & DROP_SKIP) != 0;
        edit->no_mixer_skip |= (drops & DROP_MIXER_SKIP) != 0;
        edit->no_mlp |= (drops & DROP_MLP) != 0;
        edit->no_norm |= (drops & DROP_NORM) != 0;
        return RS_OK;
    }
    known[NAMED_ROWS] = NULL;
    char hint[160];
    snprintf(hint, sizeof hint, "did you mean \"%s\"? A variant of your own is NAME=option,option",
             rs_nearest_name(name, known));
    return rs_fail(err, RS_E_BAD_OPTION, "--variants", hint, "there is no variant \"%.80s\"", name);
}
