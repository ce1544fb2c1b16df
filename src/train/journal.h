/*
 * journal.h: what a run says while it trains, in three places at once: DIR/log.jsonl (an object a
 * logged step), DIR/run.db (SQLite, a table for each kind of row) and the tables of the result.
 *
 * A line is {"step": ..., the step's own numbers, "ranks": [{...}], ...}: one list for each kind of
 * row that belongs to the step.
 */
#ifndef RS_TRAIN_JOURNAL_H
#define RS_TRAIN_JOURNAL_H

#include "report/result.h"

/* A kind of row: an array of columns over a struct, whose first column is `step`. */
typedef struct rs_journal_kind {
    const char *name;
    const rs_column *columns;
    size_t n;
} rs_journal_kind;

typedef struct rs_journal rs_journal;

/* Where the rows of a log that is there already go beside the tables: row is a struct of its kind,
 * whose texts are there until the call returns. */
typedef struct rs_journal_reader {
    void *user;
    rs_status (*row)(void *user, size_t kind, const void *row, rs_error *err);
} rs_journal_reader;

/*
 * Opens a journal of these kinds [n]; the first is the step's own. tables [n]: where rows go too, or
 * NULL. folder NULL: nothing is written to files. Of a log that is there, lines of steps below
 * `first` stay (and fill the tables, and go to the reader), later ones and a line that was cut are
 * removed; the database is made anew from it where it is damaged or says something else. Errors:
 * RS_E_WRITE, RS_E_INPUT_FORMAT (a line that is no object, in the middle), RS_E_NO_MEMORY, the
 * reader's.
 */
rs_status rs_journal_open(rs_journal **out, const char *folder, const rs_journal_kind *kinds,
                          size_t n, rs_table *const *tables, int64_t first,
                          const rs_journal_reader *reader, rs_error *err);
void rs_journal_close(rs_journal *journal); /* NULL is fine */

/* Adds a row of a kind (its place in the list) to the line that is being made. */
rs_status rs_journal_add(rs_journal *journal, size_t kind, const void *row, rs_error *err);
/* Ends the line, which has a row of the first kind: it is written. */
rs_status rs_journal_end(rs_journal *journal, rs_error *err);

#endif
