/*
 * result.h: one result, many writers (docs/design.md, 3).
 *
 * Every command returns an rs_result: meta, tables of typed columns, figures (Vega-Lite
 * specifications over those tables) and findings. JSON, CSV, HTML and the terminal are writers of
 * this object; none of them computes.
 */
#ifndef RS_REPORT_RESULT_H
#define RS_REPORT_RESULT_H

#include "base/error.h"
#include "base/memory.h"
#include "base/notes.h"
#include "base/text.h"
#include "report/figures.h"

#include <jansson.h>
#include <stddef.h>

/* A boolean that may be unknown: false, true, or negative. */
typedef signed char rs_truth;
enum { RS_UNKNOWN = -1 };

/* What the member of a row's struct is that a column's cells are. A whole number there is a count
 * or an index: a negative one is no value, as is a negative rs_truth. */
typedef enum rs_member {
    RS_MEMBER_NONE, /* there is none: cells are set one by one */
    RS_MEMBER_TEXT,
    RS_MEMBER_INT64,
    RS_MEMBER_INT32,
    RS_MEMBER_REAL,
    RS_MEMBER_BOOL,
    RS_MEMBER_TRUTH,
    RS_MEMBER_LIST
} rs_member;

/* What the numbers of a column bound: text for people rounds them so that they claim no more than
 * the bound does. */
typedef enum rs_bound {
    RS_BOUND_NONE, /* they bound nothing: rounded to the nearest */
    RS_BOUND_UPPER,
    RS_BOUND_LOWER
} rs_bound;

/* A column of a table: a literal, {.name = "layer", RS_CELL(struct, member), .formula = ...}. */
typedef struct rs_column {
    const char *name;
    rs_column_type type;
    const char *title;      /* name for people, "effective rank"; NULL: `name` with blanks */
    const char *unit;       /* "nats"; or NULL */
    const char *formula;    /* the definition on one line, for tooltips and docs; or NULL */
    const char *provenance; /* "measured" (NULL), "predicted", "certified" or "published" */
    rs_bound bound;
    rs_member member; /* the cells of a row that rs_table_append adds: what they are */
    size_t at;        /* and where in the row's struct */
    size_t with;      /* RS_WITH: 1 + where in it the number is without which there is none */
} rs_column;

/* Which column and member a member of a struct makes. */
#define RS_MEMBER_CHOICE(type_, member_, text, int64, int32, real, boolean, truth, list)           \
    _Generic(((type_ *)0)->member_, const char *                                                   \
             : text, int64_t                                                                       \
             : int64, int32_t                                                                      \
             : int32, double                                                                       \
             : real, bool                                                                          \
             : boolean, rs_truth                                                                   \
             : truth, rs_list                                                                      \
             : list)
/* Makes the cells of a column the member `member_` of the rows' struct `type_`. */
#define RS_CELL(type_, member_)                                                                    \
    .type = RS_MEMBER_CHOICE(type_, member_, RS_COLUMN_TEXT, RS_COLUMN_INT, RS_COLUMN_INT,         \
                             RS_COLUMN_REAL, RS_COLUMN_BOOL, RS_COLUMN_BOOL, RS_COLUMN_VECTOR),    \
    .member = RS_MEMBER_CHOICE(type_, member_, RS_MEMBER_TEXT, RS_MEMBER_INT64, RS_MEMBER_INT32,   \
                               RS_MEMBER_REAL, RS_MEMBER_BOOL, RS_MEMBER_TRUTH, RS_MEMBER_LIST),   \
    .at = offsetof(type_, member_)
/* Makes a cell null where the double `member_` of the same row is not finite. */
#define RS_WITH(type_, member_) .with = offsetof(type_, member_) + 1

/* A column in one line, in the order of rs_column. */
#define RS_COLUMN(type_, member_, name_, title_, unit_, formula_, provenance_)                     \
    {                                                                                              \
        .name = name_, RS_CELL(type_, member_), .title = title_, .unit = unit_,                    \
        .formula = formula_, .provenance = provenance_                                             \
    }

/* The number of a column's cell in a row's struct; NaN where it has none or is no number. */
double rs_column_value(const rs_column *column, const void *row);
/* Copies n columns of a struct that lies `at` bytes into the row's struct; returns out + n. */
rs_column *rs_columns_within(rs_column *out, const rs_column *columns, size_t n, size_t at);
/* Makes the members of a row's struct that the columns name null (a bool: false). */
void rs_columns_clear(const rs_column *columns, size_t n, void *row);

/* Columns that a table can have, for whoever asks what one means while there is no result
 * ('rankscope explain'): the arrays that the table is made of, and no others. */
typedef struct rs_column_part {
    const rs_column *columns;
    size_t n;
    const char *endings; /* "_mean|_min": there is one of each name and ending; NULL: as they are */
} rs_column_part;
typedef struct rs_table_kind {
    const char *command, *name; /* of the command and the table */
    rs_column_part parts[5];
} rs_table_kind;
extern const rs_table_kind rs_findings_kind; /* of the table that every result has */
#define RS_PART(array)                                                                             \
    {                                                                                              \
        array, sizeof(array) / sizeof *(array), NULL                                               \
    }

typedef struct rs_table rs_table;

/* A case that stands out in a result. layer, head: RS_NULL_INT when it has none. value, threshold:
 * NaN when it has none. Strings are copied. The cases of one code make one finding for people
 * (rs_result_seal): "174 of 270 heads; strongest layer 18, head 8 (0.99994)". */
typedef struct rs_finding {
    rs_severity severity;
    const char *code;
    int64_t layer, head;
    double value, threshold;
    const char *said;    /* words for a value that no double holds, "10^-1254.3"; or NULL */
    const char *message; /* a sentence that names the layer and head, or the tensor */
    const char *hint;
    const char *table;   /* table that it is about, for the report's link; or NULL */
    const char *product; /* column `product` of its row there; or NULL */
    const char *stack, *attention;
    const char *variant; /* column `variant` of its row there; or NULL */
    const char *cases;   /* what is counted, "heads"; NULL: "cases" */
    const char *worst;   /* what the case furthest beyond its threshold is, "strongest"; or NULL */
    int64_t of;          /* of how many that were looked at; 0: not known */
    int64_t
        thing; /* cases with this number are told of one thing (a layer, an alarm that got worse):
                      people read how many things there are; 0: it is one of its own */
} rs_finding;

/* A finding that has nothing but these two: whoever makes one sets what else it has. */
rs_finding rs_finding_of(rs_severity severity, const char *code);

/* The cases of one code as people read them: what makes one finding of the JSON. */
typedef struct rs_finding_group {
    const rs_finding *worst; /* of the severest cases the one furthest beyond its threshold */
    size_t count;            /* cases of this code */
    const char *message;     /* the worst case's own where all are of one thing */
    bool housekeeping;       /* shown on a terminal only when everything is asked for */
} rs_finding_group;

/* ---- building ---- */
rs_result *rs_result_new(const char *command); /* NULL when out of memory */

/* Meta objects of docs/contract.md; values are JSON, taken over (even on failure). Keys: "args",
 * "machine", "model", "started", "seconds", or extra ones. */
rs_status rs_result_set_meta(rs_result *result, const char *key, json_t *value, rs_error *err);
const json_t *rs_result_meta(const rs_result *result); /* object of all meta */

/* Adds a table. `title` and `about` are for people. The column list is copied (its strings are
 * borrowed: literals). */
rs_status rs_result_add_table(rs_result *result, const char *name, const char *title,
                              const char *about, const rs_column *columns, size_t n_columns,
                              rs_table **out, rs_error *err);
/* Names, joined by commas, the columns that a terminal shows first where not all have room. Borrowed:
 * a literal. */
void rs_table_show_first(rs_table *table, const char *columns);
/* Says how many of its rows (of entries: how many lines of a text) the text for people shows where
 * nobody asked for the table by name: its first ones, with --verbose all. 0, as at first: all, of
 * the summary a dozen. */
void rs_table_show_few(rs_table *table, size_t most);
/* The report shows this table in front of all figures: it is the answer. */
void rs_table_lead(rs_table *table);
/* Appends what a row's struct holds: every column's cell, by RS_CELL; texts and lists are copied.
 * RS_E_INTERNAL where a column has no member. */
rs_status rs_table_append(rs_table *table, const void *row, rs_error *err);
/* Appends a row of nulls; *row is its index. */
rs_status rs_table_add_row(rs_table *table, size_t *row, rs_error *err);
/* Set a cell. The column must have the fitting type, row and column must exist: otherwise the cell
 * is left alone and the writers refuse the table (RS_E_INTERNAL). Texts and vectors are copied. */
rs_status rs_table_set_text(rs_table *table, size_t row, size_t column, const char *text,
                            rs_error *err);
void rs_table_set_int(rs_table *table, size_t row, size_t column, int64_t value);
/* NaN and infinities become null. */
void rs_table_set_real(rs_table *table, size_t row, size_t column, double value);
void rs_table_set_bool(rs_table *table, size_t row, size_t column, bool value);
rs_status rs_table_set_vector(rs_table *table, size_t row, size_t column, const double *values,
                              size_t n, rs_error *err);

/* Has the text for people show the rows of a table as the entries of a dictionary: its first column
 * is the head word, the second what kind it is, and what follows is text. */
void rs_table_as_entries(rs_table *table);
bool rs_table_is_entries(const rs_table *table);

/* Adds a figure over a table, which may be filled later: the writers draw what it then has. */
rs_status rs_result_add_figure(rs_result *result, const char *name, const char *title,
                               const char *about, rs_plot plot, rs_error *err);
rs_status rs_result_add_finding(rs_result *result, const rs_finding *finding, rs_error *err);
/* Makes all notes findings of their severity, but for those that a finding says already. */
rs_status rs_result_add_notes(rs_result *result, const rs_notes *notes, rs_error *err);
/* Sets the sentence that answers the command's question; its texts are copied. RS_E_INTERNAL where
 * there is one already or a text is missing. */
rs_status rs_result_set_verdict(rs_result *result, const rs_verdict *verdict, rs_error *err);
/* Sorts the cases (critical, warn, info; then the furthest beyond their thresholds), makes groups of
 * them, and adds table `findings` with all of them. Once; rs_result_seal does it. */
rs_status rs_result_group_findings(rs_result *result, rs_error *err);

/*
 * Fails, for good, with RS_E_NO_MEMORY once a request for memory has failed (base/memory.h) between
 * rs_result_new and the last member, figure or rs_result_seal, though whoever made it went on.
 * Every writer refuses such a result. A result is filled by one thread.
 */
rs_status rs_result_complete(const rs_result *result, rs_error *err);
/* Says that the result is filled, and groups its findings; RS_E_NO_MEMORY where a request for
 * memory has failed. */
rs_status rs_result_seal(rs_result *result, rs_error *err);

/* The most columns that a curve in a terminal has a line of. */
enum { RS_CURVE_COLUMNS = 4 };

/* The curves that a terminal draws of a result: a line for each column of y, or one column and a
 * line for each text of `series`. Strings are borrowed: literals, or of the result's arena. */
typedef struct rs_curve {
    const char *table, *title; /* title: "relative residual by state" */
    const char *x, *x_title;
    struct {
        const char *column, *label;
        bool upper; /* a bound from above: where it lies far above all else, it says nothing, and
                       the axis is not stretched for it */
    } y[RS_CURVE_COLUMNS];
    const char *series;           /* NULL: the columns are the lines */
    const char *only, *only_text; /* rows whose column `only` has that text; NULL: all */
    bool log_x;
    double floor; /* on a logarithmic axis, what is not above it is not drawn */
} rs_curve;
/* Says which, once: what was said first stays; curve NULL takes it back, for good. */
void rs_result_show_curve(rs_result *result, const rs_curve *curve);
/* NULL: none. */
const rs_curve *rs_result_curve(const rs_result *result);

/* An arena that lives as long as the result, for names that a table borrows. */
rs_arena *rs_result_arena(rs_result *result);
/* Names, joined by commas, the tables that the text for people shows unasked (NULL, as at first:
 * the summary). Borrowed: a literal. */
void rs_result_show(rs_result *result, const char *tables);
/* Names a table that --verbose shows beside them, and that a line tells of otherwise. Borrowed. */
void rs_result_show_more(rs_result *result, const char *table);
/* Frees a result, but for what lives in its arena (texts that columns, figures and curves borrow), and
 * takes over the files that it was made from. On failure it is freed as a whole. */
rs_status rs_result_adopt(rs_result *result, rs_result *part, rs_error *err);
/* The files that the result was made from, and its outputs that wait for the others; what still
 * waits when the result is freed is taken back. */
struct rs_input_files *rs_result_files(rs_result *result);

/* ---- reading ---- */
const char *rs_result_command(const rs_result *result);
const char *rs_result_shown(const rs_result *result);
const char *rs_result_shown_more(const rs_result *result); /* NULL: none */
const rs_table *rs_result_table_at(const rs_result *result, size_t index);
const rs_table *rs_result_table(const rs_result *result, const char *name); /* NULL when absent */
const char *rs_table_name(const rs_table *table);
const char *rs_table_title(const rs_table *table);
const char *rs_table_about(const rs_table *table);
const char *rs_table_first(const rs_table *table); /* columns to show first; NULL: as they stand */
size_t rs_table_few(const rs_table *table);        /* rs_table_show_few */
bool rs_table_is_lead(const rs_table *table);
size_t rs_table_rows(const rs_table *table);
size_t rs_table_columns(const rs_table *table);
const rs_column *rs_table_column(const rs_table *table, size_t column);
int rs_table_find_column(const rs_table *table, const char *name); /* -1 when absent */
const char *rs_table_text(const rs_table *table, size_t row, size_t column);
int64_t rs_table_int(const rs_table *table, size_t row, size_t column); /* INT and BOOL */
double rs_table_real(const rs_table *table, size_t row, size_t column);
/* The column's cells, one array: const char *, int64_t (INT and BOOL), double or rs_list. */
const void *rs_table_cells(const rs_table *table, size_t column);
const double *rs_table_vector(const rs_table *table, size_t row, size_t column, size_t *n);
size_t rs_result_figure_count(const rs_result *result);
const char *rs_result_figure_name(const rs_result *result, size_t index);
const char *rs_result_figure_title(const rs_result *result, size_t index);
const char *rs_result_figure_about(const rs_result *result, size_t index);
const rs_plot *rs_result_figure_plot(const rs_result *result, size_t index);
size_t rs_result_finding_count(const rs_result *result);
const rs_finding *rs_result_finding_at(const rs_result *result, size_t index); /* a case */
size_t rs_result_group_count(const rs_result *result); /* 0 before rs_result_group_findings */
const rs_finding_group *rs_result_group_at(const rs_result *result, size_t index);

/* ---- writing (write_*.c). Each gives bytes; output.c puts them on disk. ---- */
rs_status rs_write_json(rs_buffer *out, const rs_result *result, rs_error *err);
rs_status rs_write_csv(rs_buffer *out, const rs_table *table, rs_error *err);
/* Writes CSV for spreadsheets: text that begins with = + - @, tab or return gets a ' before it. */
rs_status rs_write_csv_safe(rs_buffer *out, const rs_table *table, rs_error *err);
rs_status rs_write_html(rs_buffer *out, const rs_result *result, rs_error *err);

/* What a terminal can show, and what it is to show. */
typedef struct rs_terminal {
    int width;          /* columns; 80 when it is no terminal */
    bool color;         /* it shows ANSI colours */
    bool unicode;       /* it shows box and block characters; else plain ASCII is written */
    bool verbose;       /* it is to show housekeeping, and what to do about notes */
    const char *tables; /* names joined by commas, or "all"; NULL: those of rs_result_show */
    /* what they show, as rs_output_settings has it */
    const char *columns, *sort, *where;
    int64_t top;
    bool wide;
    int height; /* lines that a screen has; 0: 24 */
} rs_terminal;
rs_status rs_write_terminal(rs_buffer *out, const rs_result *result, const rs_terminal *terminal,
                            rs_error *err);

/* ---- output.c: a file appears whole or not at all ---- */
/* The identity of a file. */
typedef struct rs_file_id {
    uint64_t device, inode;
} rs_file_id;

/* What a command read, so that no output replaces it, and where its outputs wait for each other.
 * Zero-initialise; rs_input_files_free. */
typedef struct rs_input_files {
    rs_file_id *ids; /* [n] files that were read */
    size_t n, capacity;
    /* [n_models] folders of models: what exists there is an input too, read or not, but for what
     * rankscope wrote itself. */
    char **models;
    size_t n_models, model_capacity;
    struct rs_outputs *outputs; /* borrowed; NULL: each output appears by itself */
} rs_input_files;
/* Add a file that was read, and a model's folder: PATH, or the folder that holds it. Errors:
 * RS_E_NO_MEMORY. */
rs_status rs_input_files_add(rs_input_files *files, rs_file_id id, rs_error *err);
rs_status rs_input_files_model(rs_input_files *files, const char *path, rs_error *err);
void rs_input_files_free(rs_input_files *files);

/* Writes bytes to PATH: beside it and flushed first, then in place under its name, with the
 * permissions of a file that is replaced; at once, or with the others of files->outputs. What is no
 * regular file (a pipe, a terminal, /dev/stdout, /dev/fd/N) is opened and written.
 * RS_E_WRITE (full disk, no permission), RS_E_OVERWRITES_INPUT. files may be NULL. */
rs_status rs_output_write(const char *path, const char *bytes, size_t length,
                          const rs_input_files *files, rs_error *err);
#endif
