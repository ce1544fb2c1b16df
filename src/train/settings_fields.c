/* settings_fields.c: the fields of a task file, in the order in which they are written. */
#include "train/settings_parts.h"

#include <string.h>

#define AT(member) offsetof(rs_train_settings, member)
#define MOST_SAMPLES 2147483647.0
#define LARGEST 16777216.0

static const char *const optimiser_words[] = {"sgd", "heavy_ball", "adam", "adamw", NULL};
static const char *const schedule_words[] = {"constant",     "cosine", "linear",
                                             "inverse_sqrt", "step",   NULL};
static const char *const precision_words[] = {"f32", "f64", NULL};
static const char *const loss_words[] = {"auto", "cross_entropy", "squared", "hinge", NULL};
static const char *const embed_words[] = {"none", "linear", "mlp", NULL};
static const char *const at_words[] = {"first", "last", "all", NULL};
static const char *const trainable_words[] = {"skips", "branches", "shaped", NULL};
static const char *const alarm_words[] = {"token_collapse", "vanishing_qk_gradient",
                                          "qk_rank_loss",   "ov_rank_loss",
                                          "context_unused", "loss_spike",
                                          "nonfinite_loss", NULL};

/* Which of these a task has is in its row (rs_task_kind.fields), or below. */
const rs_train_field rs_train_data_fields[] = {
    {"length", RS_FIELD_WHOLE, AT(data.length), 1, LARGEST, NULL, NULL},
    {"shortest", RS_FIELD_WHOLE, AT(data.shortest), 1, LARGEST, NULL, NULL},
    {"symbols", RS_FIELD_WHOLE, AT(data.symbols), 1, LARGEST, NULL, NULL},
    {"keys", RS_FIELD_WHOLE, AT(data.keys), 1, LARGEST, NULL, NULL},
    {"values", RS_FIELD_WHOLE, AT(data.values), 1, LARGEST, NULL, NULL},
    {"pairs", RS_FIELD_WHOLE, AT(data.pairs), 1, LARGEST, NULL, NULL},
    {"queries", RS_FIELD_WHOLE, AT(data.queries), 1, LARGEST, NULL, NULL},
    {"power", RS_FIELD_REAL, AT(data.power), -100, 100, NULL, NULL},
    {"filler", RS_FIELD_FLAG, AT(data.filler), 0, 0, NULL, NULL},
    {"side", RS_FIELD_REAL, AT(data.side), 0, 1e100, NULL, NULL},
    {"shift", RS_FIELD_REAL, AT(data.shift), 0, 1e100, NULL, NULL},
    {"radius", RS_FIELD_REAL, AT(data.radius), 0, 1e100, NULL, NULL},
    {"angles", RS_FIELD_WHOLE, AT(data.angles), 4, LARGEST, NULL, NULL},
    {"lag", RS_FIELD_WHOLE, AT(data.lag), 0, LARGEST, NULL, NULL},
    {"width", RS_FIELD_WHOLE, AT(data.width), 1, LARGEST, NULL, NULL},
    {"deviation", RS_FIELD_REAL, AT(data.deviation), 0, 1e100, NULL, NULL},
    {"block", RS_FIELD_WHOLE, AT(data.block), 1, LARGEST, NULL, NULL},
    {"copies", RS_FIELD_REAL, AT(data.copies), 0, 1, NULL, NULL},
    {"hidden", RS_FIELD_REAL, AT(data.hidden), 0, 1, NULL, NULL},
    {"map", RS_FIELD_WORD, AT(data.map), 0, 0, rs_entry_map_names, NULL},
    {"train", RS_FIELD_WHOLE, AT(data.train), 0, MOST_SAMPLES, NULL, NULL},
    {"eval", RS_FIELD_WHOLE, AT(data.eval), 0, MOST_SAMPLES, NULL, NULL},
    {"shuffle", RS_FIELD_FLAG, AT(data.shuffle), 0, 0, NULL, NULL},
    {"batches", RS_FIELD_TEXT, AT(data.batches), 0, 0, NULL, NULL},
    {"text", RS_FIELD_TEXT, AT(files.text), 0, 0, NULL, NULL},
    {"tokenizer", RS_FIELD_TEXT, AT(files.tokenizer), 0, 0, NULL, NULL},
    {"x", RS_FIELD_TEXT, AT(files.x), 0, 0, NULL, NULL},
    {"y", RS_FIELD_TEXT, AT(files.y), 0, 0, NULL, NULL},
    {"patch", RS_FIELD_WHOLE, AT(files.patch), 1, LARGEST, NULL, NULL},
    {"horizon", RS_FIELD_WHOLE, AT(files.horizon), 1, LARGEST, NULL, NULL},
    {"mask_rate", RS_FIELD_REAL, AT(files.mask_rate), 0, 1, NULL, NULL},
    {"eval_share", RS_FIELD_BELOW, AT(files.eval_share), 0, 1, NULL, NULL},
    {"at", RS_FIELD_WORD, AT(files.at), 0, 0, at_words, NULL},
    {0}};

static const rs_train_field embed_fields[] = {
    {"map", RS_FIELD_WORD, AT(embed_map), 0, 0, embed_words, NULL},
    {"width", RS_FIELD_WHOLE, AT(embed_width), 0, LARGEST, NULL, NULL},
    {"norm", RS_FIELD_FLAG, AT(embed_norm), 0, 0, NULL, NULL},
    {0}};

static const rs_train_field optimiser_fields[] = {
    {"kind", RS_FIELD_WORD, AT(rule.kind), 0, 0, optimiser_words, NULL},
    {"lr", RS_FIELD_REAL, AT(lr), 0, 1e6, NULL, NULL},
    {"betas", RS_FIELD_PAIR, AT(rule.betas), 0, 1, NULL, NULL},
    {"eps", RS_FIELD_REAL, AT(rule.eps), 0, 1e6, NULL, NULL},
    {"clip", RS_FIELD_LIMIT, AT(clip), 0, 0, NULL, NULL},
    {"clip_each", RS_FIELD_LIMIT, AT(clip_each), 0, 0, NULL, NULL},
    {"weight_decay", RS_FIELD_GROUPS, AT(decays), 0, 1e6, NULL, NULL},
    {"lr_factor", RS_FIELD_GROUPS, AT(rates), 0, 1e6, NULL, NULL},
    {"frozen", RS_FIELD_TEXTS, AT(frozen), 0, 0, NULL, NULL},
    {"product_penalty", RS_FIELD_REAL, AT(product_penalty), 0, 1e6, NULL, NULL},
    {0}};

static const rs_train_field temperature_fields[] = {
    {"start", RS_FIELD_REAL, AT(temperature.start), 0, 1e6, NULL, NULL},
    {"final", RS_FIELD_REAL, AT(temperature.final), 0, 1e6, NULL, NULL},
    {"steps", RS_FIELD_WHOLE, AT(temperature.steps), 0, MOST_SAMPLES, NULL, NULL},
    {0}};

static const rs_train_field schedule_fields[] = {
    {"kind", RS_FIELD_WORD, AT(schedule.kind), 0, 0, schedule_words, NULL},
    {"warmup", RS_FIELD_WHOLE, AT(schedule.warmup), 0, MOST_SAMPLES, NULL, NULL},
    {"steps", RS_FIELD_WHOLE, AT(schedule.steps), 0, MOST_SAMPLES, NULL, NULL},
    {"last", RS_FIELD_REAL, AT(schedule.last), 0, 1e6, NULL, NULL},
    {"factor", RS_FIELD_REAL, AT(schedule.factor), 0, 1e6, NULL, NULL},
    {"every", RS_FIELD_WHOLE, AT(schedule.every), 0, MOST_SAMPLES, NULL, NULL},
    {"milestones", RS_FIELD_WHOLES, AT(schedule.milestones), 0, RS_SCHEDULE_MILESTONES, NULL, NULL},
    {"temperature", RS_FIELD_SECTION, 0, 0, 0, NULL, temperature_fields},
    {0}};

static const rs_train_field alarm_fields[] = {
    {"token_collapse", RS_FIELD_REAL, AT(alarms.token_collapse), 0, 1e6, NULL, NULL},
    {"vanishing_qk_gradient", RS_FIELD_REAL, AT(alarms.vanishing_qk_gradient), 0, 1e6, NULL, NULL},
    {"qk_rank_loss", RS_FIELD_REAL, AT(alarms.qk_rank_loss), 0, 1e6, NULL, NULL},
    {"ov_rank_loss", RS_FIELD_REAL, AT(alarms.ov_rank_loss), 0, 1e6, NULL, NULL},
    {"context_unused", RS_FIELD_REAL, AT(alarms.context_unused), 0, 1e6, NULL, NULL},
    {"loss_spike", RS_FIELD_REAL, AT(alarms.loss_spike), 0, 1e6, NULL, NULL},
    {"hold", RS_FIELD_WHOLE, AT(alarms.hold), 0, MOST_SAMPLES, NULL, NULL},
    {0}};

const rs_train_field rs_train_fields[] = {
    {"task", RS_FIELD_TEXT, AT(task), 0, 0, NULL, NULL},
    {"data", RS_FIELD_SECTION, 0, 0, 0, NULL, rs_train_data_fields},
    {"model", RS_FIELD_MODEL, 0, 0, 0, NULL, NULL},
    {"embed", RS_FIELD_SECTION, 0, 0, 0, NULL, embed_fields},
    {"steps", RS_FIELD_WHOLE, AT(steps), 0, MOST_SAMPLES, NULL, NULL},
    {"batch", RS_FIELD_WHOLE, AT(batch), 1, LARGEST, NULL, NULL},
    {"accumulate", RS_FIELD_WHOLE, AT(accumulate), 1, LARGEST, NULL, NULL},
    {"seed", RS_FIELD_WHOLE, AT(seed), 0, 9007199254740992.0, NULL, NULL},
    {"precision", RS_FIELD_WORD, AT(precision), 0, 0, precision_words, NULL},
    {"loss", RS_FIELD_WORD, AT(loss), 0, 0, loss_words, NULL},
    {"dropout", RS_FIELD_BELOW, AT(dropout), 0, 1, NULL, NULL},
    {"label_smoothing", RS_FIELD_BELOW, AT(label_smoothing), 0, 1, NULL, NULL},
    {"optimizer", RS_FIELD_SECTION, 0, 0, 0, NULL, optimiser_fields},
    {"schedule", RS_FIELD_SECTION, 0, 0, 0, NULL, schedule_fields},
    {"trainable", RS_FIELD_TEXTS, AT(trainable), 0, 0, trainable_words, NULL},
    {"start", RS_FIELD_STARTS, AT(start), 0, 0, NULL, NULL},
    {"log_every", RS_FIELD_WHOLE, AT(log_every), 1, MOST_SAMPLES, NULL, NULL},
    {"rank_every", RS_FIELD_WHOLE, AT(rank_every), 0, MOST_SAMPLES, NULL, NULL},
    {"eval_every", RS_FIELD_WHOLE, AT(eval_every), 0, MOST_SAMPLES, NULL, NULL},
    {"probe_samples", RS_FIELD_WHOLE, AT(probe_samples), 1, LARGEST, NULL, NULL},
    {"every_checkpoint", RS_FIELD_WHOLE, AT(checkpoint_every), 0, MOST_SAMPLES, NULL, NULL},
    {"keep", RS_FIELD_WHOLE, AT(keep), 1, LARGEST, NULL, NULL},
    {"alarms", RS_FIELD_SECTION, 0, 0, 0, NULL, alarm_fields},
    {"stop_on", RS_FIELD_TEXTS, AT(stop_on), 0, 0, alarm_words, NULL},
    {0}};

/* ---- tasks whose data are files ---- */

static const char *const char_fields[] = {"text", "length", "eval_share", NULL};
static const char *const bpe_fields[] = {"text", "tokenizer", "length", "eval_share", NULL};
static const char *const mlm_fields[] = {"text",      "tokenizer",  "length",
                                         "mask_rate", "eval_share", NULL};
static const char *const image_fields[] = {"x", "y", "patch", "at", "shuffle", "eval_share", NULL};
static const char *const series_fields[] = {"x",  "y",       "length",     "horizon",
                                            "at", "shuffle", "eval_share", NULL};
static const char *const token_fields[] = {"x", "y", "at", "shuffle", "eval_share", NULL};

const char *const *rs_train_data_names(const char *task)
{
    static const struct {
        const char *name;
        const char *const *fields;
    } tasks[] = {{"char-lm", char_fields}, {"bpe-lm", bpe_fields},    {"mlm", mlm_fields},
                 {"image", image_fields},  {"series", series_fields}, {"tokens", token_fields}};
    const rs_task_kind *kind = rs_task_find(task);
    if (kind) return kind->fields;
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++)
        if (strcmp(tasks[t].name, task) == 0) return tasks[t].fields;
    return NULL;
}
