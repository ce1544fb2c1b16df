/* pattern.c: compiling and searching through PCRE2. */
#include "text/pattern.h"

#include "base/memory.h"
#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAP_LIMIT_KIB = 256 * 1024,
    JIT_STACK_BYTES = 1024 * 1024,
    JIT_STACK_START = 32 * 1024,
    LONGEST_SOURCE = 64 * 1024,
    SHOWN_SOURCE = 60 /* bytes of an expression in a message */
};

/* Steps that all searches in one text may take. */
enum { FREE_STEPS = 20 * 1000 * 1000, STEPS_PER_BYTE = 100 };

struct rs_pattern {
    char *where; /* for messages */
    char shown[SHOWN_SOURCE + 4];
    char *literal;
    size_t length;
    pcre2_general_context *memory;
    pcre2_code *code;  /* NULL: the literal is searched for */
    uint16_t *repeats; /* steps by the place of an item in the compiled source; NULL: all 1 */
};

static void *pcre_malloc(size_t size, void *data)
{
    (void)data;
    return rs_malloc(size, 1);
}

static void pcre_free(void *block, void *data)
{
    (void)data;
    rs_free(block);
}

/* ---- from Oniguruma's dialect to PCRE2's ---- */

/* PCRE2's \s takes in U+180E, which is no white space any more; its \w leaves out marks. */
#define SPACES                                                                                     \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
/* Of numbers that are neither digits nor letters, Oniguruma's \w takes Latin-1's alone. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

static const struct {
    char letter;
    const char *outside, *inside; /* of [...]; NULL: cannot be said there */
} classes[] = {
    {'s', "[" SPACES "]", SPACES}, {'S', "[^" SPACES "]", NULL},      {'w', "[" WORD "]", WORD},
    {'W', "[^" WORD "]", NULL},    {'h', "[0-9a-fA-F]", "0-9a-fA-F"}, {'H', "[^0-9a-fA-F]", NULL},
};

/* Names of \p{...} that PCRE2 spells otherwise. Names of scripts get "sc:", since PCRE2 would take
 * them as script extensions. */
static const struct {
    const char *name, *pcre;
} properties[] = {
    {"letter", "L"},
    {"mark", "M"},
    {"number", "N"},
    {"punctuation", "P"},
    {"punct", "P"},
    {"symbol", "S"},
    {"separator", "Z"},
    {"other", "C"},
    {"alpha", "Alphabetic"},
    {"alphabetic", "Alphabetic"},
    {"digit", "Nd"},
    {"upper", "Uppercase"},
    {"lower", "Lowercase"},
    {"uppercase", "Uppercase"},
    {"lowercase", "Lowercase"},
    {"any", "Any"},
};

typedef struct translation {
    const char *text, *where;
    size_t length, at;
    rs_buffer out;
    rs_error *err;
} translation;

static rs_status refuse_pattern(translation *t, const char *what)
{
    return rs_fail(t->err, RS_E_TOKENIZER_PATTERN, t->where,
                   "the expression can be simplified by hand, or the text tokenised elsewhere",
                   "character %zu of the regular expression: %s", t->at + 1, what);
}

static rs_status translate_property(translation *t)
{
    size_t open = t->at + 2, close = open;
    while (close < t->length && t->text[close] != '}')
        close++;
    if (open >= t->length || t->text[open] != '{' || close == t->length || close - open > 40) {
        rs_buffer_append(&t->out, t->text + t->at, 2); /* \pL, or broken: PCRE2 says so */
        t->at += 2;
        return RS_OK;
    }
    char name[41];
    size_t n = 0;
    bool negated = t->text[open + 1] == '^';
    for (size_t i = open + 1 + negated; i < close; i++) {
        char c = t->text[i];
        if (c == ' ' || c == '_' || c == '-') continue;
        name[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    name[n] = 0;
    const char *known = NULL;
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
        if (strcmp(name, properties[i].name) == 0) known = properties[i].pcre;
    rs_buffer_printf(&t->out, "\\%c{%s", t->text[t->at + 1], negated ? "^" : "");
    if (known)
        rs_buffer_puts(&t->out, known);
    else if (n <= 2)
        rs_buffer_append(&t->out, t->text + open + 1 + negated, close - open - 1 - negated);
    else
        rs_buffer_printf(&t->out, "sc:%s", name);
    rs_buffer_puts(&t->out, "}");
    t->at = close + 1;
    return RS_OK;
}

static rs_status translate_escape(translation *t, bool inside)
{
    char letter = t->at + 1 < t->length ? t->text[t->at + 1] : 0;
    if (letter == 'p' || letter == 'P') return translate_property(t);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].letter != letter) continue;
        const char *as = inside ? classes[i].inside : classes[i].outside;
        if (!as) return refuse_pattern(t, "a negated class inside brackets is not supported");
        rs_buffer_puts(&t->out, as);
        t->at += 2;
        return RS_OK;
    }
    size_t n = t->length - t->at < 2 ? t->length - t->at : 2;
    rs_buffer_append(&t->out, t->text + t->at, n);
    t->at += n;
    return RS_OK;
}

/* [...]; t->at stands on the opening bracket. */
static rs_status translate_brackets(translation *t)
{
    size_t begin = t->at++;
    rs_buffer_puts(&t->out, "[");
    if (t->at < t->length && t->text[t->at] == '^') {
        rs_buffer_puts(&t->out, "^");
        t->at++;
    }
    for (size_t first = t->at; t->at < t->length; first = begin) {
        char c = t->text[t->at];
        if (c == ']' && t->at != first) {
            rs_buffer_puts(&t->out, "]");
            t->at++;
            return RS_OK;
        }
        if (c == '\\') {
            RS_TRY(translate_escape(t, true));
            continue;
        }
        if (c == '[' && t->at + 1 < t->length && t->text[t->at + 1] != ':')
            return refuse_pattern(t, "brackets inside brackets are not supported");
        if (c == '&' && t->at + 1 < t->length && t->text[t->at + 1] == '&')
            return refuse_pattern(t, "the intersection && of classes is not supported");
        rs_buffer_append(&t->out, &c, 1);
        t->at++;
    }
    t->at = begin;
    return refuse_pattern(t, "this bracket is not closed");
}

static rs_status translate(translation *t)
{
    while (t->at < t->length) {
        char c = t->text[t->at];
        if (c == '\\') {
            RS_TRY(translate_escape(t, false));
        } else if (c == '[') {
            RS_TRY(translate_brackets(t));
        } else {
            rs_buffer_append(&t->out, &c, 1);
            t->at++;
        }
    }
    return t->out.failed ? rs_fail_memory(t->err, t->where, t->length) : RS_OK;
}

/* ---- compiling ---- */

typedef struct repeats {
    const char *source;
    size_t length;
    rs_pattern *pattern;
} repeats;

/* The n of an item that ends in {n}, {n,} or {n,m}, or 0. */
static unsigned long repeat_of(const char *item, size_t length)
{
    size_t end = length;
    if (end > 0 && (item[end - 1] == '+' || item[end - 1] == '?')) end--;
    if (end < 3 || item[end - 1] != '}') return 0;
    size_t open = end - 1;
    while (open > 0 && item[open] != '{')
        open--;
    if (open >= 2 && item[open - 2] == '\\') return 0; /* \x{2028} */
    return strtoul(item + open + 1, NULL, 10);
}

/* Of a repeated class, what it passes before it fails is seen by nobody: it is charged beforehand,
 * at a rate that fits its speed. */
static int charge_repeat(pcre2_callout_enumerate_block *block, void *user)
{
    enum { FREE = 16, CLASS_PER_STEP = 8 };
    const repeats *r = user;
    size_t at = block->pattern_position, n = block->next_item_length;
    unsigned long count = at + n <= r->length ? repeat_of(r->source + at, n) : 0;
    if (count <= FREE) return 0;
    if (!r->pattern->repeats)
        r->pattern->repeats = rs_calloc(r->length + 1, sizeof *r->pattern->repeats);
    if (!r->pattern->repeats) return PCRE2_ERROR_NOMEMORY;
    r->pattern->repeats[at] = (uint16_t)(count / CLASS_PER_STEP);
    return 0;
}

static rs_status compile(rs_pattern *pattern, const char *source, size_t length, rs_error *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(pattern->memory);
    if (!context) return rs_fail_memory(err, pattern->where, length);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int number = 0;
    size_t offset = 0;
    pattern->code = pcre2_compile((PCRE2_SPTR)source, length,
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK |
                                      PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT,
                                  &number, &offset, context);
    pcre2_compile_context_free(context);
    if (!pattern->code && number == 121) /* "failed to allocate heap memory" */
        return rs_fail_memory(err, pattern->where, length);
    if (!pattern->code) {
        PCRE2_UCHAR text[160];
        pcre2_get_error_message(number, text, sizeof text);
        return rs_fail(err, RS_E_TOKENIZER_PATTERN, pattern->where, NULL,
                       "the regular expression does not compile: byte %zu: %s", offset,
                       (const char *)text);
    }
    repeats r = {.source = source, .length = length, .pattern = pattern};
    if (pcre2_callout_enumerate(pattern->code, charge_repeat, &r) != 0)
        return rs_fail_memory(err, pattern->where, length);
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE); /* without JIT it is only slower */
    return RS_OK;
}

/* The beginning of an expression, cut between characters. */
static void show_source(rs_pattern *pattern, const char *text, size_t length)
{
    size_t n = length < SHOWN_SOURCE ? length : SHOWN_SOURCE;
    while (n < length && n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    memcpy(pattern->shown, text, n);
    memcpy(pattern->shown + n, "...", n < length ? 4 : 0);
}

static rs_status build_pattern(rs_pattern *pattern, const char *text, size_t length, bool regex,
                               const char *where, rs_error *err)
{
    pattern->where = rs_strdup(where);
    if (!pattern->where) return rs_fail_memory(err, where, length);
    if (!regex) {
        pattern->literal = rs_malloc(length + 1, 1);
        if (!pattern->literal) return rs_fail_memory(err, where, length);
        memcpy(pattern->literal, text, length);
        pattern->length = length;
        return RS_OK;
    }
    if (length > LONGEST_SOURCE)
        return rs_fail(err, RS_E_TOKENIZER_PATTERN, where, NULL,
                       "the regular expression has %zu bytes; at most %d are allowed", length,
                       LONGEST_SOURCE);
    pattern->memory = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
    if (!pattern->memory) return rs_fail_memory(err, where, 0);
    show_source(pattern, text, length);
    translation t = {.text = text, .where = where, .length = length, .err = err};
    rs_status status = translate(&t);
    if (status == RS_OK) status = compile(pattern, t.out.data ? t.out.data : "", t.out.length, err);
    rs_buffer_free(&t.out);
    return status;
}

rs_status rs_pattern_new(rs_pattern **out, const char *text, size_t length, bool regex,
                         const char *where, rs_error *err)
{
    *out = NULL;
    rs_pattern *pattern = rs_calloc(1, sizeof *pattern);
    if (!pattern) return rs_fail_memory(err, where, sizeof *pattern);
    rs_status status = build_pattern(pattern, text, length, regex, where, err);
    if (status != RS_OK) {
        rs_pattern_free(pattern);
        return status;
    }
    *out = pattern;
    return RS_OK;
}

void rs_pattern_free(rs_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    pcre2_general_context_free(pattern->memory);
    rs_free(pattern->repeats);
    rs_free(pattern->literal);
    rs_free(pattern->where);
    rs_free(pattern);
}

/* ---- searching ---- */

/*
 * PCRE2's own limits are per match, and its count leaves out what a loop over one class passes. So
 * it calls back before each item of an expression, and a step is a call or a byte that the search
 * moved since the last one, forwards or back. The count is of the text as a whole.
 */
static int count_step(pcre2_callout_block *block, void *user)
{
    rs_searcher *searcher = user;
    size_t from = searcher->position, to = block->current_position;
    searcher->position = to;
    searcher->steps += 1 + (from < to ? to - from : from - to);
    if (searcher->repeats) searcher->steps += searcher->repeats[block->pattern_position];
    if (searcher->steps > searcher->most) return PCRE2_ERROR_MATCHLIMIT;
    return searcher->cancel && *searcher->cancel ? PCRE2_ERROR_CALLOUT : 0;
}

void rs_searcher_begin(rs_searcher *searcher, size_t length, const volatile sig_atomic_t *cancel)
{
    searcher->steps = 0;
    searcher->most = (uint64_t)length * STEPS_PER_BYTE + FREE_STEPS;
    searcher->cancel = cancel;
}

void rs_searcher_free(rs_searcher *searcher)
{
    pcre2_match_data_free(searcher->match_data);
    pcre2_match_context_free(searcher->match_context);
    pcre2_jit_stack_free(searcher->jit_stack);
    *searcher = (rs_searcher){0};
}

static rs_status prepare_searcher(rs_searcher *searcher, const rs_pattern *pattern, rs_error *err)
{
    if (searcher->match_context) return RS_OK;
    searcher->match_data = pcre2_match_data_create(1, pattern->memory);
    searcher->jit_stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_BYTES, pattern->memory);
    if (searcher->match_data) searcher->match_context = pcre2_match_context_create(pattern->memory);
    if (!searcher->match_context) {
        rs_searcher_free(searcher);
        return rs_fail_memory(err, pattern->where, 0);
    }
    pcre2_set_match_limit(searcher->match_context, UINT32_MAX);
    pcre2_set_heap_limit(searcher->match_context, HEAP_LIMIT_KIB);
    pcre2_set_callout(searcher->match_context, count_step, searcher);
    if (searcher->jit_stack)
        pcre2_jit_stack_assign(searcher->match_context, NULL, searcher->jit_stack);
    return RS_OK;
}

rs_status rs_text_spans_add(rs_text_spans *spans, size_t begin, size_t end, bool match,
                            rs_error *err)
{
    if (!RS_GROW(spans->items, spans->n, spans->capacity))
        return rs_fail_memory(err, "splitting a text", spans->n * sizeof *spans->items);
    spans->items[spans->n++] = (rs_text_span){(uint32_t)begin, (uint32_t)end, match};
    return RS_OK;
}

static rs_status stopped(const rs_pattern *pattern, const rs_searcher *searcher, int result,
                         size_t at, rs_error *err)
{
    if (result == PCRE2_ERROR_NOMEMORY) return rs_fail_memory(err, pattern->where, 0);
    if (result == PCRE2_ERROR_CALLOUT)
        return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL,
                       "interrupted; nothing was written");
    if (result == PCRE2_ERROR_MATCHLIMIT)
        return rs_fail(err, RS_E_TOKENIZER_LIMIT, pattern->where,
                       "simplify the expression, or tokenise elsewhere and give the ids (--tokens)",
                       "the expression '%s' backtracks too much: over %llu steps in this text",
                       pattern->shown, (unsigned long long)searcher->most);
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(result, text, sizeof text);
    return rs_fail(err, RS_E_TOKENIZER_LIMIT, pattern->where, NULL,
                   "the search for '%s' stopped at byte %zu of a piece of text: %s", pattern->shown,
                   at, (const char *)text);
}

/* An empty match is skipped where the last match ended, as in other engines. */
static rs_status cut_regex(rs_text_spans *spans, const rs_pattern *pattern, rs_searcher *searcher,
                           const char *text, size_t begin, size_t end, rs_error *err)
{
    RS_TRY(prepare_searcher(searcher, pattern, err));
    PCRE2_SPTR subject = (PCRE2_SPTR)text + begin;
    size_t length = end - begin, last = 0, at = 0;
    bool after_match = false;
    searcher->repeats = pattern->repeats;
    while (at <= length) {
        searcher->position = at;
        int result = pcre2_match(pattern->code, subject, length, at, PCRE2_NO_UTF_CHECK,
                                 searcher->match_data, searcher->match_context);
        if (result == PCRE2_ERROR_NOMATCH) break;
        if (result < 0) return stopped(pattern, searcher, result, at, err);
        const size_t *where = pcre2_get_ovector_pointer(searcher->match_data);
        size_t from = where[0], to = where[1];
        if (from > to || to < at) /* \K may put the ends in disorder */
            return stopped(pattern, searcher, PCRE2_ERROR_BADOFFSET, at, err);
        at = to;
        if (from == to) {
            at += to < length ? rs_char_bytes(text[begin + to]) : 1;
            if (after_match && to == last) continue;
        }
        if (from < last) return stopped(pattern, searcher, PCRE2_ERROR_BADOFFSET, at, err);
        if (from > last) RS_TRY(rs_text_spans_add(spans, begin + last, begin + from, false, err));
        RS_TRY(rs_text_spans_add(spans, begin + from, begin + to, true, err));
        last = to;
        after_match = true;
    }
    if (last < length) RS_TRY(rs_text_spans_add(spans, begin + last, end, false, err));
    return RS_OK;
}

rs_status rs_pattern_cut(rs_text_spans *spans, const rs_pattern *pattern, rs_searcher *searcher,
                         const char *text, size_t begin, size_t end, rs_error *err)
{
    if (pattern->code) return cut_regex(spans, pattern, searcher, text, begin, end, err);
    size_t last = begin;
    while (pattern->length && last < end) {
        const char *found = memmem(text + last, end - last, pattern->literal, pattern->length);
        if (!found) break;
        size_t at = (size_t)(found - text);
        if (at > last) RS_TRY(rs_text_spans_add(spans, last, at, false, err));
        RS_TRY(rs_text_spans_add(spans, at, at + pattern->length, true, err));
        last = at + pattern->length;
    }
    return last < end ? rs_text_spans_add(spans, last, end, false, err) : RS_OK;
}

/* ---- splitting ---- */

/* A match is taken into what stands before it, unless that was taken in itself. */
static void merge_with_previous(rs_text_spans *spans)
{
    size_t kept = 0;
    bool previous = false;
    for (size_t i = 0; i < spans->n; i++) {
        rs_text_span span = spans->items[i];
        if (span.match && !previous && kept > 0)
            spans->items[kept - 1].end = span.end;
        else
            spans->items[kept++] = span;
        previous = span.match;
    }
    spans->n = kept;
}

static void merge_with_next(rs_text_spans *spans)
{
    size_t kept = spans->n;
    bool next = false;
    for (size_t i = spans->n; i-- > 0;) {
        rs_text_span span = spans->items[i];
        if (span.match && !next && kept < spans->n)
            spans->items[kept].begin = span.begin;
        else
            spans->items[--kept] = span;
        next = span.match;
    }
    spans->n -= kept;
    memmove(spans->items, spans->items + kept, spans->n * sizeof *spans->items);
}

static void merge_alike(rs_text_spans *spans)
{
    size_t kept = 0;
    bool previous = false;
    for (size_t i = 0; i < spans->n; i++) {
        rs_text_span span = spans->items[i];
        if (span.match == previous && kept > 0)
            spans->items[kept - 1].end = span.end;
        else
            spans->items[kept++] = span;
        previous = span.match;
    }
    spans->n = kept;
}

void rs_text_spans_split(rs_pieces *pieces, rs_text_spans *spans, rs_behaviour behaviour)
{
    if (spans->n > 0 && behaviour == RS_MERGED_WITH_PREVIOUS) merge_with_previous(spans);
    if (spans->n > 0 && behaviour == RS_MERGED_WITH_NEXT) merge_with_next(spans);
    if (spans->n > 0 && behaviour == RS_CONTIGUOUS) merge_alike(spans);
    for (size_t i = 0; i < spans->n; i++)
        if (behaviour != RS_REMOVED || !spans->items[i].match)
            rs_pieces_add(pieces, spans->items[i].begin, spans->items[i].end, RS_NO_TOKEN);
    spans->n = 0;
}
