/*
 * rankscope.h: the public C interface of librankscope.
 *
 * rankscope measures rank collapse in sequence models. This header is all that a program needs:
 * open a checkpoint, scan it, read or write the result. Pages of docs/ that it names are
 * installed under share/doc/rankscope. Conventions:
 *
 *  - Every fallible function returns an rs_status; RS_OK is 0. On failure the rs_error that was
 *    passed in (it may be NULL) says where, what, and what to do. The library never exits, and
 *    prints only where rs_output_settings ask for standard output.
 *  - A pointer that must not be NULL but is gives RS_E_USAGE (functions without a status do
 *    nothing, or return 0); a size or an enumeration outside its range gives RS_E_BAD_OPTION, whose
 *    `where` is the field. What a function hands out is NULL whenever it fails.
 *  - Handles are opaque; whoever receives one closes it with the *_close or *_free of its kind.
 *  - Every function may be called from several threads at once. Three things are the process's
 *    all the same. rs_guard_install() (SIGBUS) is opt-in. jansson's allocation functions are
 *    wrapped (not replaced) so that none of their failures stays unseen; a program that sets its
 *    own does so before its first call here. And OpenBLAS's number of threads is 1 while a call
 *    runs, which spreads its work by OpenMP itself: it is as before once the last call has
 *    returned, and so is the number of threads that OpenMP gives the caller. A program must not
 *    set OpenBLAS's number meanwhile.
 */
#ifndef RANKSCOPE_H
#define RANKSCOPE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* What is declared from here on is all that the shared library exports. */
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The version of the header, and the one place where it is written; rs_version() gives that of the
 * library. */
#define RS_VERSION "0.1.0"

/*
 * Every way to fail. Each row: name, number (stable; gaps leave room), exit code of the command
 * line (1 the work failed, 2 the request or an input is wrong, 130 interrupted), and the name
 * printed in brackets behind the message, which scripts may rely on.
 */
#define RS_STATUS_LIST(X)                                                                          \
    X(RS_OK, 0, 0, "ok")                                                                           \
    /* the work failed */                                                                          \
    X(RS_E_NO_MEMORY, 10, 1, "out-of-memory")                                                      \
    X(RS_E_READ, 11, 1, "read-failed")                                                             \
    X(RS_E_WRITE, 12, 1, "write-failed")                                                           \
    X(RS_E_TRUNCATED_WHILE_MAPPED, 13, 1, "truncated-while-mapped")                                \
    X(RS_E_INTERNAL, 14, 1, "internal-check-failed")                                               \
    X(RS_E_LAPACK, 15, 1, "lapack-failed")                                                         \
    X(RS_E_INTERRUPTED, 16, 130, "interrupted")                                                    \
    X(RS_E_CHANGED_WHILE_READ, 17, 1, "changed-while-read")                                        \
    X(RS_E_BROKEN_PIPE, 18, 1, "broken-pipe")                                                      \
    /* the request is wrong */                                                                     \
    X(RS_E_USAGE, 20, 2, "usage")                                                                  \
    X(RS_E_NOT_FOUND, 21, 2, "not-found")                                                          \
    X(RS_E_UNREADABLE, 22, 2, "unreadable")                                                        \
    X(RS_E_OVERWRITES_INPUT, 23, 2, "would-overwrite-input")                                       \
    X(RS_E_BAD_OPTION, 24, 2, "bad-option")                                                        \
    X(RS_E_UNSUPPORTED, 25, 2, "unsupported")                                                      \
    X(RS_E_MEMORY_LIMIT, 26, 2, "memory-limit")                                                    \
    /* JSON */                                                                                     \
    X(RS_E_JSON_SYNTAX, 30, 2, "json-syntax")                                                      \
    X(RS_E_JSON_TYPE, 31, 2, "json-type")                                                          \
    X(RS_E_JSON_DEPTH, 32, 2, "json-too-deep")                                                     \
    X(RS_E_JSON_DUPLICATE_KEY, 33, 2, "json-duplicate-key")                                        \
    X(RS_E_JSON_INTEGER, 34, 2, "json-bad-integer")                                                \
    /* any checkpoint */                                                                           \
    X(RS_E_EMPTY_FILE, 40, 2, "empty-file")                                                        \
    X(RS_E_LFS_POINTER, 41, 2, "git-lfs-pointer")                                                  \
    X(RS_E_PICKLE, 42, 2, "pickle-file")                                                           \
    X(RS_E_NO_CHECKPOINT, 43, 2, "no-checkpoint")                                                  \
    X(RS_E_UNKNOWN_FORMAT, 44, 2, "unknown-format")                                                \
    X(RS_E_DUPLICATE_TENSOR, 45, 2, "duplicate-tensor")                                            \
    X(RS_E_TENSOR_NAME, 46, 2, "bad-tensor-name")                                                  \
    X(RS_E_TENSOR_MISSING, 47, 2, "tensor-missing")                                                \
    X(RS_E_TENSOR_SHAPE, 48, 2, "tensor-shape")                                                    \
    X(RS_E_TENSOR_DTYPE, 49, 2, "tensor-dtype")                                                    \
    X(RS_E_TOO_MANY_TENSORS, 50, 2, "too-many-tensors")                                            \
    X(RS_E_TENSOR_VALUE, 51, 2, "tensor-value")                                                    \
    /* safetensors */                                                                              \
    X(RS_E_ST_HEADER_TOO_SMALL, 60, 2, "safetensors-header-too-small")                             \
    X(RS_E_ST_HEADER_TOO_LARGE, 61, 2, "safetensors-header-too-large")                             \
    X(RS_E_ST_HEADER_LENGTH, 62, 2, "safetensors-header-length")                                   \
    X(RS_E_ST_HEADER_UTF8, 63, 2, "safetensors-header-not-utf8")                                   \
    X(RS_E_ST_HEADER_START, 64, 2, "safetensors-header-start")                                     \
    X(RS_E_ST_HEADER_JSON, 65, 2, "safetensors-header-json")                                       \
    X(RS_E_ST_METADATA, 66, 2, "safetensors-metadata")                                             \
    X(RS_E_ST_OFFSETS, 67, 2, "safetensors-offsets")                                               \
    X(RS_E_ST_OVERFLOW, 68, 2, "safetensors-shape-overflow")                                       \
    X(RS_E_ST_MISALIGNED, 69, 2, "safetensors-misaligned")                                         \
    X(RS_E_ST_SIZE, 70, 2, "safetensors-size-mismatch")                                            \
    X(RS_E_ST_INCOMPLETE, 71, 2, "safetensors-incomplete")                                         \
    X(RS_E_ST_TRAILING, 72, 2, "safetensors-trailing-bytes")                                       \
    X(RS_E_ST_DTYPE, 73, 2, "safetensors-unknown-dtype")                                           \
    X(RS_E_ST_RANK, 74, 2, "safetensors-too-many-dimensions")                                      \
    /* model.safetensors.index.json */                                                             \
    X(RS_E_INDEX_SCHEMA, 90, 2, "index-schema")                                                    \
    X(RS_E_INDEX_PATH, 91, 2, "index-unsafe-path")                                                 \
    X(RS_E_INDEX_SHARD_MISSING, 92, 2, "index-shard-missing")                                      \
    X(RS_E_INDEX_TENSOR_MISSING, 93, 2, "index-tensor-missing")                                    \
    X(RS_E_INDEX_TENSOR_TWICE, 94, 2, "index-tensor-twice")                                        \
    /* config.json */                                                                              \
    X(RS_E_CONFIG_MISSING, 100, 2, "config-missing")                                               \
    X(RS_E_CONFIG_SCHEMA, 101, 2, "config-schema")                                                 \
    X(RS_E_CONFIG_SIZE, 102, 2, "config-bad-size")                                                 \
    X(RS_E_CONFIG_HEADS, 103, 2, "config-heads")                                                   \
    X(RS_E_CONFIG_LAYERS, 104, 2, "config-layers")                                                 \
    /* GGUF */                                                                                     \
    X(RS_E_GGUF_MAGIC, 120, 2, "gguf-magic")                                                       \
    X(RS_E_GGUF_VERSION, 121, 2, "gguf-version")                                                   \
    X(RS_E_GGUF_COUNTS, 122, 2, "gguf-counts")                                                     \
    X(RS_E_GGUF_EOF, 123, 2, "gguf-unexpected-end")                                                \
    X(RS_E_GGUF_STRING, 124, 2, "gguf-string")                                                     \
    X(RS_E_GGUF_KEY, 125, 2, "gguf-key")                                                           \
    X(RS_E_GGUF_VALUE_TYPE, 126, 2, "gguf-value-type")                                             \
    X(RS_E_GGUF_ARRAY, 127, 2, "gguf-array")                                                       \
    X(RS_E_GGUF_ALIGNMENT, 128, 2, "gguf-alignment")                                               \
    X(RS_E_GGUF_DIMS, 129, 2, "gguf-dimensions")                                                   \
    X(RS_E_GGUF_BLOCK, 130, 2, "gguf-block-size")                                                  \
    X(RS_E_GGUF_OFFSET, 131, 2, "gguf-offset")                                                     \
    X(RS_E_GGUF_OVERFLOW, 132, 2, "gguf-overflow")                                                 \
    X(RS_E_GGUF_TENSOR_NAME, 133, 2, "gguf-tensor-name")                                           \
    X(RS_E_GGUF_TRUNCATED, 134, 2, "gguf-truncated")                                               \
    X(RS_E_GGUF_SPLIT, 135, 2, "gguf-split")                                                       \
    /* model */                                                                                    \
    X(RS_E_FAMILY_UNKNOWN, 150, 2, "unknown-family")                                               \
    X(RS_E_NO_PRODUCT, 151, 2, "no-product")                                                       \
    X(RS_E_MAP_SCHEMA, 152, 2, "map-schema")                                                       \
    /* tokenizers */                                                                               \
    X(RS_E_TOKENIZER_MISSING, 160, 2, "tokenizer-missing")                                         \
    X(RS_E_TOKENIZER_SCHEMA, 161, 2, "tokenizer-schema")                                           \
    X(RS_E_TOKENIZER_UNKNOWN, 162, 2, "tokenizer-unknown-step")                                    \
    X(RS_E_TOKENIZER_VOCABULARY, 163, 2, "tokenizer-vocabulary")                                   \
    X(RS_E_TOKENIZER_PATTERN, 164, 2, "tokenizer-pattern")                                         \
    X(RS_E_TOKENIZER_LIMIT, 165, 2, "tokenizer-limit")                                             \
    X(RS_E_TOKENIZER_CHARSMAP, 166, 2, "tokenizer-charsmap")                                       \
    X(RS_E_TOKENIZER_TEXT, 167, 2, "tokenizer-text")                                               \
    /* running a model */                                                                          \
    X(RS_E_TOKEN_RANGE, 170, 2, "token-out-of-range")                                              \
    X(RS_E_TOO_LONG, 171, 2, "text-too-long")                                                      \
    X(RS_E_INPUT_FORMAT, 172, 2, "input-format")                                                   \
    X(RS_E_INPUT_SHAPE, 173, 2, "input-shape")                                                     \
    X(RS_E_EXPRESSION, 174, 2, "bad-expression")                                                   \
    X(RS_E_ARCH_SCHEMA, 175, 2, "architecture-schema")                                             \
    X(RS_E_NOT_FINITE, 176, 1, "pass-not-finite")                                                  \
    X(RS_E_TASK_SCHEMA, 177, 2, "task-schema")                                                     \
    X(RS_E_BEYOND_PRECISION, 180, 1, "beyond-double-precision")

typedef enum rs_status {
#define RS_STATUS_ENUM(name, number, exit_code, text) name = number,
    RS_STATUS_LIST(RS_STATUS_ENUM)
#undef RS_STATUS_ENUM
} rs_status;

/* What failed, where and why. Strings are always terminated; an unused one is empty. */
typedef struct rs_error {
    rs_status status;
    char where[512]; /* file, tensor, byte, line, or option */
    char what[1024]; /* what is wrong, with the numbers */
    char hint[512];  /* what to do about it; may be empty */
} rs_error;

/* The stable name of a status ("git-lfs-pointer"),
 * and the exit code the command line uses for it. */
const char *rs_status_name(rs_status status);
int rs_status_exit_code(rs_status status);

#if defined(__GNUC__)
#define RS_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define RS_PRINTF(fmt, first)
#endif

/*
 * Records a failure and returns `status`, so that callers write `return rs_fail(...)`: the library
 * does so throughout, and a program may that says its own in the same form. err may be NULL.
 * `where` names the file, tensor or option; `hint` may be NULL. Long texts are cut, and bytes from
 * hostile names that a terminal would act on are replaced by '?': an rs_error is always safe to
 * print.
 */
rs_status rs_fail(rs_error *err, rs_status status, const char *where, const char *hint,
                  const char *what_format, ...) RS_PRINTF(5, 6);

/* How many letters must be changed, added or left out to make one short name of the other
 * (Levenshtein; the first 64 bytes count), for "did you mean". */
int rs_edit_distance(const char *a, const char *b);

/* The version of the library that is linked, such as "0.1.0". */
const char *rs_version(void);

/*
 * Makes the process survive a checkpoint that is cut short while it is read: installs a SIGBUS
 * handler that acts on rankscope's own file mappings only (the reader then gets
 * RS_E_TRUNCATED_WHILE_MAPPED) and leaves all others to the handler before it. Process-wide and
 * idempotent; the library never does it by itself.
 */
void rs_guard_install(void);

/* ---- a result: meta, tables, figures, findings (docs/contract.md, 2) ---- */

/* What a command found. A result belongs to the caller, who frees it. */
typedef struct rs_result rs_result;
void rs_result_free(rs_result *result); /* NULL is fine */

/* The forms in which a result can be written. */
typedef enum rs_form {
    RS_FORM_JSON,    /* the whole result */
    RS_FORM_HTML,    /* a self-contained page that opens offline */
    RS_FORM_TERMINAL /* the summary as plain text of 80 columns */
} rs_form;

/* Writes the result as text: *text is NUL-terminated, *length bytes without the NUL (length may be
 * NULL); free it with rs_text_free. Errors: RS_E_NO_MEMORY, RS_E_USAGE, RS_E_BAD_OPTION (form). */
rs_status rs_result_text(char **text, size_t *length, const rs_result *result, rs_form form,
                         rs_error *err);
/* Writes one table as CSV with a header row; *text and *length as for rs_result_text. Errors:
 * RS_E_NOT_FOUND when the result has no table of that name, RS_E_NO_MEMORY, RS_E_USAGE. */
rs_status rs_result_csv(char **text, size_t *length, const rs_result *result, const char *table,
                        rs_error *err);
void rs_text_free(char *text); /* NULL is fine */

/* Adds a member to the result's meta, such as the step of a training run: `json` is the text of any
 * JSON value. Errors: RS_E_BAD_OPTION (a key that the result has), RS_E_JSON_SYNTAX …
 * RS_E_JSON_INTEGER, RS_E_EMPTY_FILE (no text), RS_E_NO_MEMORY, RS_E_USAGE. */
rs_status rs_result_note(rs_result *result, const char *key, const char *json, rs_error *err);

/* Where a result is written: into files, and as text to standard output. */
typedef struct rs_output_settings {
    size_t size;             /* see "settings" below */
    const char *json, *html; /* a file, or "-" for standard output; NULL: none */
    const char *csv;         /* a folder, made if it is not there, for TABLE.csv; NULL: none */
    bool csv_safe; /* text that a spreadsheet would take for a formula gets a ' before it */
    bool text;     /* text for people is printed to standard output, last; not beside JSON there */
    /* Tables that it shows: "heads,layers", "all"; NULL: the summary or what the command is for. */
    const char *tables;
    int width;                         /* its columns, at least 32 */
    bool color, unicode;               /* it has ANSI colours; more than ASCII */
    const volatile sig_atomic_t *stop; /* as in rs_call_settings: ends a wait for a pipe, too */
    /* What the text shows of its tables (files are whole whatever is said here). A column that no
     * shown table has, or a text that stands in none of its rows, is RS_E_BAD_OPTION with the
     * nearest. */
    const char *columns; /* "layer,head,effective_rank", in this order; NULL: those that matter */
    const char *sort;    /* "effective_rank", largest first, or "effective_rank:asc"; NULL: as is */
    const char *where;   /* "layer=12,product=qk": = != < > <= >=, all to be met; NULL: all rows */
    int64_t top;         /* the first rows of each table, once sorted; 0: all */
    bool wide;           /* all columns, on lines as long as they need */
    bool verbose;        /* what a reader seldom needs, too: columns and findings left out */
    int height;          /* lines of the screen, which pictures leave room on; 0: 24 */
    /* Folders, made if they are not there, for FIGURE.svg and FIGURE.png; NULL: none. PNG is drawn
     * by Cairo: RS_E_BAD_OPTION where there is none. */
    const char *svg, *png;
} rs_output_settings;

/* Sets no output, and a plain text of 80 columns. */
void rs_output_settings_init(rs_output_settings *settings, size_t size);

/*
 * Writes a result. All files appear together, with those that its command held back
 * (rs_probe_settings.hold), or none does: then what was there before is back. What is no regular
 * file (a pipe, /dev/stdout, /dev/fd/N) is written as it is once the files have their names. A file
 * that the result was made from is never replaced, and in the model's folder nothing but what
 * rankscope wrote. Errors, whose hint says what could not be taken back: RS_E_WRITE,
 * RS_E_BROKEN_PIPE (the reader went away; where it read the text, the files stay),
 * RS_E_OVERWRITES_INPUT, RS_E_INTERRUPTED, RS_E_BAD_OPTION (two outputs that are one file, no such
 * table), RS_E_NO_MEMORY, RS_E_USAGE. A program that wants an error rather than a signal when a
 * pipe is closed or a size limit is met ignores SIGPIPE and SIGXFSZ.
 */
rs_status rs_result_write(rs_result *result, const rs_output_settings *settings, rs_error *err);

/* Whether writing to both paths would leave one file: the same name in the same folder, however it
 * is spelled, one file by two names, or one descriptor (/dev/stdout, /dev/fd/1). False for devices
 * and pipes, which keep what they get, and where one is NULL. */
bool rs_output_same(const char *a, const char *b);
/* Whether rs_output_settings.png can be met here: RS_E_BAD_OPTION says what is missing. */
rs_status rs_output_png_ready(rs_error *err);
/* Removes what unfinished outputs of this process have left so far. Safe in a signal handler; meant
 * for one that is about to end the process. False, and nothing done, while files are just being put
 * in place: then the handler is to return. */
bool rs_output_abandon(void);

/* The answer to the question that a command asks, in one sentence, and what it rests on. */
typedef struct rs_verdict {
    const char *answer; /* "10 of 72 query-key products have lost rank: all of layers 12 and 14." */
    const char *code;   /* what a script compares, "lost_rank": docs/contract.md lists them */
    int severity;       /* 0 info, 1 warn, 2 critical */
    double value;       /* the number in it; NaN: none */
    double threshold;   /* what that was compared with; NaN: nothing */
    const char *next;   /* what to do next, a command where there is one; or NULL */
} rs_verdict;

/* The result's verdict, which belongs to it; NULL where it has none. */
const rs_verdict *rs_result_verdict(const rs_result *result);
/* The number of findings, one a code, at least as severe as least_severity: 0 info, 1 warn, 2
 * critical. Table `findings` has the cases of each. */
size_t rs_result_count_findings(const rs_result *result, int least_severity);
/* The severity of the worst finding or of the verdict, whichever is worse. */
int rs_result_severity(const rs_result *result);

/* Writes the names of the tables that a result of a command can have, "summary|lengths" of "paths",
 * with a 0 behind them: as many bytes as `size` has room for. Returns strlen of all of them, 0 where
 * there is no such command. text may be NULL where size is 0. */
size_t rs_command_tables(char *text, size_t size, const char *command);

/* ---- a result's tables as typed arrays ---- */

typedef enum rs_column_type {
    RS_COLUMN_TEXT,  /* const char *, NULL = null */
    RS_COLUMN_INT,   /* int64_t, RS_NULL_INT = null */
    RS_COLUMN_REAL,  /* double, NaN = null; written with 17 significant digits */
    RS_COLUMN_BOOL,  /* int64_t 0/1, RS_NULL_INT = null */
    RS_COLUMN_VECTOR /* rs_list, its values NULL = null */
} rs_column_type;

#define RS_NULL_INT INT64_MIN

/* A list of numbers in a cell, such as singular values. */
typedef struct rs_list {
    const double *values;
    size_t n;
} rs_list;

/* A column's cells. The array of the column's type is set, the others are NULL; it belongs to the
 * result and lives as long. */
typedef struct rs_column_data {
    rs_column_type type;
    size_t rows;
    const char *const *text;
    const int64_t *integer; /* INT and BOOL */
    const double *real;
    const rs_list *list;
} rs_column_data;

/* Tables by number, from 0, and the columns of a table; NULL and 0 where there is none. */
size_t rs_result_table_count(const rs_result *result);
const char *rs_result_table_name(const rs_result *result, size_t index);
size_t rs_result_column_count(const rs_result *result, const char *table);
const char *rs_result_column_name(const rs_result *result, const char *table, size_t index);
/* RS_E_NOT_FOUND when the result has no such table, or the table no such column. */
rs_status rs_result_column(rs_column_data *out, const rs_result *result, const char *table,
                           const char *column, rs_error *err);

/*
 * ---- settings: one struct a command, with all that its command line can say ----
 *
 * Each begins with its size, which its *_init(settings, sizeof *settings) sets beside what the
 * command line does unasked. So a struct can grow at its end: what a program that was built with an
 * earlier header does not know stays as by default, and a struct that is larger than the library
 * knows is refused (RS_E_USAGE). The structs inside them (rs_call_settings, rs_run_settings) keep
 * their size: what they gain takes the place of `reserved`, which is to stay 0 (RS_E_USAGE).
 * Arrays are borrowed for the time of the call, and NULL with a count of 0 where there are none.
 */

/* Told now and then, on the thread that called, how far a phase has come: done of total units. */
typedef void rs_progress_fn(void *user, const char *phase, uint64_t done, uint64_t total,
                            const char *unit);
/* Asked at the same moments: true ends the call with RS_E_INTERRUPTED. */
typedef bool rs_cancel_fn(void *user);

/* With what a call may do its work, and whom it tells: in the settings of every command. */
typedef struct rs_call_settings {
    int threads;   /* OpenMP threads, at most 4096; 0: as many as OpenMP gives */
    uint64_t seed; /* of every random draw */
    /* Bytes that a call may take: it is refused at its start (RS_E_MEMORY_LIMIT) where the sum of
     * what it will hold is more. 0: the smaller of the control group's limit and what the machine
     * has available. */
    uint64_t memory;
    rs_progress_fn *progress; /* may be NULL */
    rs_cancel_fn *cancel;     /* may be NULL */
    void *user;               /* handed to both */
    /* A flag for a signal handler or another thread: once it is not 0, the call ends with
     * RS_E_INTERRUPTED. It is looked at more often than `cancel` is asked; beside a `cancel`, just
     * as often. May be NULL. */
    const volatile sig_atomic_t *stop;
    uint64_t reserved[4];
} rs_call_settings;

/* From where on findings of a code are raised (--threshold CODE=X); value >= 0. */
typedef struct rs_threshold {
    const char *code; /* "dead_head" */
    double value;
} rs_threshold;

/* ---- scan: the rank health of a checkpoint's weights ---- */

/* The arithmetic of a forward pass. RESIDUAL: doubles, with what tells the tokens of a sample apart
 * carried by itself under an exponent of its own, so that it never drowns in rounding
 * (docs/probe.md: --precision residual). */
typedef enum rs_precision {
    RS_PRECISION_F32,
    RS_PRECISION_F64,
    RS_PRECISION_RESIDUAL
} rs_precision;

/* What a scan is to measure. */
typedef struct rs_scan_settings {
    size_t size;
    rs_call_settings call;
    const char *map; /* a --map file (docs/map.md), or NULL */
    bool lenient;    /* bytes behind a safetensors file's last tensor are accepted */
    int first_layer; /* first layer that is scanned, from 0 */
    int last_layer;  /* last layer that is scanned; -1: the model's last */
    /* numerical_rank counts singular values above it times the largest; -1: max(rows, cols) times
     * the epsilon of the stored type. */
    double tolerance;
    bool spectra; /* tables hold every singular value */
    /* Gains of the norms are multiplied into the weights behind them, with LayerNorm's centring and
     * the gains of QK-norm. */
    bool fold_norms;
    bool with_bias; /* biases count as one more input feature */
    /* Other tensors to scan: "all", an extended regular expression on their names; NULL: none. */
    const char *matrices;
    /* [n_energies], at most 16: fractions of the squared singular values, above 0 and up to 1, for
     * table energy. */
    const double *energies;
    size_t n_energies;
    /* [n_thresholds] of qk_low_rank, ov_low_rank, dead_head, decay_equilibrium (docs/scan.md), and of a
     * series rank_falls (docs/series.md). */
    const rs_threshold *thresholds;
    size_t n_thresholds;
    /* [n_others] more checkpoints, or folders of runs: with PATH they are a series. */
    const char *const *others;
    size_t n_others;
    /* [n_texts] files of text that the model is run on, with energies: what each matrix reads there weighs
     * the ranks and errors, and the loss of the truncated model is measured (docs/compression.md). */
    const char *const *texts;
    size_t n_texts;
    int64_t seq_len, samples; /* as in rs_run_settings */
    rs_precision precision;   /* of the passes over them: F32 or F64 */
    /* With one energy: a folder, new or empty, for the truncated checkpoint; NULL: none. */
    const char *write;
    bool
        hold; /* it appears with what rs_result_write writes, not before; a result that is freed without
                  takes it back */
} rs_scan_settings;

/* size: sizeof(rs_scan_settings); so for every *_init. NULL is fine. */
void rs_scan_settings_init(rs_scan_settings *settings, size_t size);

/*
 * Scans PATH: a Hugging Face directory, a .safetensors file beside its config.json, or a .gguf
 * file. The folder of a run (checkpoint-500, checkpoint-1000 ...), or settings->others beside PATH, is
 * a series of checkpoints, one after the other: what cannot be read of it is skipped by name, and
 * `spectra`, `matrices` and `energies` are refused (RS_E_USAGE); a series of one is a scan. On success
 * *out is a result that the caller frees. Errors: every status of the readers and the model
 * (RS_E_NOT_FOUND … RS_E_MAP_SCHEMA; of a series where none can be read), RS_E_NO_MEMORY. Threads: uses OpenMP inside; may be
 * called from several threads at once.
 */
rs_status rs_scan_checkpoint(rs_result **out, const char *path, const rs_scan_settings *settings,
                             rs_error *err);

/* ---- what runs a model: probe, certify, paths ---- */

/* A change of the model before it runs, as the command line names it, without dashes: {"no-skip",
 * NULL}, {"lambda", "mixer:0.5"}, {"temperature", "2"} ('rankscope probe --help' lists them). */
typedef struct rs_intervention {
    const char *name, *value; /* value: NULL for what takes none */
} rs_intervention;

/* Where real-valued sequences enter a model (docs/states.md). */
typedef enum rs_states_as {
    RS_STATES_AS_FIRST_BLOCK, /* the first block, as they are: nothing of the embedding is applied */
    RS_STATES_AS_EMBEDDINGS   /* in the place of word embeddings (`inputs_embeds` of transformers):
                                 positions, token types, norm and projection are applied */
} rs_states_as;

/* The inputs that a model is run on, and the weights that it is run with. */
typedef struct rs_run_settings {
    /* Counts are at most 2^30. The inputs: exactly one of the first four, or of texts, ids or states
     * (docs/probe.md has their formats). */
    const char *text;           /* file of text, or NULL */
    const char *tokens;         /* .npy or JSON file of token ids, or NULL */
    const char *images;         /* .npy file of images, or NULL */
    int64_t random;             /* number of samples drawn at random; 0: none */
    const char *encoder_states; /* .npy file that cross-attention reads, or NULL */
    int64_t seq_len;            /* tokens of a window; 0: 128, or fewer where the positions end */
    int64_t samples;            /* samples that are used (of each text), at most; 0: all */
    int64_t batch;              /* samples that are run at once; 0: as memory allows */
    const char *init; /* law that random weights are drawn by (--init); NULL: a checkpoint's own */
    bool lenient;     /* bytes behind a safetensors file's last tensor are accepted */
    /* Token ids in memory, [ids_samples, ids_length], instead of a file; NULL: none. */
    const int32_t *ids;
    int64_t ids_samples, ids_length;
    const rs_intervention *edits; /* [n_edits] made in this order, in every variant */
    size_t n_edits;
    /* [n_texts] several files of text, instead of one: each is cut into samples of its own, in this
     * order (table `texts` of the result). */
    const char *const *texts;
    size_t n_texts;
    const char *states;     /* .npy or JSON file of real-valued sequences, or NULL */
    rs_states_as states_as; /* where they enter; without states it is to stay 0 (RS_E_USAGE) */
    uint64_t reserved[4];
} rs_run_settings;

/* What the residual subtracts from every token. */
typedef enum rs_centre {
    RS_CENTRE_MEAN,   /* column means: the minimiser of the Frobenius norm (published figures) */
    RS_CENTRE_MEDIAN, /* column medians (of an even count: the midpoint): minimises ‖R‖₁ */
    RS_CENTRE_LP,     /* centre of the smallest ℓ1 ball around the rows: minimises ‖R‖∞ */
    RS_CENTRE_GRAPH /* multiples of a graph's own right vector u, R = X − u uᵀX/‖u‖² (docs/probe.md) */
} rs_centre;

/* The loss that gradients are of (docs/probe.md, Gradients). */
typedef enum rs_grad_loss {
    RS_GRAD_LOSS_AUTO, /* LM where the head predicts the next token, else RANDOM */
    RS_GRAD_LOSS_LM,   /* mean of −ln p of each next token */
    RS_GRAD_LOSS_MLM, /* mean of −ln p of tokens that [MASK] stands for: 15 % of them, by the seed */
    RS_GRAD_LOSS_CLASS,  /* mean over samples of −ln p of `target` */
    RS_GRAD_LOSS_RANDOM, /* ⟨G, X⟩, G of N(0, 1), by the seed */
    RS_GRAD_LOSS_NORM2   /* ‖X‖²/2 */
} rs_grad_loss;

/* Where the X of RANDOM and NORM2 is taken. */
typedef enum rs_grad_place {
    RS_GRAD_AT_AUTO,  /* STATE; the one that the other losses allow */
    RS_GRAD_AT_STATE, /* behind the last layer, in front of the final norm */
    RS_GRAD_AT_FINAL  /* behind the final norm */
} rs_grad_place;

/* A head whose attention matrices are kept; both from 0. */
typedef struct rs_map_choice {
    int32_t layer, head;
} rs_map_choice;

/* probe: what happens to the tokens on their way through a model. */
typedef struct rs_probe_settings {
    size_t size;
    rs_call_settings call;
    rs_run_settings run;
    rs_precision precision;
    rs_centre centre;
    /* Variants to run, as --variants names them: "full,san,mine=no-norm,lambda:0.5"; NULL: full. */
    const char *variants;
    const char *compat;        /* "dong2021-code", "mamba2-ungrouped", or NULL */
    const rs_map_choice *maps; /* [n_maps] heads for table attention_maps and for `taps` */
    size_t n_maps;             /* at most 64 */
    /* [n_thresholds] of token_collapse, slow_collapse, attention_sink, uniform_attention,
     * condensed_attention, low_rank_attention, attention_rank, vanishing_qk_gradient,
     * gradient_imbalance (docs/probe.md). */
    const rs_threshold *thresholds;
    size_t n_thresholds;
    bool no_spectral;   /* ranks of the tokens are left out */
    bool no_attention;  /* table attention is left out */
    bool no_loss;       /* the next-token loss is left out */
    bool scan;          /* the tables of a scan by its defaults stand beside these; not of weights
                           that `init` draws (RS_E_USAGE) */
    bool certify;       /* the tables of certify for the model with `run.edits`, too */
    bool rigorous;      /* with certify: as in rs_certify_settings */
    int64_t generate;   /* tokens that each sample is continued by, at most 4096; 0: none */
    const char *output; /* safetensors file to write the last states and logits to, or NULL */
    const char *taps;   /* safetensors file to write every state to, or NULL */
    bool hold;          /* both appear with what rs_result_write writes, not before;
                           rs_result_free takes back what waits */
    bool fast;          /* with certify: as in rs_certify_settings */
    /* "random": columns ..._null of table attention are those of an untrained twin, which runs over
     * the same inputs; NULL: closed forms. A model in memory or in a GGUF file has none. */
    const char *null;
    bool mixing;    /* table mixing has the heads of softmax attention, too, whatever else */
    bool no_mixing; /* it is left out; not with mixing */
    bool quadratic; /* samples of more than 8192 tokens have what costs the square of their length
                       (diameter, matrices of tables attention and mixing), too */
    /* "lambda=-20:20:41,gate=both,norm=both,kept=0.9": skip strengths, each run over the same
     * inputs, as --sweep takes them (docs/probe.md): tables sweep and sweep_ends; NULL: none. */
    const char *sweep;
    bool grad; /* tables gradients and gradient_ratios; not with a sweep */
    /* The others are about gradients: without `grad` they are refused (RS_E_USAGE), but for `target`
     * and `recompute` with `relevance`. */
    rs_grad_loss loss;
    rs_grad_place loss_at; /* of RANDOM and NORM2 alone */
    /* of CLASS, and the outputs that `relevance` explains: "3", or one for each sample, "3,1,4";
     * NULL: none, or each sample's largest */
    const char *target;
    bool freeze_attention; /* matrices of attention are constants on the way back */
    bool freeze_norm;      /* what norms divide by is a constant on the way back */
    bool recompute; /* layers are run twice, so that one layer's insides are kept at a time */
    bool relevance; /* tables relevance, conservation and removal; in f32 or f64, without a sweep */
    /* "16,90%": a variant an entry, whose attention has at most that rank, or the least that keeps so
     * much of its energy: table attention_ranks and the verdict say which keep the loss; in f32 or
     * f64, without a sweep, `grad` and `relevance`; NULL: none. */
    const char *attention_rank;
    /* [n_others] more models, run over the same inputs: all stand in each table, column `path` first. */
    const char *const *others;
    size_t n_others;
} rs_probe_settings;

/* certify: what can be proved about these inputs in this model (docs/certify.md). */
typedef struct rs_certify_settings {
    size_t size;
    rs_call_settings call;
    rs_run_settings run;
    const char *variant; /* the variant to run: "san", "mine=no-mlp,lambda:0.5"; NULL: full */
    double kept;         /* fraction of the tokens' spread that each mixer is to leave, between 0
                            and 1 */
    bool rigorous;       /* what hangs on a condition is left out, with its reason: so it is anyway,
                            and nobody turns it off */
    bool fast;           /* it is shown, and columns ..._conditional mark it; not with rigorous */
    double recommend; /* share of relative μ, between 0 and 1, that is to be left behind the last
                         layer: tables recommendation and recommendation_layers say which change of
                         the skip strengths leaves it (docs/certify.md); 0: they are not made */
    const rs_map_choice *steps; /* [n_steps] heads on which the proof of the published cubic bound
                                   is gone through line by line: tables proof, proof_numbers */
    size_t n_steps;             /* at most 64 */
    /* [n_others] more models, run over the same inputs: all stand in each table, column `path` first. */
    const char *const *others;
    size_t n_others;
} rs_certify_settings;

/* What a path is (docs/paths.md). */
typedef enum rs_path_semantics {
    RS_PATHS_THEOREM, /* it has the full pass's mixing matrices and norms: the identity holds */
    RS_PATHS_CODE     /* as in the published code, a network of its own with one head a layer */
} rs_path_semantics;

/* paths: the output as a sum over paths through the heads (docs/paths.md). run.batch is not used:
 * samples are taken one by one. */
typedef struct rs_paths_settings {
    size_t size;
    rs_call_settings call;
    rs_run_settings run;
    const char *variant; /* the variant to run, as for certify */
    int64_t max_length;  /* longest length with a row of its own; -1: every length has one */
    int64_t paths;       /* single paths drawn for each length, at most 2^20; 0: none */
    rs_path_semantics semantics;
    bool sources; /* table `sources`, by layer, is written */
    bool no_loss; /* truncated models are not put through the head */
    bool lesions; /* table `lesions`, of the model without each of its parts, is written */
} rs_paths_settings;

/* compare: what changed between checkpoints (docs/compare.md). Without inputs in `run` the weights alone
 * are compared; its `init` and `edits` are refused (RS_E_USAGE). */
typedef struct rs_compare_settings {
    size_t size;
    rs_call_settings call;
    rs_run_settings run;
    const char *const *others;  /* [n_others] checkpoints, each of which is compared with PATH */
    size_t n_others;            /* at least 1 */
    int first_layer;            /* first layer that is compared, from 0 */
    int last_layer;             /* last layer; -1: the last */
    double tolerance;           /* as in rs_scan_settings */
    bool fold_norms, with_bias; /* as in rs_scan_settings */
    /* Leading singular directions of each product that are compared; 0: as many as the effective rank
     * of the first one's. */
    int64_t subspace;
    /* [n_thresholds] of rank_fell, rank_rose, turned_away (docs/compare.md) and those of scan. */
    const rs_threshold *thresholds;
    size_t n_thresholds;
} rs_compare_settings;

/* Compares each of settings->others with the checkpoint at `path`. On success *out is a result that the
 * caller frees. Errors: those of rs_scan_checkpoint for each of them, and of rs_probe_checkpoint for inputs
 * that neither can take; where one cannot, a finding says so. */
rs_status rs_compare_checkpoints(rs_result **out, const char *path,
                                 const rs_compare_settings *settings, rs_error *err);
void rs_compare_settings_init(rs_compare_settings *settings, size_t size);

/* The caller still sets the inputs. */
void rs_probe_settings_init(rs_probe_settings *settings, size_t size);
void rs_certify_settings_init(rs_certify_settings *settings, size_t size);
void rs_paths_settings_init(rs_paths_settings *settings, size_t size);

/*
 * Each runs the model at PATH (a checkpoint; with `init` also config.json or ARCH.json) over the
 * inputs. On success *out is a result that the caller frees: what the command of that name writes.
 * Errors: those of rs_scan_checkpoint, RS_E_TOKEN_RANGE … RS_E_ARCH_SCHEMA, the tokenizers',
 * RS_E_USAGE (no or several inputs), RS_E_BAD_OPTION (variants, kept outside 0 to 1, sizes),
 * RS_E_OVERWRITES_INPUT, RS_E_WRITE, RS_E_NOT_FINITE and RS_E_BEYOND_PRECISION (paths).
 */
rs_status rs_probe_checkpoint(rs_result **out, const char *path, const rs_probe_settings *settings,
                              rs_error *err);
rs_status rs_certify_checkpoint(rs_result **out, const char *path,
                                const rs_certify_settings *settings, rs_error *err);
rs_status rs_paths_checkpoint(rs_result **out, const char *path, const rs_paths_settings *settings,
                              rs_error *err);

/* ---- what needs no model that runs: tokenize, lab, doctor ---- */

/* tokenize: the token ids that a model sees for a text (docs/tokenize.md). Exactly one of text,
 * texts and bytes is given. */
typedef struct rs_tokenize_settings {
    size_t size;
    rs_call_settings call;
    const char *text;  /* file, or NULL */
    const char *bytes; /* [n_bytes] the text itself, or NULL */
    size_t n_bytes;
    bool no_special; /* tokens that the model puts around a text are left out */
    /* [n_texts] files, instead of one: the tables have the rows of each, in this order. */
    const char *const *texts;
    size_t n_texts;
} rs_tokenize_settings;
void rs_tokenize_settings_init(rs_tokenize_settings *settings, size_t size);

/* PATH: a directory with tokenizer.json, such a file, or a .gguf file with a tokenizer. Errors:
 * RS_E_TOKENIZER_MISSING … RS_E_TOKENIZER_TEXT, those of reading files, RS_E_USAGE. */
rs_status rs_tokenize(rs_result **out, const char *path, const rs_tokenize_settings *settings,
                      rs_error *err);

/* lab: published figures and tables, done again (docs/lab.md). */
typedef struct rs_lab_settings {
    size_t size;
    rs_call_settings call;
    const char *experiment; /* its id, or "all"; NULL: the result lists what there is */
    bool quick;             /* fewer repetitions and shorter runs, said in the result */
    int64_t seeds;          /* of what is trained over several seeds the first so many; 0: all */
    const char *db;    /* SQLite file that keeps finished training runs of experiments of many, and
                             * gives back those that it has; NULL: none */
    const char *model; /* checkpoint, or an ARCH.json, that the experiments which take one run
                             * in place of random weights, on random token ids; several with a comma
                             * between two for those that take several; NULL: none */
    const char *text;  /* file whose windows the model is run on instead; NULL: none */
    const char *data;  /* what the experiments that take data train on: a text, or an .npy array of
                        * images whose name ends in x.npy, its labels beside it in y.npy; both with
                        * a comma between them; NULL: none */
} rs_lab_settings;
void rs_lab_settings_init(rs_lab_settings *settings, size_t size);

/* RS_E_NOT_FOUND names the experiment that is nearest. */
rs_status rs_lab(rs_result **out, const rs_lab_settings *settings, rs_error *err);

/* train: trains a small sequence model while its rank is measured (docs/train.md). */

/* A logged step, told to a caller while the run goes on. NaN: the run has no such number. */
typedef struct rs_training_step {
    int64_t step, steps;   /* made so far, and of the whole run */
    double loss, accuracy; /* running means, weight 0.02 a step */
    double batch_loss, batch_accuracy, eval_loss, eval_accuracy;
    double learning_rate, gradient_norm, tokens_per_second, seconds;
    const char *alarm; /* a sentence: what rang at this step; NULL: nothing */
} rs_training_step;
typedef void rs_training_fn(void *user, const rs_training_step *step);

typedef struct rs_training_settings {
    size_t size;
    rs_call_settings call; /* its seed means nothing here, but where `seeded` says so */
    const char *out; /* folder of checkpoints, log.jsonl and run.db; NULL: nothing is written */
    bool resume;     /* go on with the run that is in that folder */
    bool dry_run;    /* only say what the run would be */
    const char *const *sets; /* [n_sets] "optimizer.lr=0.01": fields over the task's own */
    size_t n_sets;
    const char *stop_on; /* codes of alarms that end the run, joined by commas; NULL: the task's */
    rs_training_fn *logged; /* may be NULL; `call.user` is handed to it */
    bool seeded; /* call.seed is the task's seed, over its own; one of `sets` goes before it */
} rs_training_settings;
void rs_training_settings_init(rs_training_settings *settings, size_t size);

/*
 * Trains. input: a task file (its name has a dot or a slash), or the name of a task. Errors:
 * RS_E_TASK_SCHEMA, RS_E_ARCH_SCHEMA and those of reading files; RS_E_NOT_FINITE (the loss or a
 * gradient became NaN or infinite: step, where it began and the last checkpoint are named);
 * RS_E_INTERRUPTED, behind a checkpoint; RS_E_WRITE.
 */
rs_status rs_train(rs_result **out, const char *input, const rs_training_settings *settings,
                   rs_error *err);
/*
 * A program in Python that needs PyTorch alone and computes what a trained folder computes: python
 * loader.py DIR ID... (docs/train.md). It has the mixers of the task's model; input NULL: of any. The
 * caller frees it. Errors: as rs_train's of the input.
 */
rs_status rs_training_loader(char **out, const char *input, const rs_training_settings *settings,
                             rs_error *err);
/* Whether a condition that the settings name (stop_on) ended the run early. */
bool rs_result_stopped(const rs_result *result);

/* predict: what becomes of an architecture's tokens and gradients, before a weight is drawn
 * (docs/predict.md). */
typedef struct rs_predict_settings {
    size_t size;
    rs_call_settings call;
    const char *preset; /* name of an architecture, in place of a path; "list": what names there
                            are; NULL */
    const char *init;   /* law of the maps, as for rs_run_settings; "measured": of the checkpoint's
                            mean squares; NULL: the architecture's own */
    int64_t seq_len;    /* tokens; 0: the architecture's, or 128 */
    rs_grad_place loss_at; /* where the loss <G, X> reads the states; AUTO: STATE */
    const char
        *remedies;    /* changes that are run, joined by commas; "all"; NULL, "best": all by theory,
                               of which the three best are drawn as well */
    int64_t trials;   /* networks drawn; below 0: as many as the shape says; 0: none */
    const char *grid; /* "depth=1:128,branch_mixer=0:2:21": the architecture over one or two of its
                       * fields (docs/predict.md); NULL: not */
    double budget;    /* parameters: the architecture in shapes of nearly so many, from one wide
                       * layer to many narrow ones (docs/predict.md); 0: not */
    bool full_size;   /* the network itself is drawn, however large it is */
    bool explain;     /* only the architecture with all its fields */
    const rs_threshold *thresholds; /* [n_thresholds]; NULL: the defaults */
    size_t n_thresholds;
} rs_predict_settings;
void rs_predict_settings_init(rs_predict_settings *settings, size_t size);

/*
 * input: an architecture file, a config.json or a folder that holds one; NULL where there is a preset.
 * Errors: those of reading these files; RS_E_NOT_FOUND (a preset, with the nearest), RS_E_UNSUPPORTED,
 * RS_E_USAGE (neither or both of input and preset), RS_E_BAD_OPTION, RS_E_INTERRUPTED.
 */
rs_status rs_predict(rs_result **out, const char *input, const rs_predict_settings *settings,
                     rs_error *err);

/* explain: what a word of the house, the code of a finding or a verdict, or a column of a table
 * means. */
typedef struct rs_explain_settings {
    size_t size;
    rs_call_settings call;
    const char *word; /* "all": each of them; NULL: the result lists their names */
} rs_explain_settings;
void rs_explain_settings_init(rs_explain_settings *settings, size_t size);

/* Table words: an entry for each meaning. RS_E_NOT_FOUND names the word that is nearest. */
rs_status rs_explain(rs_result **out, const rs_explain_settings *settings, rs_error *err);

/* doctor: what this machine's processor and BLAS can do, measured for a second or two. */
typedef struct rs_doctor_settings {
    size_t size;
    rs_call_settings call;
} rs_doctor_settings;
void rs_doctor_settings_init(rs_doctor_settings *settings, size_t size);
rs_status rs_doctor(rs_result **out, const rs_doctor_settings *settings, rs_error *err);

/* The kernel that would suit this processor better than the one that OpenBLAS chose, or NULL when
 * the choice is fine or OPENBLAS_CORETYPE has made it. It can only be changed before the library is
 * loaded (docs/design.md, 6): a program may set OPENBLAS_CORETYPE to it and start itself anew, with
 * RANKSCOPE_BLAS_RESCUED set too, so that it does so once and `doctor` says it. */
const char *rs_better_blas_core(void);

/*
 * ---- a session: opened once, asked again and again, such as at every step of a training run ----
 *
 * It keeps what does not change between calls: how the tensors are understood, the random
 * baselines, and the memory that a call worked in, no more than the largest one needed. Results are
 * those of the functions above, bit for bit. A session serves one thread at a time; several may be
 * open, each in a thread of its own.
 */
typedef struct rs_session rs_session;

/* A session's settings: those of all its calls. */
typedef struct rs_session_settings {
    size_t size;
    rs_call_settings call;
} rs_session_settings;

void rs_session_settings_init(rs_session_settings *settings, size_t size);
/* Errors: RS_E_USAGE (NULL, or a size that this library does not know), RS_E_BAD_OPTION (threads),
 * RS_E_NO_MEMORY. settings may be NULL: the defaults. */
rs_status rs_session_open(rs_session **out, const rs_session_settings *settings, rs_error *err);
void rs_session_close(rs_session *session); /* NULL is fine */

/* A tensor that the caller holds. */
typedef struct rs_tensor_data {
    const char
        *name; /* as the model's library calls it: "model.layers.0.self_attn.q_proj.weight" */
    const char *dtype;      /* as safetensors spells it: "F32", "F16", "BF16", "F64" */
    int rank;               /* dimensions, at most 16; 0: a single number */
    const int64_t *shape;   /* [rank], the slowest dimension first */
    const int64_t *strides; /* [rank] elements from one index to the next; NULL: dense, row-major */
    const void *data;       /* the first element, at any alignment */
} rs_tensor_data;

/*
 * Gives the session a model: n tensors, and the text of its config.json or of a map (docs/map.md);
 * either may be NULL. Names, shapes and texts are copied; data is borrowed: it is read at every
 * call, so a training step may change the values in place. Another model may follow; a failure
 * leaves the session without one. Errors: those of rs_scan_checkpoint for what is not understood,
 * RS_E_USAGE and RS_E_TENSOR_DTYPE for what is not a tensor.
 */
rs_status rs_session_tensors(rs_session *session, const rs_tensor_data *tensors, size_t n,
                             const char *config, const char *map, rs_error *err);

/*
 * What the function of the same name with _checkpoint gives, of the session's model. Of the
 * settings, `call` is the session's own, and it, map and lenient are not read. A model in
 * memory has no tokenizer: give ids, tokens, images or random instead of text (RS_E_UNSUPPORTED),
 * and it has its weights: no init (RS_E_USAGE, also when there is no model).
 */
rs_status rs_session_scan(rs_result **out, rs_session *session, const rs_scan_settings *settings,
                          rs_error *err);
rs_status rs_session_probe(rs_result **out, rs_session *session, const rs_probe_settings *settings,
                           rs_error *err);
rs_status rs_session_certify(rs_result **out, rs_session *session,
                             const rs_certify_settings *settings, rs_error *err);
rs_status rs_session_paths(rs_result **out, rs_session *session, const rs_paths_settings *settings,
                           rs_error *err);

/* ---- gradients of a session's model: what a training step, or a hook in one, asks for ---- */

/* What is differentiated, and how. */
typedef struct rs_gradients_settings {
    size_t size;
    rs_call_settings call; /* not read: it is the session's own */
    rs_run_settings run;
    rs_precision precision; /* F32 or F64 */
    rs_grad_loss loss;
    rs_grad_place loss_at; /* of RANDOM and NORM2 alone */
    const char *target;    /* of CLASS: "3", or one for each sample, "3,1,4"; NULL: none */
    bool freeze_attention; /* matrices of attention are constants on the way back */
    bool freeze_norm;      /* what norms divide by is a constant on the way back */
    bool recompute; /* layers are run twice, so that one layer's insides are kept at a time */
} rs_gradients_settings;

/* The derivative of the loss by one tensor of the session. It lives as long as the call that it is
 * told to. */
typedef struct rs_gradient_data {
    const char *name; /* the tensor's */
    int rank;
    const int64_t *shape;   /* [rank], the slowest dimension first */
    int64_t count;          /* numbers */
    rs_precision precision; /* F32: float, F64: double */
    const void *values;     /* [count], dense and row-major, whatever the tensor's strides are */
} rs_gradient_data;

/* Is told each tensor once, its uses added up; not those that the loss does not read. A status other
 * than RS_OK ends the call with it. */
typedef rs_status rs_gradient_fn(void *user, const rs_gradient_data *gradient);

void rs_gradients_settings_init(rs_gradients_settings *settings, size_t size);

/*
 * Runs the session's model over the inputs of `run`, and back: *loss (may be NULL) is the loss over
 * all of them (docs/theory/gradients.md), and `tell` hears its gradients when all are complete. Takes
 * room for as many numbers as the model has. Errors: those of rs_session_probe; RS_E_UNSUPPORTED for
 * a loss that the model cannot have, and for the residual precision, whose gradients doubles do not
 * hold.
 */
rs_status rs_session_gradients(double *loss, rs_session *session,
                               const rs_gradients_settings *settings, rs_gradient_fn *tell,
                               void *user, rs_error *err);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
