/* settings_groups.c: what the groups of a task file say of each tensor. */
#include "train/settings.h"

/* Puts one setting into every item. */
static rs_status apply_values(rs_trained *items, const rs_trained_name *names, int64_t n,
                              rs_groups *groups, double fallback, void (*put)(rs_trained *, double),
                              rs_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        double value;
        RS_TRY(rs_groups_find(&value, groups, names[i].name, names[i].words, fallback, err));
        put(&items[i], value);
    }
    return rs_groups_check(groups, err);
}

static void put_rate(rs_trained *item, double value)
{
    item->rate = value;
}

static void put_decay(rs_trained *item, double value)
{
    item->decay = value;
}

static void put_frozen(rs_trained *item, double value)
{
    item->frozen = value != 0;
}

/* The groups that are frozen, as values of 1. */
static rs_status list_frozen(rs_group_list *out, const rs_train_settings *s, rs_error *err)
{
    out->n = s->frozen.n;
    out->items = rs_malloc((size_t)out->n, sizeof *out->items);
    if (!out->items) return rs_fail_memory(err, "groups", (size_t)out->n * sizeof *out->items);
    for (int64_t i = 0; i < out->n; i++)
        out->items[i] = (rs_group_value){s->frozen.items[i], 1};
    return RS_OK;
}

rs_status rs_train_apply_groups(rs_trained *items, const rs_trained_name *names, int64_t n,
                                const rs_train_settings *s, rs_error *err)
{
    rs_group_list frozen;
    RS_TRY(list_frozen(&frozen, s, err));
    const struct {
        const char *field;
        const rs_group_list *list;
        double fallback;
        void (*put)(rs_trained *, double);
    } settings[] = {{"lr_factor", &s->rates, 1, put_rate},
                    {"weight_decay", &s->decays, 0, put_decay},
                    {"frozen", &frozen, 0, put_frozen}};
    rs_status status = RS_OK;
    for (int k = 0; k < 3 && status == RS_OK; k++) {
        rs_groups *groups = NULL;
        status = rs_groups_new(&groups, settings[k].list->items, settings[k].list->n, s->path,
                               settings[k].field, err);
        if (status == RS_OK)
            status =
                apply_values(items, names, n, groups, settings[k].fallback, settings[k].put, err);
        rs_groups_free(groups);
    }
    rs_free(frozen.items);
    return status;
}
