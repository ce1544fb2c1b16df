/* edit_variants.c: --variants, a list of named sets of interventions. */
#include "network/edit.h"

#include <string.h>

enum { MOST_VARIANTS = 64 };

typedef struct list {
    rs_variant *variants;
    size_t n;
    const rs_edit *base;
    rs_arena *arena;
    rs_error *err;
} list;

/* Sets that stand for several variants. */
static const struct {
    const char *name;
    const char *members[6];
} groups[] = {
    {"dong", {"san", "san+mlp", "san+skip", "full", NULL}},
    {"all", {"san", "san+mlp", "san+skip", "full", "pure", NULL}},
};

static rs_status add_name(list *l, const char *name)
{
    if (!*name)
        return rs_fail(l->err, RS_E_BAD_OPTION, "--variants", NULL, "a variant without a name");
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->variants[i].name, name) == 0)
            return rs_fail(l->err, RS_E_BAD_OPTION, "--variants", NULL,
                           "the variant \"%.80s\" is listed twice", name);
    if (l->n == MOST_VARIANTS)
        return rs_fail(l->err, RS_E_BAD_OPTION, "--variants", NULL,
                       "more than %d variants are listed", (int)MOST_VARIANTS);
    l->variants[l->n++] = (rs_variant){name, *l->base};
    return RS_OK;
}

static rs_status add_named(list *l, const char *name)
{
    rs_edit trial = *l->base;
    RS_TRY(rs_edit_named(&trial, name, l->err));
    RS_TRY(add_name(l, name));
    l->variants[l->n - 1].edit = trial;
    return RS_OK;
}

static const char *const *group_of(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i].name, name) == 0) return groups[i].members;
    return NULL;
}

static bool is_named(const char *name)
{
    rs_edit trial;
    rs_edit_init(&trial);
    return rs_edit_named(&trial, name, NULL) == RS_OK;
}

/* "name", "name:value" or "name=value" of the variant that was begun last; or a named set, as in
 * "cold=san,temperature:0.5". */
static rs_status add_option(list *l, char *item)
{
    rs_edit *edit = &l->variants[l->n - 1].edit;
    if (is_named(item)) return rs_edit_named(edit, item, l->err);
    char *value = item + strcspn(item, ":=");
    if (*value)
        *value++ = 0;
    else
        value = NULL;
    return rs_edit_option(edit, item, value, l->err);
}

static bool starts_own(const char *item)
{
    const char *equals = strchr(item, '=');
    char name[64];
    if (!equals) return false;
    size_t n = (size_t)(equals - item);
    if (n >= sizeof name) return true;
    memcpy(name, item, n);
    name[n] = 0;
    return !rs_edit_is_option(name);
}

/* *own: the variant begun last takes options. */
static rs_status add_item(list *l, char *item, bool *own)
{
    const char *const *members = group_of(item);
    if (members || is_named(item)) {
        *own = false;
        if (!members) return add_named(l, item);
        for (; *members; members++)
            RS_TRY(add_named(l, *members));
        return RS_OK;
    }
    if (starts_own(item)) {
        char *equals = strchr(item, '=');
        *equals = 0;
        *own = true;
        RS_TRY(add_name(l, item));
        if (group_of(item) || is_named(item))
            return rs_fail(l->err, RS_E_BAD_OPTION, "--variants", "choose another name",
                           "\"%s\" is the name of a set that there is", item);
        return add_option(l, equals + 1);
    }
    if (*own) return add_option(l, item);
    rs_edit trial;
    rs_edit_init(&trial);
    return rs_edit_named(&trial, item, l->err);
}

rs_status rs_variants_parse(rs_variant **out, size_t *n, const char *text, const rs_edit *base,
                            rs_arena *arena, rs_error *err)
{
    *out = NULL;
    *n = 0;
    list l = {NULL, 0, base, arena, err};
    char *items = rs_arena_strdup(arena, text);
    l.variants = rs_arena_alloc(arena, MOST_VARIANTS, sizeof *l.variants);
    if (!items || !l.variants) return rs_fail_memory(err, "variants", strlen(text));
    bool own = false;
    for (char *next = items; next;) {
        char *item = next;
        next = strchr(item, ',');
        if (next) *next++ = 0;
        RS_TRY(add_item(&l, item, &own));
    }
    *out = l.variants;
    *n = l.n;
    return RS_OK;
}
