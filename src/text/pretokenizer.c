/* pretokenizer.c: the pre-tokenisers of tokenizer.json, as rows of a table. */
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>

/* GPT-2's words: contractions, letters, numbers or signs with one blank before, runs of blanks. */
#define GPT2_WORDS                                                                                 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define METASPACE "\xE2\x96\x81"

/* ---- cutting without changing the text ---- */

static void swap_pieces(rs_pieces *a, rs_pieces *b)
{
    rs_pieces swap = *a;
    *a = *b;
    *b = swap;
    b->n = 0;
}

static rs_status pieces_done(const rs_pieces *pieces, rs_error *err)
{
    return pieces->failed ? rs_fail_memory(err, "splitting a text", pieces->n) : RS_OK;
}

/* A way to cut one piece into spans. */
typedef rs_status cutter(rs_text_spans *spans, const char *text, size_t begin, size_t end,
                         const rs_split_step *step, rs_text_work *work, rs_error *err);

static rs_status cut_all(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                         rs_text_work *work, cutter *cut, rs_behaviour behaviour, rs_error *err)
{
    rs_pieces *out = &work->spare_pieces;
    out->n = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        rs_piece piece = pieces->items[i];
        work->spans.n = 0;
        RS_TRY(cut(&work->spans, text->bytes, piece.begin, piece.end, step, work, err));
        rs_text_spans_split(out, &work->spans, behaviour);
    }
    RS_TRY(pieces_done(out, err));
    swap_pieces(pieces, out);
    return RS_OK;
}

/* Each character for which `is` holds is a match by itself. */
static rs_status cut_where(rs_text_spans *spans, const char *text, size_t begin, size_t end,
                           bool (*is)(uint32_t), rs_error *err)
{
    size_t last = begin;
    for (size_t i = begin, n; i < end; i += n) {
        if (!is(rs_char_at(text + i, &n))) continue;
        if (i > last) RS_TRY(rs_text_spans_add(spans, last, i, false, err));
        RS_TRY(rs_text_spans_add(spans, i, i + n, true, err));
        last = i + n;
    }
    return last < end ? rs_text_spans_add(spans, last, end, false, err) : RS_OK;
}

static bool is_punctuation(uint32_t point)
{
    if (point < 0x80)
        return (point > ' ' && point < '0') || (point > '9' && point < 'A') ||
               (point > 'Z' && point < 'a') || (point > 'z' && point < 0x7F);
    return rs_char_in(RS_CHAR_PUNCTUATION, point);
}

static bool is_numeric(uint32_t point)
{
    return point < 0x80 ? point >= '0' && point <= '9' : rs_char_in(RS_CHAR_NUMERIC, point);
}

static rs_status cut_spaces(rs_text_spans *spans, const char *text, size_t begin, size_t end,
                            const rs_split_step *step, rs_text_work *work, rs_error *err)
{
    (void)step;
    (void)work;
    return cut_where(spans, text, begin, end, rs_char_is_space, err);
}

static rs_status cut_punctuation(rs_text_spans *spans, const char *text, size_t begin, size_t end,
                                 const rs_split_step *step, rs_text_work *work, rs_error *err)
{
    (void)step;
    (void)work;
    return cut_where(spans, text, begin, end, is_punctuation, err);
}

static rs_status cut_digits(rs_text_spans *spans, const char *text, size_t begin, size_t end,
                            const rs_split_step *step, rs_text_work *work, rs_error *err)
{
    (void)step;
    (void)work;
    return cut_where(spans, text, begin, end, is_numeric, err);
}

static rs_status cut_pattern(rs_text_spans *spans, const char *text, size_t begin, size_t end,
                             const rs_split_step *step, rs_text_work *work, rs_error *err)
{
    RS_TRY(rs_pattern_cut(spans, step->pattern, &work->searcher, text, begin, end, err));
    for (size_t i = 0; step->invert && i < spans->n; i++)
        spans->items[i].match = !spans->items[i].match;
    return RS_OK;
}

/* BERT's: blanks are left out, each sign of punctuation is a piece. One pass,
 * since it is common. */
static rs_status run_bert(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                          rs_text_work *work, rs_error *err)
{
    (void)step;
    rs_pieces *out = &work->spare_pieces;
    out->n = 0;
    for (size_t p = 0; p < pieces->n; p++) {
        size_t begin = pieces->items[p].begin, end = pieces->items[p].end, n;
        for (size_t i = begin; i < end; i += n) {
            uint32_t point = rs_char_at(text->bytes + i, &n);
            bool space = rs_char_is_space(point);
            if (!space && !is_punctuation(point)) continue;
            rs_pieces_add(out, begin, i, RS_NO_TOKEN);
            if (!space) rs_pieces_add(out, i, i + n, RS_NO_TOKEN);
            begin = i + n;
        }
        rs_pieces_add(out, begin, end, RS_NO_TOKEN);
    }
    RS_TRY(pieces_done(out, err));
    swap_pieces(pieces, out);
    return RS_OK;
}

static rs_status run_space_split(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                                 rs_text_work *work, rs_error *err)
{
    return cut_all(text, pieces, step, work, cut_spaces, RS_REMOVED, err);
}

static rs_status run_punctuation(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                                 rs_text_work *work, rs_error *err)
{
    return cut_all(text, pieces, step, work, cut_punctuation, step->behaviour, err);
}

static rs_status run_digits(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                            rs_text_work *work, rs_error *err)
{
    return cut_all(text, pieces, step, work, cut_digits,
                   step->individual ? RS_ISOLATED : RS_CONTIGUOUS, err);
}

static rs_status run_split(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                           rs_text_work *work, rs_error *err)
{
    return cut_all(text, pieces, step, work, cut_pattern, step->behaviour, err);
}

/* ---- changing the text ---- */

/* Ends a rewriting step: the new text and its pieces take the place of the old. */
static rs_status replace_text(rs_aligned *text, rs_pieces *pieces, rs_text_work *work,
                              rs_error *err)
{
    RS_TRY(rs_aligned_check(&work->spare, err));
    RS_TRY(pieces_done(&work->spare_pieces, err));
    rs_aligned swap = *text;
    *text = work->spare;
    work->spare = swap;
    swap_pieces(pieces, &work->spare_pieces);
    return RS_OK;
}

static bool begins_with(const rs_aligned *text, const rs_piece *piece, const char *bytes, size_t n)
{
    return piece->end - piece->begin >= n && memcmp(text->bytes + piece->begin, bytes, n) == 0;
}

static void put_bytes(rs_aligned *out, const rs_aligned *text, const rs_piece *piece)
{
    for (size_t i = piece->begin; i < piece->end; i++) {
        char bytes[4];
        size_t n = rs_char_put(bytes, rs_byte_character((unsigned char)text->bytes[i]));
        rs_aligned_put(out, text, i, i + 1, bytes, n);
    }
}

static rs_status add_prefix_space(rs_aligned *text, rs_pieces *pieces, rs_text_work *work,
                                  rs_error *err)
{
    rs_aligned *out = &work->spare;
    rs_aligned_clear(out);
    work->spare_pieces.n = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        const rs_piece *piece = &pieces->items[i];
        size_t begin = out->n;
        if (!begins_with(text, piece, " ", 1))
            rs_aligned_put(out, text, piece->begin, piece->begin, " ", 1);
        rs_aligned_copy(out, text, piece->begin, piece->end - piece->begin);
        rs_pieces_add(&work->spare_pieces, begin, out->n, RS_NO_TOKEN);
    }
    return replace_text(text, pieces, work, err);
}

static rs_status run_byte_level(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                                rs_text_work *work, rs_error *err)
{
    if (step->prefix_space) RS_TRY(add_prefix_space(text, pieces, work, err));
    if (step->pattern) RS_TRY(cut_all(text, pieces, step, work, cut_pattern, RS_ISOLATED, err));
    rs_aligned *out = &work->spare;
    rs_aligned_clear(out);
    work->spare_pieces.n = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        size_t begin = out->n;
        put_bytes(out, text, &pieces->items[i]);
        rs_pieces_add(&work->spare_pieces, begin, out->n, RS_NO_TOKEN);
    }
    return replace_text(text, pieces, work, err);
}

/* Blanks become the replacement, and one may be put before the piece. */
static void put_metaspace(rs_aligned *out, const rs_aligned *text, const rs_piece *piece,
                          const rs_split_step *step)
{
    const char *mark = step->replacement;
    size_t n = step->replacement_length, plain = piece->begin;
    bool wanted = step->prepend == RS_PREPEND_ALWAYS ||
                  (step->prepend == RS_PREPEND_FIRST && rs_aligned_begin(text, piece->begin) == 0);
    if (wanted && !begins_with(text, piece, " ", 1) && !begins_with(text, piece, mark, n))
        rs_aligned_put(out, text, piece->begin, piece->begin, mark, n);
    for (size_t i = piece->begin; i < piece->end; i++) {
        if (text->bytes[i] != ' ') continue;
        rs_aligned_copy(out, text, plain, i - plain);
        rs_aligned_put(out, text, i, i + 1, mark, n);
        plain = i + 1;
    }
    rs_aligned_copy(out, text, plain, piece->end - plain);
}

/* out[begin, end) before each replacement. */
static void split_metaspace(rs_pieces *pieces, const rs_aligned *out, size_t begin,
                            const rs_split_step *step)
{
    size_t n = step->replacement_length;
    for (size_t i = begin + 1; i + n <= out->n; i++)
        if (out->bytes[i] == step->replacement[0] &&
            memcmp(out->bytes + i, step->replacement, n) == 0) {
            rs_pieces_add(pieces, begin, i, RS_NO_TOKEN);
            begin = i;
        }
    rs_pieces_add(pieces, begin, out->n, RS_NO_TOKEN);
}

static rs_status run_metaspace(rs_aligned *text, rs_pieces *pieces, const rs_split_step *step,
                               rs_text_work *work, rs_error *err)
{
    rs_aligned *out = &work->spare;
    rs_aligned_clear(out);
    work->spare_pieces.n = 0;
    for (size_t i = 0; i < pieces->n && !out->failed; i++) {
        size_t begin = out->n;
        put_metaspace(out, text, &pieces->items[i], step);
        if (out->failed) break;
        if (step->split)
            split_metaspace(&work->spare_pieces, out, begin, step);
        else
            rs_pieces_add(&work->spare_pieces, begin, out->n, RS_NO_TOKEN);
    }
    return replace_text(text, pieces, work, err);
}

/* ---- bytes as characters (GPT-2) ---- */

/* Bytes that print stand for themselves; the other 68 become U+0100 and on, in order. */
static bool prints(unsigned char byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

uint32_t rs_byte_character(unsigned char byte)
{
    if (prints(byte)) return byte;
    if (byte <= ' ') return 0x100u + byte;
    return byte == 0xAD ? 0x143u : 0x100u + 33u + (byte - 0x7Fu);
}

int rs_character_byte(uint32_t point)
{
    if (point < 0x100) return prints((unsigned char)point) ? (int)point : -1;
    if (point <= 0x120) return (int)(point - 0x100);
    if (point <= 0x142) return (int)(point - 0x121 + 0x7F);
    return point == 0x143 ? 0xAD : -1;
}

/* ---- reading ---- */

typedef rs_status read_step(rs_split_step *step, const rs_spec *spec, rs_error *err);

static rs_status read_behaviour(rs_behaviour *out, const rs_spec *spec, rs_error *err)
{
    static const char *const names[] = {[RS_REMOVED] = "Removed",
                                        [RS_ISOLATED] = "Isolated",
                                        [RS_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [RS_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [RS_CONTIGUOUS] = "Contiguous"};
    uint32_t value = rs_json_member(spec->json, spec->value, "behavior");
    for (size_t i = 0; value != RS_JSON_ABSENT && i < sizeof names / sizeof *names; i++)
        if (rs_json_is(spec->json, value, names[i])) {
            *out = (rs_behaviour)i;
            return RS_OK;
        }
    return rs_spec_fail(spec, "behavior", err,
                        "must be Removed, Isolated, MergedWithPrevious, MergedWithNext or "
                        "Contiguous");
}

static rs_status read_split(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    RS_TRY(read_behaviour(&step->behaviour, spec, err));
    RS_TRY(rs_spec_bool(&step->invert, spec, "invert", true, err));
    return rs_spec_pattern(&step->pattern, spec, "pattern", err);
}

static rs_status read_punctuation(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    step->behaviour = RS_ISOLATED;
    return rs_json_member(spec->json, spec->value, "behavior") == RS_JSON_ABSENT
               ? RS_OK
               : read_behaviour(&step->behaviour, spec, err);
}

static rs_status read_digits(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    return rs_spec_bool(&step->individual, spec, "individual_digits", true, err);
}

static rs_status own_pattern(rs_split_step *step, const char *regex, const char *where,
                             rs_error *err)
{
    return rs_pattern_new(&step->pattern, regex, strlen(regex), true, where, err);
}

static rs_status read_byte_level(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    bool use_regex = true;
    step->prefix_space = true;
    RS_TRY(rs_spec_bool(&step->prefix_space, spec, "add_prefix_space", true, err));
    RS_TRY(rs_spec_bool(&use_regex, spec, "use_regex", false, err));
    return use_regex ? own_pattern(step, GPT2_WORDS, spec->path, err) : RS_OK;
}

/* Words and runs of what is neither word nor blank; \w as in Rust's crate regex. */
static rs_status read_whitespace(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    static const char words[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+|"
                                "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}\\s]+";
    step->invert = true;
    step->behaviour = RS_REMOVED;
    return own_pattern(step, words, spec->path, err);
}

static rs_status read_delimiter(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    char delimiter[4];
    size_t n;
    RS_TRY(rs_spec_character(delimiter, &n, spec, "delimiter", err));
    step->behaviour = RS_REMOVED;
    return rs_pattern_new(&step->pattern, delimiter, n, false, spec->path, err);
}

/* Older files say add_prefix_space, newer ones prepend_scheme. */
static rs_status read_metaspace(rs_split_step *step, const rs_spec *spec, rs_error *err)
{
    static const char *const names[] = {
        [RS_PREPEND_ALWAYS] = "always", [RS_PREPEND_FIRST] = "first", [RS_PREPEND_NEVER] = "never"};
    bool prefix = true;
    step->split = true;
    RS_TRY(
        rs_spec_character(step->replacement, &step->replacement_length, spec, "replacement", err));
    RS_TRY(rs_spec_bool(&step->split, spec, "split", false, err));
    RS_TRY(rs_spec_bool(&prefix, spec, "add_prefix_space", false, err));
    uint32_t scheme = rs_json_member(spec->json, spec->value, "prepend_scheme");
    step->prepend = prefix ? RS_PREPEND_ALWAYS : RS_PREPEND_NEVER;
    if (scheme == RS_JSON_ABSENT) return RS_OK;
    size_t i = 0;
    while (i < sizeof names / sizeof *names && !rs_json_is(spec->json, scheme, names[i]))
        i++;
    if (i == sizeof names / sizeof *names)
        return rs_spec_fail(spec, "prepend_scheme", err, "must be always, first or never");
    if (!prefix && i != RS_PREPEND_NEVER)
        return rs_spec_fail(spec, "prepend_scheme", err,
                            "contradicts add_prefix_space, which is false");
    step->prepend = (rs_prepend)i;
    return RS_OK;
}

static const struct {
    const char *type;
    rs_split_step step;
    read_step *read; /* NULL: nothing to read */
} kinds[] = {
    {"BertPreTokenizer", {.run = run_bert}, NULL},
    {"ByteLevel", {.run = run_byte_level}, read_byte_level},
    {"CharDelimiterSplit", {.run = run_split}, read_delimiter},
    {"Digits", {.run = run_digits}, read_digits},
    {"Metaspace", {.run = run_metaspace}, read_metaspace},
    {"Punctuation", {.run = run_punctuation}, read_punctuation},
    {"Split", {.run = run_split}, read_split},
    {"Whitespace", {.run = run_split}, read_whitespace},
    {"WhitespaceSplit", {.run = run_space_split}, NULL},
};

static rs_status append_step(rs_split_steps *steps, rs_split_step step, rs_error *err)
{
    if (!RS_GROW(steps->items, steps->n, steps->capacity)) {
        rs_pattern_free(step.pattern);
        return rs_fail_memory(err, "the pre-tokeniser", steps->n * sizeof step);
    }
    steps->items[steps->n++] = step;
    return RS_OK;
}

static rs_status read_one(void *user, const rs_spec *spec, const char *type, rs_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) != 0) continue;
        rs_split_step step = kinds[i].step;
        rs_status status = kinds[i].read ? kinds[i].read(&step, spec, err) : RS_OK;
        if (status == RS_OK) return append_step(user, step, err);
        rs_pattern_free(step.pattern);
        return status;
    }
    return rs_spec_unknown(spec, "pre_tokenizer", type, err);
}

rs_status rs_split_steps_read(rs_split_steps *steps, const rs_spec *spec, rs_error *err)
{
    return rs_spec_flatten(spec, "pretokenizers", read_one, steps, err);
}

rs_status rs_split_steps_bert(rs_split_steps *steps, rs_error *err)
{
    return append_step(steps, (rs_split_step){.run = run_bert}, err);
}

rs_status rs_split_steps_spaces(rs_split_steps *steps, rs_error *err)
{
    return append_step(steps, (rs_split_step){.run = run_space_split}, err);
}

rs_status rs_split_steps_bytes(rs_split_steps *steps, const char *regex, const char *where,
                               rs_error *err)
{
    rs_split_step step = {.run = run_byte_level};
    if (regex) RS_TRY(own_pattern(&step, regex, where, err));
    return append_step(steps, step, err);
}

rs_status rs_split_steps_isolate(rs_split_steps *steps, const char *regex, const char *where,
                                 rs_error *err)
{
    rs_split_step step = {.run = run_split, .behaviour = RS_ISOLATED};
    RS_TRY(own_pattern(&step, regex, where, err));
    return append_step(steps, step, err);
}

rs_status rs_split_steps_digits(rs_split_steps *steps, bool individual, rs_error *err)
{
    return append_step(steps, (rs_split_step){.run = run_digits, .individual = individual}, err);
}

rs_status rs_split_steps_punctuation(rs_split_steps *steps, rs_behaviour behaviour, rs_error *err)
{
    return append_step(steps, (rs_split_step){.run = run_punctuation, .behaviour = behaviour}, err);
}

rs_status rs_split_steps_metaspace(rs_split_steps *steps, rs_prepend prepend, rs_error *err)
{
    rs_split_step step = {.run = run_metaspace, .split = true, .prepend = prepend};
    memcpy(step.replacement, METASPACE, 3);
    step.replacement_length = 3;
    return append_step(steps, step, err);
}

rs_status rs_split_steps_run(rs_aligned *text, rs_pieces *pieces, const rs_split_steps *steps,
                             rs_text_work *work, rs_error *err)
{
    for (size_t i = 0; i < steps->n; i++)
        RS_TRY(steps->items[i].run(text, pieces, &steps->items[i], work, err));
    return RS_OK;
}

void rs_split_steps_free(rs_split_steps *steps)
{
    for (size_t i = 0; i < steps->n; i++)
        rs_pattern_free(steps->items[i].pattern);
    rs_free(steps->items);
    *steps = (rs_split_steps){0};
}
