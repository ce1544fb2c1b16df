/* notes.c: a list of remarks for the user. */
#include "base/notes.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdio.h>

const char *rs_severity_name(rs_severity severity)
{
    static const char *const names[] = {"info", "warn", "critical"};
    return names[severity];
}

static bool add_note(rs_notes *notes, rs_severity severity, const char *code, const char *hint,
                     const char *format, va_list arguments)
{
    char text[4096];
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length < 0 || !RS_GROW(notes->items, notes->n, notes->capacity)) return false;
    rs_note note = {.severity = severity, .code = code, .message = rs_strdup(text)};
    if (hint) note.hint = rs_strdup(hint);
    if (!note.message || (hint && !note.hint)) {
        rs_free(note.message);
        rs_free(note.hint);
        return false;
    }
    notes->items[notes->n++] = note;
    return true;
}

bool rs_notes_add(rs_notes *notes, rs_severity severity, const char *code, const char *hint,
                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool added = add_note(notes, severity, code, hint, format, arguments);
    va_end(arguments);
    return added;
}

rs_status rs_notes_say(rs_notes *notes, rs_error *err, rs_severity severity, const char *code,
                       const char *hint, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool added = add_note(notes, severity, code, hint, format, arguments);
    va_end(arguments);
    return added ? RS_OK : rs_fail_memory(err, "notes", 0);
}

void rs_notes_free(rs_notes *notes)
{
    for (size_t i = 0; i < notes->n; i++) {
        rs_free(notes->items[i].message);
        rs_free(notes->items[i].hint);
    }
    rs_free(notes->items);
    *notes = (rs_notes){0};
}
