/*
 * settings.h: a task file (TASK.json, docs/train.md) as numbers. A field that is not given keeps the
 * named task's own setting, inside objects too (but the groups of a field are given whole); an
 * unknown field or value is refused by name with
 * the nearest known one.
 */
#ifndef RS_TRAIN_SETTINGS_H
#define RS_TRAIN_SETTINGS_H

#include "base/memory.h"
#include "base/text.h"
#include "train/groups.h"
#include "train/optimiser.h"
#include "train/schedule.h"
#include "train/task.h"

#include <jansson.h>

typedef enum rs_train_loss {
    RS_TRAIN_LOSS_AUTO, /* by the targets; never left behind by the reader for drawn tasks */
    RS_TRAIN_LOSS_CROSS_ENTROPY,
    RS_TRAIN_LOSS_SQUARED,
    RS_TRAIN_LOSS_HINGE
} rs_train_loss;

/* What stands between what a task gives (embeddings or rows of numbers) and the first layer. */
typedef enum rs_embed_map {
    RS_EMBED_NONE,
    RS_EMBED_LINEAR, /* one map */
    RS_EMBED_MLP     /* a map, GELU, a map */
} rs_embed_map;

typedef struct rs_group_list {
    rs_group_value *items;
    int64_t n;
} rs_group_list;
typedef struct rs_text_list {
    const char **items;
    int64_t n;
} rs_text_list;
/* Tensors, as groups choose them, and where their numbers come from: a law ("zero") or a file. */
typedef struct rs_start {
    const char *select, *from;
} rs_start;
typedef struct rs_start_list {
    rs_start *items;
    int64_t n;
} rs_start_list;

/* Where alarms ring (issue 17, 4). */
typedef struct rs_alarm_limits {
    double token_collapse, vanishing_qk_gradient, qk_rank_loss, ov_rank_loss, context_unused;
    double loss_spike;
    int64_t hold; /* steps that a warning must last; a run takes max(hold, 2 warmup) */
} rs_alarm_limits;

/* A task file, field by field as docs/train.md has them. */
typedef struct rs_train_settings {
    rs_arena *arena;
    const char *path; /* for messages */
    const char *task;
    const rs_task_kind *kind; /* NULL: its data are the user's files */
    rs_task_data data;
    rs_data_files files;
    rs_task_shape shape; /* of a drawn task; of the user's data once they are open */
    json_t *model; /* ARCH.json as an object, with the task's vocab and seq_len (of the user's data
                      once they are open); or NULL */
    const char *model_path;
    rs_embed_map embed_map;
    int64_t embed_width; /* inside of RS_EMBED_MLP; 0: d_model */
    bool embed_norm;
    int64_t steps, batch, accumulate, seed;
    bool saves;    /* checkpoints are written, from copies; no field: the caller's */
    int precision; /* rs_precision */
    int loss;      /* rs_train_loss */
    double dropout, label_smoothing;
    rs_optimiser_rule rule;
    double lr, clip, clip_each; /* clip: infinity for none */
    double product_penalty;
    rs_group_list decays, rates;
    rs_text_list frozen, trainable;
    rs_start_list start;
    rs_schedule schedule;
    rs_temperature temperature;
    int64_t log_every, rank_every, eval_every, probe_samples;
    int64_t checkpoint_every, keep;
    rs_alarm_limits alarms;
    rs_text_list stop_on;
} rs_train_settings;

/* Reads `input`, a task's name or a file, and then the overrides [n_sets], each "key=value" with
 * dots between names ("optimizer.weight_decay.attention=1"; a dot behind a backslash is part of a
 * name). A value is JSON, or else a text. Errors: RS_E_TASK_SCHEMA, RS_E_BAD_OPTION (an override),
 * those of reading files and JSON, RS_E_NO_MEMORY. */
rs_status rs_train_settings_open(rs_train_settings **out, const char *input,
                                 const char *const *sets, size_t n_sets, rs_error *err);
/* The same of a JSON value, which is not changed; `path` is for messages. */
rs_status rs_train_settings_read(rs_train_settings **out, const json_t *json, const char *path,
                                 const char *const *sets, size_t n_sets, rs_error *err);
void rs_train_settings_close(rs_train_settings *settings); /* NULL is fine */

/*
 * Opens the settings' task, whether it is drawn or reads the user's files. What follows from those is
 * set then: shape, loss, the model's vocab and seq_len. The settings must outlive the task; context
 * (NULL is fine) is asked whether to stop. Errors: those of rs_task_open and rs_task_open_files,
 * RS_E_TASK_SCHEMA (a loss or a model that does not fit the data).
 */
rs_status rs_train_open_task(rs_train_task **out, rs_train_settings *settings,
                             const rs_context *context, rs_error *err);

/* All fields with their values, as an object that reads back to the same settings; NULL when out of
 * memory. */
json_t *rs_train_settings_write(const rs_train_settings *settings);
/* What an earlier program wrote, as this one would: fields that it did not have are as the task sets
 * them, but for those of the model, without which it was another network. The caller drops *out. */
rs_status rs_train_settings_renew(json_t **out, const json_t *old, rs_error *err);
/* Appends "NAME: OLD, now NEW" for each field of one of two such objects that the other has not or
 * has otherwise, with ", " between; nothing where they are equal. */
void rs_train_settings_differ(rs_buffer *out, const json_t *old, const json_t *now);

/* A tensor that is trained, as groups see it. */
typedef struct rs_trained_name {
    const char *name;
    unsigned words; /* RS_GROUP_... */
} rs_trained_name;
/* Sets rate, decay and frozen of the items [n] by the settings' groups. Errors: RS_E_TASK_SCHEMA (an
 * expression that is broken or matches no name), RS_E_NO_MEMORY. */
rs_status rs_train_apply_groups(rs_trained *items, const rs_trained_name *names, int64_t n,
                                const rs_train_settings *settings, rs_error *err);

/* A named task. */
typedef struct rs_named_task {
    const char *name;
    const char *text; /* its JSON, with ' for " */
} rs_named_task;
extern const rs_named_task rs_named_tasks[]; /* ends with name NULL */

#endif
