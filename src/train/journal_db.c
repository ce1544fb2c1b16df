/* journal_db.c: writes run.db. */
#include "train/journal_db.h"

#include "base/memory.h"
#include "base/text.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct rs_journal_db {
    sqlite3 *sql;
    char *path;
    const rs_journal_kind *kinds;
    size_t n;
    sqlite3_stmt **adders; /* [n] */
};

static rs_status fail_sql(const rs_journal_db *db, rs_error *err)
{
    return rs_fail(err, RS_E_WRITE, db->path, NULL, "%s", sqlite3_errmsg(db->sql));
}

static rs_status run_sql(rs_journal_db *db, const char *text, rs_error *err)
{
    return sqlite3_exec(db->sql, text, NULL, NULL, NULL) == SQLITE_OK ? RS_OK : fail_sql(db, err);
}

static const char *sql_type(rs_column_type type)
{
    return type == RS_COLUMN_TEXT ? "TEXT" : type == RS_COLUMN_REAL ? "REAL" : "INTEGER";
}

static rs_status prepare(rs_journal_db *db, size_t kind, rs_error *err)
{
    const rs_journal_kind *k = &db->kinds[kind];
    rs_buffer make = {0}, add = {0};
    rs_buffer_printf(&make, "CREATE TABLE IF NOT EXISTS \"%s\" (", k->name);
    rs_buffer_printf(&add, "INSERT INTO \"%s\" VALUES (", k->name);
    for (size_t c = 0; c < k->n; c++) {
        rs_buffer_printf(&make, "%s\"%s\" %s", c ? ", " : "", k->columns[c].name,
                         sql_type(k->columns[c].type));
        rs_buffer_puts(&add, c ? ", ?" : "?");
    }
    rs_buffer_puts(&make, ")");
    rs_buffer_puts(&add, ")");
    rs_buffer_append(&make, "", 1);
    rs_buffer_append(&add, "", 1);
    rs_status status = make.failed || add.failed ? rs_fail_memory(err, db->path, 1) : RS_OK;
    if (status == RS_OK) status = run_sql(db, make.data, err);
    if (status == RS_OK &&
        sqlite3_prepare_v2(db->sql, add.data, -1, &db->adders[kind], NULL) != SQLITE_OK)
        status = fail_sql(db, err);
    rs_buffer_free(&make);
    rs_buffer_free(&add);
    return status;
}

/* A commit is not flushed to the disk: the log is, as far as it can be, and makes a new one. */
static rs_status open_sql(rs_journal_db *db, rs_error *err)
{
    if (sqlite3_open(db->path, &db->sql) != SQLITE_OK) return fail_sql(db, err);
    (void)sqlite3_busy_timeout(db->sql, 10000);
    RS_TRY(run_sql(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF", err));
    for (size_t k = 0; k < db->n; k++)
        RS_TRY(prepare(db, k, err));
    return RS_OK;
}

static rs_journal_db *new_db(const char *path, const rs_journal_kind *kinds, size_t n)
{
    rs_journal_db *db = rs_calloc(1, sizeof *db);
    if (!db) return NULL;
    db->path = rs_strdup(path);
    db->adders = rs_calloc(n, sizeof *db->adders);
    db->kinds = kinds;
    db->n = n;
    if (db->path && db->adders) return db;
    rs_journal_db_close(db);
    return NULL;
}

void rs_journal_db_close(rs_journal_db *db)
{
    if (!db) return;
    for (size_t k = 0; db->adders && k < db->n; k++)
        sqlite3_finalize(db->adders[k]);
    sqlite3_close(db->sql);
    rs_free(db->adders);
    rs_free(db->path);
    rs_free(db);
}

/* Removes the database and what SQLite keeps beside it. */
static void remove_db(const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char name[4200];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (snprintf(name, sizeof name, "%s%s", path, endings[i]) < (int)sizeof name)
            (void)unlink(name);
}

rs_status rs_journal_db_open(rs_journal_db **out, const char *path, const rs_journal_kind *kinds,
                             size_t n, rs_error *err)
{
    *out = NULL;
    remove_db(path);
    rs_journal_db *db = new_db(path, kinds, n);
    if (!db) return rs_fail_memory(err, path, sizeof *db);
    rs_status status = open_sql(db, err);
    if (status != RS_OK)
        rs_journal_db_close(db);
    else
        *out = db;
    return status;
}

/* The one number that a query gives; -1: it failed. */
static int64_t ask(rs_journal_db *db, const char *text)
{
    sqlite3_stmt *query = NULL;
    int64_t answer = -1;
    if (sqlite3_prepare_v2(db->sql, text, -1, &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        answer = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return answer;
}

static bool is_sound(rs_journal_db *db)
{
    sqlite3_stmt *query = NULL;
    bool sound =
        sqlite3_prepare_v2(db->sql, "PRAGMA integrity_check(1)", -1, &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW &&
        strcmp((const char *)sqlite3_column_text(query, 0), "ok") == 0;
    sqlite3_finalize(query);
    return sound;
}

static bool cut(rs_journal_db *db, int64_t first)
{
    char text[256];
    rs_error unused;
    for (size_t k = 0; k < db->n; k++) {
        snprintf(text, sizeof text, "DELETE FROM \"%.100s\" WHERE step >= %lld", db->kinds[k].name,
                 (long long)first);
        if (run_sql(db, text, &unused) != RS_OK) return false;
    }
    return true;
}

bool rs_journal_db_resume(rs_journal_db **out, const char *path, const rs_journal_kind *kinds,
                          size_t n, int64_t first, int64_t lines)
{
    rs_error unused;
    char text[160];
    *out = NULL;
    if (access(path, R_OK | W_OK) != 0) return false;
    rs_journal_db *db = new_db(path, kinds, n);
    snprintf(text, sizeof text, "SELECT count(*) FROM \"%.100s\"", kinds[0].name);
    if (db && open_sql(db, &unused) == RS_OK && is_sound(db) && cut(db, first) &&
        ask(db, text) == lines) {
        *out = db;
        return true;
    }
    rs_journal_db_close(db);
    return false;
}

/* ---- rows as lines of the log ---- */

static json_t *cell_of(sqlite3_stmt *row, int at, rs_column_type type)
{
    switch (sqlite3_column_type(row, at)) {
    case SQLITE_INTEGER:
        return type == RS_COLUMN_BOOL   ? json_boolean(sqlite3_column_int(row, at) != 0)
               : type == RS_COLUMN_REAL ? json_real(sqlite3_column_double(row, at))
                                        : json_integer(sqlite3_column_int64(row, at));
    case SQLITE_FLOAT:
        return json_real(sqlite3_column_double(row, at));
    case SQLITE_TEXT:
        return json_string((const char *)sqlite3_column_text(row, at));
    default:
        return json_null();
    }
}

static bool put_cells(json_t *object, sqlite3_stmt *row, const rs_journal_kind *kind)
{
    bool whole = object != NULL;
    for (size_t c = 0; c < kind->n && whole; c++)
        whole = json_object_set_new(object, kind->columns[c].name,
                                    cell_of(row, (int)c, kind->columns[c].type)) == 0;
    return whole;
}

/* Adds a kind's rows of the line's step to it. */
static bool add_rows(json_t *line, rs_journal_db *db, size_t kind, int64_t step)
{
    const rs_journal_kind *k = &db->kinds[kind];
    sqlite3_stmt *query = NULL;
    char text[160];
    json_t *list = json_array();
    int code = SQLITE_ERROR;
    snprintf(text, sizeof text, "SELECT * FROM \"%.100s\" WHERE step = ?1 ORDER BY rowid", k->name);
    bool whole = list && sqlite3_prepare_v2(db->sql, text, -1, &query, NULL) == SQLITE_OK &&
                 sqlite3_column_count(query) == (int)k->n &&
                 sqlite3_bind_int64(query, 1, step) == SQLITE_OK;
    while (whole && (code = sqlite3_step(query)) == SQLITE_ROW) {
        json_t *object = kind ? json_object() : json_incref(line);
        whole = put_cells(object, query, k);
        if (kind && whole)
            whole = json_array_append_new(list, object) == 0;
        else
            json_decref(object);
    }
    whole = whole && code == SQLITE_DONE;
    if (whole && json_array_size(list) > 0) whole = json_object_set(line, k->name, list) == 0;
    json_decref(list);
    sqlite3_finalize(query);
    return whole;
}

static bool add_lines(json_t *lines, rs_journal_db *db, int64_t after, int64_t before)
{
    char text[200];
    for (int64_t step = after;;) {
        snprintf(text, sizeof text,
                 "SELECT coalesce(min(step), -1) FROM \"%.100s\" WHERE step > %lld",
                 db->kinds[0].name, (long long)step);
        int64_t next = ask(db, text);
        if (next <= step || next >= before) return true;
        json_t *line = json_object();
        bool whole = line != NULL;
        for (size_t k = 0; k < db->n && whole; k++)
            whole = add_rows(line, db, k, next);
        if (json_array_append_new(lines, line) != 0 || !whole) return false;
        step = next;
    }
}

rs_status rs_journal_db_lines(json_t **out, const char *path, const rs_journal_kind *kinds,
                              size_t n, int64_t after, int64_t before, rs_error *err)
{
    rs_error unused;
    *out = json_array();
    if (!*out) return rs_fail_memory(err, path, 1);
    if (access(path, R_OK | W_OK) != 0) return RS_OK;
    rs_journal_db *db = new_db(path, kinds, n);
    bool believed = db && open_sql(db, &unused) == RS_OK && is_sound(db);
    if (believed && !add_lines(*out, db, after, before)) (void)json_array_clear(*out);
    rs_journal_db_close(db);
    return RS_OK;
}

rs_status rs_journal_db_begin(rs_journal_db *db, rs_error *err)
{
    return run_sql(db, "BEGIN", err);
}

rs_status rs_journal_db_commit(rs_journal_db *db, rs_error *err)
{
    return run_sql(db, "COMMIT", err);
}

static int bind_value(sqlite3_stmt *statement, int at, const json_t *value)
{
    if (json_is_integer(value) || json_is_boolean(value))
        return sqlite3_bind_int64(statement, at,
                                  json_is_boolean(value) ? json_is_true(value)
                                                         : json_integer_value(value));
    if (json_is_real(value)) return sqlite3_bind_double(statement, at, json_real_value(value));
    if (json_is_string(value))
        return sqlite3_bind_text(statement, at, json_string_value(value), -1, SQLITE_TRANSIENT);
    return sqlite3_bind_null(statement, at);
}

rs_status rs_journal_db_add(rs_journal_db *db, size_t kind, const json_t *row, rs_error *err)
{
    const rs_journal_kind *k = &db->kinds[kind];
    sqlite3_stmt *add = db->adders[kind];
    int code = sqlite3_reset(add);
    for (size_t c = 0; c < k->n && code == SQLITE_OK; c++)
        code = bind_value(add, (int)c + 1, json_object_get(row, k->columns[c].name));
    if (code == SQLITE_OK && sqlite3_step(add) == SQLITE_DONE) return RS_OK;
    return fail_sql(db, err);
}
