/*
 * output_live.h: a table of what must be undone should the process end now. The table is read by
 * signal handlers: entries are claimed and released with atomics and never move.
 */
#ifndef RS_REPORT_OUTPUT_LIVE_H
#define RS_REPORT_OUTPUT_LIVE_H

#include <stdbool.h>

enum { RS_PATH_SIZE = 4096 };

/* What an entry asks for. */
typedef enum rs_live_kind {
    RS_LIVE_FREE,
    RS_LIVE_CLAIMED,   /* nothing to undo, or being filled in */
    RS_LIVE_TEMPORARY, /* remove `name` */
    RS_LIVE_NEW,       /* `name` has appeared: remove it */
    RS_LIVE_REPLACED,  /* `target` was replaced; `name` is the file before: put it back */
    RS_LIVE_FOLDER     /* remove the folder `name` when it is empty */
} rs_live_kind;

/* Claims an entry, a slot; -1 when all are taken. */
int rs_live_claim(void);
void rs_live_release(int slot); /* -1 is fine */
/* Says what ending the process means for a slot from now on. Names are shorter than RS_PATH_SIZE;
 * target may be NULL. */
void rs_live_set(int slot, rs_live_kind kind, const char *name, const char *target);

/* Between these two calls nothing is abandoned, so that several files appear together.
 * rs_live_enter does not return once a handler has begun to abandon. */
void rs_live_enter(void);
void rs_live_leave(void);
/* Whether a handler has begun to abandon, so that what is made now would stay behind. */
bool rs_live_abandoned(void);

#endif
