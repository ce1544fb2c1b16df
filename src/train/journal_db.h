/* journal_db.h: DIR/run.db, the lines of a run's log as tables of an SQLite database. */
#ifndef RS_TRAIN_JOURNAL_DB_H
#define RS_TRAIN_JOURNAL_DB_H

#include "train/journal.h"

typedef struct rs_journal_db rs_journal_db;

/* Opens the database at `path`, made anew and empty. Errors: RS_E_WRITE. */
rs_status rs_journal_db_open(rs_journal_db **out, const char *path, const rs_journal_kind *kinds,
                             size_t n, rs_error *err);
void rs_journal_db_close(rs_journal_db *db); /* NULL is fine */
/* Opens one that is there, whose rows of steps from `first` on are removed; false, with nothing open,
 * where it is damaged or has not as many rows of the first kind as `lines`. */
bool rs_journal_db_resume(rs_journal_db **out, const char *path, const rs_journal_kind *kinds,
                          size_t n, int64_t first, int64_t lines);
/* Has what is added until the commit appear together. */
/* Makes lines of the log from rows of steps between `after` and `before`, both left out: an array, in
 * the order of the steps; an empty one where there are none or the database cannot be believed. Errors:
 * RS_E_NO_MEMORY. */
rs_status rs_journal_db_lines(json_t **out, const char *path, const rs_journal_kind *kinds,
                              size_t n, int64_t after, int64_t before, rs_error *err);
rs_status rs_journal_db_begin(rs_journal_db *db, rs_error *err);
rs_status rs_journal_db_commit(rs_journal_db *db, rs_error *err);
/* Adds the row of a kind that an object of the log says. */
rs_status rs_journal_db_add(rs_journal_db *db, size_t kind, const json_t *row, rs_error *err);

#endif
