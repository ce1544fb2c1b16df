/* journal.c: lines of a run's log, and what is made of them. */
#include "train/journal.h"
#include "train/journal_db.h"
#include "train/saver_parts.h"

#include "base/json_parse.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KINDS_MAX = 8, ROW_MAX = 1024, PATH_MAX_BYTES = 4096 };

struct rs_journal {
    const rs_journal_kind *kinds;
    size_t n;
    rs_table *tables[KINDS_MAX];
    const rs_journal_reader *reader; /* while an old log is read; else NULL */
    int log;                         /* descriptor; -1: nothing is written */
    char path[PATH_MAX_BYTES];
    rs_journal_db *db;
    json_t *line;
};

/* ---- rows and objects ---- */

static json_t *cell_of(const rs_column *column, const void *row)
{
    const char *at = (const char *)row + column->at;
    double value;
    switch (column->member) {
    case RS_MEMBER_TEXT:
        return *(const char *const *)at ? json_string(*(const char *const *)at) : json_null();
    case RS_MEMBER_INT32:
    case RS_MEMBER_INT64:
        value = rs_column_value(column, row);
        return isnan(value) ? json_null() : json_integer((json_int_t)value);
    case RS_MEMBER_BOOL:
        return json_boolean(*(const bool *)at);
    default:
        value = rs_column_value(column, row);
        return isfinite(value) ? json_real(value) : json_null();
    }
}

static json_t *object_of(const rs_journal_kind *kind, const void *row)
{
    json_t *object = json_object();
    for (size_t c = 0; c < kind->n && object; c++)
        if (json_object_set_new(object, kind->columns[c].name, cell_of(&kind->columns[c], row)) !=
            0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static void fill_cell(void *row, const rs_column *column, const json_t *value)
{
    char *at = (char *)row + column->at;
    switch (column->member) {
    case RS_MEMBER_TEXT:
        *(const char **)at = json_string_value(value);
        return;
    case RS_MEMBER_INT32:
        if (json_is_integer(value)) *(int32_t *)at = (int32_t)json_integer_value(value);
        return;
    case RS_MEMBER_INT64:
        if (json_is_integer(value)) *(int64_t *)at = json_integer_value(value);
        return;
    case RS_MEMBER_BOOL:
        *(bool *)at = json_is_true(value);
        return;
    case RS_MEMBER_REAL:
        if (json_is_number(value)) *(double *)at = json_number_value(value);
        return;
    default:
        return;
    }
}

static rs_status append_object(rs_journal *j, size_t kind, const json_t *object, rs_error *err)
{
    char row[ROW_MAX] __attribute__((aligned(16)));
    const rs_journal_kind *k = &j->kinds[kind];
    if (!j->tables[kind] && !j->reader) return RS_OK;
    memset(row, 0, sizeof row);
    rs_columns_clear(k->columns, k->n, row);
    for (size_t c = 0; c < k->n; c++)
        fill_cell(row, &k->columns[c], json_object_get(object, k->columns[c].name));
    if (j->reader) RS_TRY(j->reader->row(j->reader->user, kind, row, err));
    return j->tables[kind] ? rs_table_append(j->tables[kind], row, err) : RS_OK;
}

/* What a line would say of the column, from one row to another, which is cleared. */
static void copy_cell(void *to, const void *from, const rs_column *column)
{
    const char *source = (const char *)from + column->at;
    char *at = (char *)to + column->at;
    switch (column->member) {
    case RS_MEMBER_TEXT:
        *(const char **)at = *(const char *const *)source;
        return;
    case RS_MEMBER_INT32:
        if (!isnan(rs_column_value(column, from))) *(int32_t *)at = *(const int32_t *)source;
        return;
    case RS_MEMBER_INT64:
        if (!isnan(rs_column_value(column, from))) *(int64_t *)at = *(const int64_t *)source;
        return;
    case RS_MEMBER_BOOL:
        *(bool *)at = *(const bool *)source;
        return;
    case RS_MEMBER_REAL:
        if (isfinite(*(const double *)source)) *(double *)at = *(const double *)source;
        return;
    default:
        return;
    }
}

static rs_status append_row(rs_journal *j, size_t kind, const void *row, rs_error *err)
{
    char copy[ROW_MAX] __attribute__((aligned(16)));
    const rs_journal_kind *k = &j->kinds[kind];
    if (!j->tables[kind]) return RS_OK;
    memset(copy, 0, sizeof copy);
    rs_columns_clear(k->columns, k->n, copy);
    for (size_t c = 0; c < k->n; c++)
        copy_cell(copy, row, &k->columns[c]);
    return rs_table_append(j->tables[kind], copy, err);
}

/* Takes the rows of a line to the tables and to the database. */
static rs_status spread_line(rs_journal *j, const json_t *line, bool tables, bool db, rs_error *err)
{
    if (db) RS_TRY(rs_journal_db_begin(j->db, err));
    for (size_t k = 0; k < j->n; k++) {
        const json_t *list = k ? json_object_get(line, j->kinds[k].name) : NULL;
        size_t rows = k ? json_array_size(list) : 1;
        for (size_t i = 0; i < rows; i++) {
            const json_t *row = k ? json_array_get(list, i) : line;
            if (tables) RS_TRY(append_object(j, k, row, err));
            if (db) RS_TRY(rs_journal_db_add(j->db, k, row, err));
        }
    }
    return db ? rs_journal_db_commit(j->db, err) : RS_OK;
}

/* One write: a line is there whole, or cut where the program ended in it. */
static rs_status write_line(rs_journal *j, rs_error *err)
{
    char *text = json_dumps(j->line, JSON_COMPACT);
    if (!text) return rs_fail_memory(err, "a line of the log", 1);
    size_t left = strlen(text);
    text[left] = '\n'; /* over the end of the text, which is told by its length from here */
    left++;
    int code = rs_output_descriptor_write(j->log, text, &left, NULL);
    rs_memory_free_json(text);
    if (!code) return RS_OK;
    errno = code;
    return rs_saved_fail(j->path, err);
}

/* ---- what is there already ---- */

/* What a walk over an old log is for. */
typedef struct old_log {
    rs_journal *journal;
    const char *text;
    size_t length, kept;        /* bytes, and of them those of lines that stay */
    int64_t first, lines, last; /* steps: that the run goes on from, of the last line that stays */
} old_log;

static rs_status walk_lines(old_log *log, bool tables, bool db, rs_error *err)
{
    size_t at = 0;
    log->lines = 0;
    log->kept = 0;
    log->last = -1;
    while (at < log->length) {
        const char *end = memchr(log->text + at, '\n', log->length - at);
        if (!end) return RS_OK; /* it was cut */
        size_t length = (size_t)(end - (log->text + at));
        json_error_t why;
        json_t *line = rs_json_parse(log->text + at, length, 0, &why);
        const json_t *step = json_object_get(line, "step");
        if (!json_is_integer(step)) {
            json_decref(line);
            bool last = at + length + 1 == log->length;
            if (last) return RS_OK;
            return rs_fail(err, RS_E_INPUT_FORMAT, log->journal->path,
                           "remove the file, or that line", "line %lld is no line of a log",
                           (long long)log->lines + 1);
        }
        int64_t number = json_integer_value(step);
        bool stays = number < log->first;
        rs_status status = stays ? spread_line(log->journal, line, tables, db, err) : RS_OK;
        json_decref(line);
        if (status != RS_OK || !stays) return status;
        at += length + 1;
        log->kept = at;
        log->last = number;
        log->lines++;
    }
    return RS_OK;
}

static rs_status take_database(rs_journal *j, const char *path, old_log *log, rs_error *err)
{
    if (log->lines > 0 &&
        rs_journal_db_resume(&j->db, path, j->kinds, j->n, log->first, log->lines))
        return RS_OK;
    RS_TRY(rs_journal_db_open(&j->db, path, j->kinds, j->n, err));
    return log->lines > 0 ? walk_lines(log, false, true, err) : RS_OK;
}

static rs_status map_log(rs_mapping **mapping, old_log *log, rs_error *err)
{
    rs_mapping_close(*mapping);
    *mapping = NULL;
    if (lseek(log->journal->log, 0, SEEK_END) <= 0 || log->first <= 0) return RS_OK;
    RS_TRY(rs_mapping_open(mapping, log->journal->path, err));
    log->text = (const char *)(*mapping)->data;
    log->length = (*mapping)->size;
    return RS_OK;
}

/* Leaves the lines that stay, and has the next one stand behind them. */
static rs_status cut_log(const old_log *log, rs_error *err)
{
    int fd = log->journal->log;
    bool done = ftruncate(fd, (off_t)log->kept) == 0 && lseek(fd, 0, SEEK_END) >= 0;
    return done ? RS_OK : rs_saved_fail(log->journal->path, err);
}

/* What stood behind a line that was cut, and before the checkpoint, would not be made again: the
 * database has it. */
static rs_status fill_gap(rs_mapping **mapping, old_log *log, const char *db, rs_error *err)
{
    rs_journal *j = log->journal;
    json_t *lines = NULL;
    if (log->first <= 0) return RS_OK;
    RS_TRY(walk_lines(log, false, false, err));
    RS_TRY(rs_journal_db_lines(&lines, db, j->kinds, j->n, log->last, log->first, err));
    size_t n = json_array_size(lines);
    rs_status status = n > 0 ? cut_log(log, err) : RS_OK;
    for (size_t i = 0; i < n && status == RS_OK; i++) {
        j->line = json_array_get(lines, i);
        status = write_line(j, err);
    }
    j->line = NULL;
    json_decref(lines);
    return status == RS_OK && n > 0 ? map_log(mapping, log, err) : status;
}

static rs_status take_old(rs_journal *j, const char *db, int64_t first,
                          const rs_journal_reader *reader, rs_error *err)
{
    old_log log = {.journal = j, .first = first};
    rs_mapping *mapping = NULL;
    rs_status status = map_log(&mapping, &log, err);
    if (status == RS_OK) status = fill_gap(&mapping, &log, db, err);
    j->reader = reader;
    if (status == RS_OK) status = walk_lines(&log, true, false, err);
    j->reader = NULL;
    if (status == RS_OK) status = take_database(j, db, &log, err);
    rs_mapping_close(mapping);
    return status == RS_OK ? cut_log(&log, err) : status;
}

static rs_status open_files(rs_journal *j, const char *folder, int64_t first,
                            const rs_journal_reader *reader, rs_error *err)
{
    char db[PATH_MAX_BYTES];
    int n = snprintf(j->path, sizeof j->path, "%s/log.jsonl", folder);
    int m = snprintf(db, sizeof db, "%s/run.db", folder);
    if (n >= (int)sizeof j->path || m >= (int)sizeof db)
        return rs_fail(err, RS_E_WRITE, folder, "choose a shorter name", "the name is too long");
    j->log = open(j->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return j->log < 0 ? rs_saved_fail(j->path, err) : take_old(j, db, first, reader, err);
}

rs_status rs_journal_open(rs_journal **out, const char *folder, const rs_journal_kind *kinds,
                          size_t n, rs_table *const *tables, int64_t first,
                          const rs_journal_reader *reader, rs_error *err)
{
    *out = NULL;
    rs_journal *j = n <= KINDS_MAX ? rs_calloc(1, sizeof *j) : NULL;
    if (!j) return rs_fail_memory(err, "a log", sizeof *j);
    *j = (rs_journal){.kinds = kinds, .n = n, .log = -1};
    for (size_t k = 0; k < n && tables; k++)
        j->tables[k] = tables[k];
    rs_status status = folder ? open_files(j, folder, first, reader, err) : RS_OK;
    if (status != RS_OK)
        rs_journal_close(j);
    else
        *out = j;
    return status;
}

void rs_journal_close(rs_journal *j)
{
    if (!j) return;
    json_decref(j->line);
    rs_journal_db_close(j->db);
    if (j->log >= 0) (void)close(j->log);
    rs_free(j);
}

/* ---- writing ---- */

rs_status rs_journal_add(rs_journal *j, size_t kind, const void *row, rs_error *err)
{
    RS_TRY(append_row(j, kind, row, err));
    if (j->log < 0) return RS_OK; /* no line is made that nobody writes */
    json_t *object = object_of(&j->kinds[kind], row);
    bool failed = !object;
    if (!j->line) j->line = json_object();
    if (kind == 0) {
        failed = failed || json_object_update(j->line, object) != 0;
        json_decref(object);
    } else {
        json_t *list = json_object_get(j->line, j->kinds[kind].name);
        if (!list && json_object_set_new(j->line, j->kinds[kind].name, list = json_array()) != 0)
            list = NULL;
        failed = json_array_append_new(list, object) != 0;
    }
    return failed ? rs_fail_memory(err, "a line of the log", 1) : RS_OK;
}

rs_status rs_journal_end(rs_journal *j, rs_error *err)
{
    if (j->log < 0) return RS_OK;
    rs_status status = j->line ? RS_OK : rs_fail_memory(err, "a line of the log", 1);
    if (status == RS_OK) status = write_line(j, err);
    if (status == RS_OK) status = spread_line(j, j->line, false, j->db != NULL, err);
    json_decref(j->line);
    j->line = NULL;
    return status;
}
