/*
 * pattern.h: a text or a regular expression to look for, and what lies between its matches.
 *
 * tokenizer.json writes its expressions in the dialect of Oniguruma; they are compiled by PCRE2
 * with UTF and UCP. Where the two give the same words another meaning, the expression is rewritten
 * (pattern.c has the table); what cannot be rewritten is refused.
 */
#ifndef RS_TEXT_PATTERN_H
#define RS_TEXT_PATTERN_H

#include "base/error.h"
#include "text/aligned.h"

#include <signal.h>

typedef struct rs_pattern rs_pattern;

/* Makes a pattern of a literal text (regex = false) or an expression. Errors:
 * RS_E_TOKENIZER_PATTERN, with `where` and the place in the expression; RS_E_NO_MEMORY. */
rs_status rs_pattern_new(rs_pattern **out, const char *text, size_t length, bool regex,
                         const char *where, rs_error *err);
void rs_pattern_free(rs_pattern *pattern); /* NULL is fine */

/* A stretch of a text that matched, or one between two matches. */
typedef struct rs_text_span {
    uint32_t begin, end;
    bool match;
} rs_text_span;

/* A list of spans. Zero-initialise. */
typedef struct rs_text_spans {
    rs_text_span *items;
    size_t n, capacity;
} rs_text_spans;

rs_status rs_text_spans_add(rs_text_spans *spans, size_t begin, size_t end, bool match,
                            rs_error *err);

/* What searching needs besides the pattern; one to a thread. Zero-initialise, then begin. */
typedef struct rs_searcher {
    void *match_data, *match_context, *jit_stack;
    uint64_t steps, most;    /* steps that were taken, and are allowed, in this text */
    size_t position;         /* where the search stood at the last step */
    const uint16_t *repeats; /* repeats of the pattern that is searched for */
    const volatile sig_atomic_t *cancel;
} rs_searcher;
/* Begins a text of so many bytes: its searches together may take steps in proportion to them.
 * cancel may be NULL; when it becomes non-zero, the search stops with RS_E_INTERRUPTED. */
void rs_searcher_begin(rs_searcher *searcher, size_t length, const volatile sig_atomic_t *cancel);
void rs_searcher_free(rs_searcher *searcher);

/* Cuts text[begin, end) into the pattern's matches and what is between them, in order, without
 * holes. Appends to spans. Errors: RS_E_TOKENIZER_LIMIT when the searches in this text take more
 * steps than it allows; RS_E_INTERRUPTED; RS_E_NO_MEMORY. */
rs_status rs_pattern_cut(rs_text_spans *spans, const rs_pattern *pattern, rs_searcher *searcher,
                         const char *text, size_t begin, size_t end, rs_error *err);

/* What becomes of the matches when a text is split at them. */
typedef enum rs_behaviour {
    RS_REMOVED,
    RS_ISOLATED,
    RS_MERGED_WITH_PREVIOUS,
    RS_MERGED_WITH_NEXT,
    RS_CONTIGUOUS
} rs_behaviour;

/* Appends the pieces that the spans become; the spans are used up. */
void rs_text_spans_split(rs_pieces *pieces, rs_text_spans *spans, rs_behaviour behaviour);

#endif
