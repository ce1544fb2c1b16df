/* kept_runs.c: see kept_runs.h. */
#include "lab/kept_runs.h"

#include "base/memory.h"
#include "rankscope.h"

#include <sqlite3.h>
#include <string.h>

/* "rsk1": a database with another mark, which is not 0 of a new one, is somebody else's. */
enum { MARK = 0x72736b31 };

struct rs_kept_runs {
    sqlite3 *sql;
    sqlite3_stmt *find, *add;
    char *path;
    bool read_only; /* what is there is taken, and nothing is added */
};

static rs_status fail_sql(const rs_kept_runs *kept, rs_error *err)
{
    return rs_fail(err, RS_E_WRITE, kept->path, "name a new file, or one that --db made before",
                   "%s", sqlite3_errmsg(kept->sql));
}

/* The one number that a query gives; -1: it failed. */
static sqlite3_int64 ask(rs_kept_runs *kept, const char *text)
{
    sqlite3_stmt *query = NULL;
    sqlite3_int64 answer = -1;
    if (sqlite3_prepare_v2(kept->sql, text, -1, &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW)
        answer = sqlite3_column_int64(query, 0);
    sqlite3_finalize(query);
    return answer;
}

static bool make_tables(rs_kept_runs *kept)
{
    static const char *const make =
        "PRAGMA application_id = 1920166705;" /* MARK */
        "CREATE TABLE IF NOT EXISTS lab_runs (experiment TEXT, version TEXT, task TEXT, numbers "
        "BLOB, PRIMARY KEY (experiment, version, task))";
    return sqlite3_exec(kept->sql, make, NULL, NULL, NULL) == SQLITE_OK;
}

static rs_status open_sql(rs_kept_runs *kept, rs_error *err)
{
    if (sqlite3_open(kept->path, &kept->sql) != SQLITE_OK) return fail_sql(kept, err);
    (void)sqlite3_busy_timeout(kept->sql, 10000);
    sqlite3_int64 mark = ask(kept, "PRAGMA application_id"),
                  tables = ask(kept, "SELECT count(*) FROM sqlite_master");
    if (tables < 0) return fail_sql(kept, err);
    if (tables > 0 && mark != MARK)
        return rs_fail(err, RS_E_WRITE, kept->path, "name a new file, or one that --db made before",
                       "it is a database of something else");
    kept->read_only = sqlite3_db_readonly(kept->sql, "main") == 1;
    if ((tables == 0 && !make_tables(kept)) ||
        sqlite3_prepare_v2(kept->sql,
                           "SELECT numbers FROM lab_runs WHERE experiment = ? AND version = ? AND "
                           "task = ?",
                           -1, &kept->find, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(kept->sql, "INSERT OR REPLACE INTO lab_runs VALUES (?, ?, ?, ?)", -1,
                           &kept->add, NULL) != SQLITE_OK)
        return fail_sql(kept, err);
    return RS_OK;
}

rs_status rs_kept_runs_open(rs_kept_runs **out, const char *path, rs_error *err)
{
    *out = NULL;
    rs_kept_runs *kept = rs_calloc(1, sizeof *kept);
    if (kept) kept->path = rs_strdup(path);
    if (!kept || !kept->path) {
        rs_kept_runs_close(kept);
        return rs_fail_memory(err, path, sizeof *kept);
    }
    rs_status status = open_sql(kept, err);
    if (status == RS_OK)
        *out = kept;
    else
        rs_kept_runs_close(kept);
    return status;
}

void rs_kept_runs_close(rs_kept_runs *kept)
{
    if (!kept) return;
    sqlite3_finalize(kept->find);
    sqlite3_finalize(kept->add);
    sqlite3_close(kept->sql);
    rs_free(kept->path);
    rs_free(kept);
}

static void bind_name(sqlite3_stmt *statement, const char *experiment, const char *task)
{
    sqlite3_reset(statement);
    sqlite3_bind_text(statement, 1, experiment, -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 2, rs_version(), -1, SQLITE_STATIC);
    sqlite3_bind_text(statement, 3, task, -1, SQLITE_STATIC);
}

bool rs_kept_runs_find(rs_kept_runs *kept, const char *experiment, const char *task,
                       double *numbers, size_t n)
{
    bool found = false;
#pragma omp critical(rs_kept_runs)
    {
        bind_name(kept->find, experiment, task);
        found = sqlite3_step(kept->find) == SQLITE_ROW &&
                (size_t)sqlite3_column_bytes(kept->find, 0) == n * sizeof *numbers;
        if (found) memcpy(numbers, sqlite3_column_blob(kept->find, 0), n * sizeof *numbers);
        sqlite3_reset(kept->find);
    }
    return found;
}

rs_status rs_kept_runs_add(rs_kept_runs *kept, const char *experiment, const char *task,
                           const double *numbers, size_t n, rs_error *err)
{
    rs_status status = RS_OK;
#pragma omp critical(rs_kept_runs)
    {
        bind_name(kept->add, experiment, task);
        sqlite3_bind_blob(kept->add, 4, numbers, (int)(n * sizeof *numbers), SQLITE_STATIC);
        if (sqlite3_step(kept->add) != SQLITE_DONE) status = fail_sql(kept, err);
        sqlite3_reset(kept->add);
    }
    return status;
}

rs_status rs_kept_runs_take(rs_kept_runs *kept, const char *experiment, const char *task,
                            double *numbers, size_t n, const rs_kept_maker *maker, rs_error *err)
{
    if (kept && rs_kept_runs_find(kept, experiment, task, numbers, n)) return RS_OK;
    if (kept && kept->read_only)
        return rs_fail(err, RS_E_WRITE, kept->path,
                       "make it writable, or copy it and name the copy",
                       "it cannot be written to, and not every run is in it");
    RS_TRY(maker->run(maker->user, task, err));
    return kept ? rs_kept_runs_add(kept, experiment, task, numbers, n, err) : RS_OK;
}
