/*
 * task.h: what a model is trained on, drawn sample by sample (docs/train.md, Tasks).
 *
 * A task fills token ids or rows of real numbers, and at each position a target or none. Its draws
 * are Philox's, keyed by (seed, which set, step, sample): a batch hangs on nothing else, so neither
 * the number of threads nor where a run was taken up again changes it. NumPy's and PyTorch's
 * generators are not reproduced: a batch that must be another program's own is read from a .npy file
 * (rs_task_data.batches).
 */
#ifndef RS_TRAIN_TASK_H
#define RS_TRAIN_TASK_H

#include "base/context.h"
#include "base/random.h"

#include <stddef.h>
#include <stdint.h>

/* Which of a task's samples are asked for. */
typedef enum rs_task_set {
    RS_TASK_TRAIN,
    RS_TASK_EVAL, /* kept apart from training, but where a task has one set only */
    RS_TASK_PROBE /* apart from both: what the instruments look at */
} rs_task_set;

/* What stands at a target position. */
typedef enum rs_target_kind {
    RS_TARGET_CLASSES,
    RS_TARGET_SHARES, /* soft labels: probabilities of the classes */
    RS_TARGET_REALS
} rs_target_kind;

/* The maps that entry-wise tasks learn. */
typedef enum rs_entry_map {
    RS_MAP_HEAVISIDE,
    RS_MAP_SIGMOID, /* 1 / (1 + exp(-20 (x + 1/2))) */
    RS_MAP_SIGN,
    RS_MAP_ABSOLUTE,
    RS_MAP_SQUARE,
    RS_MAP_SINE, /* sin(pi x) */
    RS_MAP_COUNT
} rs_entry_map;

/* Settings of a task's data. A task uses those that its row of the table lists (rs_task_kind). */
typedef struct rs_task_data {
    int64_t length;         /* tokens of a sample; the longest, where they vary */
    int64_t shortest;       /* memorization: tokens of the shortest sample */
    int64_t symbols;        /* letters, digits, words; mqar: the whole vocabulary */
    int64_t keys, values;   /* associative recall: how many of each there are */
    int64_t pairs, queries; /* associative recall and mqar, in a sequence */
    double power;           /* mqar: gap g has weight (g + 1)^(power - 1), g = 0, 1, ... */
    bool filler;            /* mqar: what is neither pair nor query is a random symbol, not 0 */
    double side, shift;     /* hull: of the square; deviation of a sample's common shift */
    double radius;          /* circle */
    int64_t angles;         /* circle */
    int64_t lag;      /* circle: the pair so many samples before is added to each; 0: none is */
    int64_t width;    /* entry-wise: numbers of a token */
    double deviation; /* entry-wise: of an entry; markov: of the weights' logarithms */
    int64_t block;    /* markov: letters of a block */
    double copies;    /* markov: share of blocks that repeat an earlier one of their sample */
    double hidden; /* markov: share of letters that are hidden, and wanted; 0: the next ones are */
    rs_entry_map map;    /* entry-wise */
    int64_t train, eval; /* samples of the two sets; train 0: every step draws new ones */
    bool shuffle;        /* the training set is put in a new order each epoch */
    const char *batches; /* training batches from this .npy file; NULL: drawn */
} rs_task_data;

/* The sizes of a task's samples. */
typedef struct rs_task_shape {
    int64_t n_tok;
    int64_t vocab; /* token ids are below it; 0: rows of numbers */
    int64_t d_in;  /* numbers of a row; 0: token ids */
    rs_target_kind target;
    int64_t d_out;       /* classes, or numbers of a real target */
    int64_t train, eval; /* as in rs_task_data */
    int64_t probe;       /* samples of the probe set; 0: as many as are asked for */
    bool varies;         /* samples may be shorter than n_tok */
    uint64_t held;       /* bytes that the task keeps of its data */
} rs_task_shape;

/* One sample's places in a batch. */
typedef struct rs_task_sample {
    int32_t *tokens;  /* [n_tok]; behind the sample's own length -1 */
    double *rows;     /* [n_tok, d_in] */
    int32_t *classes; /* [n_tok]; -1: no target */
    double *values;   /* [n_tok, d_out] of shares and reals */
    uint8_t *counted; /* [n_tok] 1: there is a target */
    int32_t *length;
} rs_task_sample;

/* A batch; arrays that the shape has no use for are NULL. Zero-initialise. */
typedef struct rs_task_batch {
    int64_t samples, capacity; /* samples that it holds, and has room for */
    int32_t *tokens;           /* [samples, n_tok] and so on, as in rs_task_sample */
    double *rows;
    int32_t *classes;
    double *values;
    uint8_t *counted;
    int32_t *lengths; /* [samples] */
} rs_task_batch;

typedef struct rs_train_task rs_train_task;

/* A row of the table of tasks. */
typedef struct rs_task_kind {
    const char *name, *says;
    const char *const *fields; /* of rs_task_data that it uses, by their names in TASK.json */
    rs_task_data data;         /* its published settings */
    bool one_set;              /* what is evaluated is what was trained on */
    bool fixed; /* its samples are numbered, not drawn: the train set is all of them */
    rs_status (*shape)(rs_task_shape *out, const rs_task_data *data, const char *where,
                       rs_error *err);
    /* Sample `index` of its set; scratch holds rs_task_scratch numbers. */
    void (*sample)(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                   int64_t index);
} rs_task_kind;

/* The tasks; ends with name NULL. */
extern const rs_task_kind rs_task_kinds[];
const rs_task_kind *rs_task_find(const char *name); /* NULL: there is none */

/* Opens a task; `where` is for messages. Errors: RS_E_TASK_SCHEMA (sizes that do not fit together),
 * those of reading `batches`, RS_E_NO_MEMORY. */
rs_status rs_task_open(rs_train_task **out, const rs_task_kind *kind, const rs_task_data *data,
                       uint64_t seed, const char *where, rs_error *err);
void rs_task_close(rs_train_task *task); /* NULL is fine */

/* Where the one target of a sample stands. */
typedef enum rs_target_place { RS_AT_FIRST, RS_AT_LAST, RS_AT_ALL } rs_target_place;

/* Data that a user names. */
typedef struct rs_data_files {
    const char *text, *tokenizer; /* language models; tokenizer.json or a model's folder */
    const char *x, *y;            /* .npy: images, series, tokens; their targets or labels */
    int64_t patch, horizon;       /* side of a patch; how many values ahead */
    double mask_rate, eval_share; /* masked words; what of the data is kept for evaluation */
    int at;                       /* rs_target_place */
} rs_data_files;

/* A task whose data are the user's files (docs/train.md, Your own data). */
typedef struct rs_file_task {
    const char *name; /* "char-lm", "bpe-lm", "mlm", "image", "series", "tokens" */
    rs_data_files files;
    int64_t length;        /* tokens of a window, where it is not the data's */
    bool shuffle;          /* the training set is put in a new order each epoch */
    int64_t probe_samples; /* at most, that are kept back for the probe batch */
    bool shares;           /* real targets are probabilities of classes */
} rs_file_task;
/*
 * Opens such a task; its texts must outlive it. A text is held as ids (4 bytes each), arrays stay
 * where they are. context may be NULL; `where` is for messages. Errors: RS_E_TASK_SCHEMA (a field that
 * is missing or does not fit the data), RS_E_INPUT_FORMAT (a text that is no UTF-8, elements of a
 * wrong type or value), RS_E_INPUT_SHAPE (sizes that do not fit, too little data), RS_E_EMPTY_FILE,
 * those of reading files and tokenizers, RS_E_NO_MEMORY.
 */
rs_status rs_task_open_files(rs_train_task **out, const rs_file_task *settings, uint64_t seed,
                             const rs_context *context, const char *where, rs_error *err);
/* What of the user's data the user should know: sentences with "; " between, or "". */
const char *rs_task_said(const rs_train_task *task);
/* A number of what the user's files held when they were opened, so that a run that is taken up again
 * can tell other data under the same names; 0: samples are drawn. */
uint64_t rs_task_fingerprint(const rs_train_task *task);
/* The characters of a char-lm by their ids: code points [*n], ascending; NULL: ids are no characters. */
const uint32_t *rs_task_characters(const rs_train_task *task, int64_t *n);
const rs_task_shape *rs_task_sizes(const rs_train_task *task);

rs_status rs_task_batch_new(rs_task_batch *out, const rs_task_shape *shape, int64_t capacity,
                            rs_error *err);
void rs_task_batch_free(rs_task_batch *batch);

/*
 * Fills the batch of a step, of at most out->capacity samples. A set is gone through in batches of
 * that many in order, the last of an epoch holding what is left; of the training set the next epoch
 * follows, of the evaluation set nothing (samples = 0). One thread at a time for one task. Errors:
 * RS_E_INPUT_SHAPE where a file of batches has no such step or another batch size, RS_E_TOKEN_RANGE,
 * RS_E_NO_MEMORY.
 */
rs_status rs_task_fill(rs_task_batch *out, rs_train_task *task, rs_task_set set, int64_t step,
                       rs_error *err);
/* Refuses a file of batches that has fewer than `steps` steps' `accumulate` batches of `batch` samples
 * and the last look's, before anything is trained. Errors: RS_E_INPUT_SHAPE. */
rs_status rs_task_check_batches(const rs_train_task *task, int64_t steps, int64_t accumulate,
                                int64_t batch, rs_error *err);
/* Steps of one epoch; 0: the training set is endless. */
int64_t rs_task_epoch(const rs_train_task *task, int64_t batch);

/* A number that a run's accuracy or loss is printed beside. */
typedef enum rs_mark_kind {
    RS_MARK_FLOOR,   /* accuracy that needs no learning of the task */
    RS_MARK_CEILING, /* the best that can be expected */
    RS_MARK_ERROR,   /* squared error, sum over a sample, of an answer without learning */
    RS_MARK_LOSS     /* cross-entropy of a target, in nats, of an answer without learning */
} rs_mark_kind;
typedef struct rs_task_mark {
    rs_mark_kind kind;
    const char *name;
    double value;
} rs_task_mark;
enum { RS_TASK_MARKS = 4 };
/* The task's marks, by closed forms or from the drawn training set. */
rs_status rs_task_marks(rs_task_mark out[RS_TASK_MARKS], int *count, rs_train_task *task,
                        rs_error *err);

/* Labels of the convex hull of points [n, 2] by Andrew's monotone chain: 1 where a point is a vertex
 * (none that lies inside an edge). order: [2n] for the function's own use. */
void rs_hull_labels(int32_t *labels, const double *points, int64_t n, int32_t *order);
/* A map of entry-wise tasks at one number. */
double rs_entry_value(rs_entry_map map, double x);
extern const char *const rs_entry_map_names[]; /* [RS_MAP_COUNT], then NULL */

#endif
