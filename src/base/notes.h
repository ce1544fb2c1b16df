/* notes.h: what the user should be told though it is no failure: what was guessed, skipped or odd.
 * Notes end as findings. */
#ifndef RS_BASE_NOTES_H
#define RS_BASE_NOTES_H

#include "base/error.h"

/* How serious a note or a finding is. */
typedef enum rs_severity { RS_INFO, RS_WARN, RS_CRITICAL } rs_severity;
const char *rs_severity_name(rs_severity severity); /* "info" "warn" "critical" */

/* One thing that the user should be told. */
typedef struct rs_note {
    rs_severity severity;
    const char *code; /* a literal, such as "unknown_tensor" */
    char *message;
    char *hint; /* may be NULL */
} rs_note;

/* A list of notes. Zero-initialise. */
typedef struct rs_notes {
    rs_note *items;
    size_t n, capacity;
} rs_notes;

/* Adds a note; false when out of memory. `code` must be a literal. hint may be NULL. */
bool rs_notes_add(rs_notes *notes, rs_severity severity, const char *code, const char *hint,
                  const char *format, ...) RS_PRINTF(5, 6);
/* Adds a note; where memory is out, err says so. */
rs_status rs_notes_say(rs_notes *notes, rs_error *err, rs_severity severity, const char *code,
                       const char *hint, const char *format, ...) RS_PRINTF(6, 7);
void rs_notes_free(rs_notes *notes);

#endif
