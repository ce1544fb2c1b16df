/* groups.c: words and expressions that choose tensors. */
#include "train/groups.h"

#include "base/memory.h"
#include "base/text.h"
#include "text/pattern.h"

#include <stdio.h>
#include <string.h>

const char *const rs_group_words[] = {"attention", "mlp",   "norm", "embedding", "head",
                                      "strength",  "mixer", "bias", NULL};

/* ---- what a tensor is ---- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with)
{
    size_t n = strlen(text), m = strlen(with);
    return n >= m && strcmp(text + n - m, with) == 0;
}

/* Roles are named by what they belong to (rs_role_name): norm_mixer, mlp_up, embed_token. */
static unsigned place_of_role(const char *name)
{
    if (begins(name, "norm") || ends(name, "norm")) return RS_GROUP_NORM;
    if (begins(name, "mlp") || begins(name, "moe")) return RS_GROUP_MLP;
    if (begins(name, "embed")) return RS_GROUP_EMBEDDING;
    if (begins(name, "lm_head") || begins(name, "head")) return RS_GROUP_HEAD;
    if (begins(name, "ssm") || begins(name, "delta")) return RS_GROUP_MIXER;
    return RS_GROUP_ATTENTION | RS_GROUP_MIXER;
}

unsigned rs_group_words_of(rs_role role, bool gain, bool bias)
{
    const char *name = rs_role_name(role);
    bool numbers = role == RS_ROLE_UNKNOWN || role == RS_ROLE_LAYER_SCALE || role >= RS_ROLE_COUNT;
    unsigned words = gain ? RS_GROUP_NORM : numbers ? RS_GROUP_STRENGTH : place_of_role(name);
    if (!gain && (bias || ends(name, "_bias")) && words != RS_GROUP_NORM) words |= RS_GROUP_BIAS;
    return words;
}

/* ---- settings ---- */

typedef struct group {
    char *select;
    double value;
    unsigned word;       /* the bit; 0: another kind */
    rs_pattern *pattern; /* or NULL */
    bool found;
} group;

struct rs_groups {
    char *where, *field;
    group *items;
    int64_t n;
    rs_searcher searcher;
    rs_text_spans spans;
};

static unsigned word_named(const char *text)
{
    for (unsigned w = 0; rs_group_words[w]; w++)
        if (strcmp(rs_group_words[w], text) == 0) return 1u << w;
    return 0;
}

static rs_status read_group(rs_groups *groups, group *g, const rs_group_value *value, rs_error *err)
{
    *g = (group){.select = rs_strdup(value->select), .value = value->value};
    if (!g->select) return rs_fail_memory(err, "a group of tensors", strlen(value->select));
    g->word = word_named(value->select);
    if (g->word || strcmp(value->select, "default") == 0) return RS_OK;
    rs_error why = {0};
    rs_status status = rs_pattern_new(&g->pattern, value->select, strlen(value->select), true,
                                      groups->where, &why);
    if (status != RS_E_TOKENIZER_PATTERN) {
        if (status != RS_OK && err) *err = why;
        return status;
    }
    return rs_fail(err, RS_E_TASK_SCHEMA, groups->where,
                   "give a word (attention, mlp, norm, ...) or a regular expression",
                   "\"%s\" has \"%.80s\": %.200s", groups->field, value->select, why.what);
}

static rs_status open_groups(rs_groups *groups, const rs_group_value *values, const char *where,
                             const char *field, rs_error *err)
{
    groups->where = rs_strdup(where);
    groups->field = rs_strdup(field);
    size_t n = (size_t)groups->n;
    groups->n = 0;
    groups->items = rs_malloc(n, sizeof *groups->items);
    if (!groups->where || !groups->field || !groups->items)
        return rs_fail_memory(err, "groups of tensors", n * sizeof *groups->items);
    for (size_t i = 0; i < n; i++)
        RS_TRY(read_group(groups, &groups->items[groups->n++], &values[i], err));
    return RS_OK;
}

rs_status rs_groups_new(rs_groups **out, const rs_group_value *values, int64_t n, const char *where,
                        const char *field, rs_error *err)
{
    *out = NULL;
    rs_groups *groups = rs_calloc(1, sizeof *groups);
    if (!groups) return rs_fail_memory(err, "groups of tensors", sizeof *groups);
    groups->n = n;
    rs_status status = open_groups(groups, values, where, field, err);
    if (status != RS_OK)
        rs_groups_free(groups);
    else
        *out = groups;
    return status;
}

void rs_groups_free(rs_groups *groups)
{
    if (!groups) return;
    for (int64_t i = 0; i < groups->n; i++) {
        rs_pattern_free(groups->items[i].pattern);
        rs_free(groups->items[i].select);
    }
    rs_free(groups->items);
    rs_free(groups->where);
    rs_free(groups->field);
    rs_free(groups->spans.items);
    rs_searcher_free(&groups->searcher);
    rs_free(groups);
}

static rs_status is_in(bool *in, rs_groups *groups, const rs_pattern *pattern, const char *name,
                       rs_error *err)
{
    size_t length = strlen(name);
    groups->spans.n = 0;
    rs_searcher_begin(&groups->searcher, length, NULL);
    RS_TRY(rs_pattern_cut(&groups->spans, pattern, &groups->searcher, name, 0, length, err));
    *in = false;
    for (size_t i = 0; i < groups->spans.n; i++)
        if (groups->spans.items[i].match) *in = true;
    return RS_OK;
}

rs_status rs_groups_find(double *value, rs_groups *groups, const char *name, unsigned words,
                         double fallback, rs_error *err)
{
    *value = fallback;
    int rank = -1; /* of what *value is from */
    for (int64_t i = 0; i < groups->n; i++) {
        group *g = &groups->items[i];
        int own = g->pattern ? 2 : g->word ? 1 : 0;
        bool in = own == 0 || (g->word & words);
        if (g->pattern) RS_TRY(is_in(&in, groups, g->pattern, name, err));
        if (!in) continue;
        g->found = true;
        if (own < rank) continue;
        rank = own;
        *value = g->value;
    }
    return RS_OK;
}

rs_status rs_groups_check(const rs_groups *groups, rs_error *err)
{
    for (int64_t i = 0; i < groups->n; i++) {
        const group *g = &groups->items[i];
        if (!g->pattern || g->found) continue;
        char hint[128];
        snprintf(hint, sizeof hint,
                 "it is no word, so it was looked for in names; the nearest "
                 "word is \"%s\"",
                 rs_nearest_name(g->select, rs_group_words));
        return rs_fail(err, RS_E_TASK_SCHEMA, groups->where, hint,
                       "\"%s\" has \"%.80s\", which no tensor's name matches", groups->field,
                       g->select);
    }
    return RS_OK;
}
