/* normalizer.c: the normalisers of tokenizer.json, as rows of a table. */
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>

/* ---- running ---- */

static rs_status done(const rs_aligned *out, rs_error *err)
{
    return rs_aligned_check(out, err);
}

/* Passes `in` on character by character; `change` says what each becomes. */
typedef size_t change(uint32_t out[3], uint32_t point, const rs_normal_step *step);

static rs_status each_character(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                                change *to, rs_error *err)
{
    size_t plain = 0, n;
    for (size_t i = 0; i < in->n; i += n) {
        uint32_t point = rs_char_at(in->bytes + i, &n), becomes[3];
        size_t count = to(becomes, point, step);
        if (count == 1 && becomes[0] == point) continue;
        rs_aligned_copy(out, in, plain, i - plain);
        plain = i + n;
        for (size_t k = 0; k < count; k++) {
            char bytes[4];
            rs_aligned_put(out, in, i, i + n, bytes, rs_char_put(bytes, becomes[k]));
        }
    }
    rs_aligned_copy(out, in, plain, in->n - plain);
    return done(out, err);
}

static size_t clean(uint32_t out[3], uint32_t point, const rs_normal_step *step)
{
    out[0] = point;
    if (point >= 0x20 && point < 0x7F) return 1;
    if (step->clean && rs_char_in(RS_CHAR_CONTROL, point)) return 0;
    if (step->clean && rs_char_is_space(point)) out[0] = ' ';
    if (!step->cjk || !rs_char_is_cjk(point)) return 1;
    out[0] = out[2] = ' ';
    out[1] = point;
    return 3;
}

static size_t plain_lower(uint32_t out[3], uint32_t point, const rs_normal_step *step)
{
    if (step->accents && point >= 0x300 && rs_char_in(RS_CHAR_ACCENT, point)) return 0;
    if (step->lower) return rs_char_lower(out, point);
    out[0] = point;
    return 1;
}

static rs_status run_bert(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                          rs_text_work *work, rs_error *err)
{
    rs_aligned middle = {.limit = out->limit};
    rs_status status = each_character(out, in, step, clean, err);
    if (status == RS_OK && step->accents) {
        status = rs_normal_form(&middle, out, RS_NFD, &work->forms, err);
        if (status == RS_OK) status = done(&middle, err);
    }
    if (status == RS_OK && (step->accents || step->lower)) {
        if (!step->accents) rs_aligned_copy(&middle, out, 0, out->n);
        rs_aligned_clear(out);
        status = each_character(out, &middle, step, plain_lower, err);
    }
    rs_aligned_free(&middle);
    return status;
}

static rs_status run_lower(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                           rs_text_work *work, rs_error *err)
{
    (void)work;
    return each_character(out, in, step, plain_lower, err);
}

static size_t no_mark(uint32_t out[3], uint32_t point, const rs_normal_step *step)
{
    out[0] = point;
    return point < 0x300 || !rs_char_in(step->class, point);
}

static rs_status run_strip_accents(rs_aligned *out, const rs_aligned *in,
                                   const rs_normal_step *step, rs_text_work *work, rs_error *err)
{
    (void)work;
    return each_character(out, in, step, no_mark, err);
}

/* SentencePiece's rules of the name nmt_nfkc that its table does not hold. */
static size_t nmt(uint32_t out[3], uint32_t point, const rs_normal_step *step)
{
    (void)step;
    out[0] = point;
    if (point >= 0x20 && point < 0x7F) return 1;
    if (point == 9 || point == 10 || point == 12 || point == 13 || point == 0x1680 ||
        (point >= 0x200B && point <= 0x200F) || point == 0x2028 || point == 0x2029 ||
        point == 0x2581 || point == 0xFEFF || point == 0xFFFD)
        out[0] = ' ';
    else if ((point >= 1 && point < 0x20) || point == 0x7F || point == 0x8F || point == 0x9F)
        return 0;
    return 1;
}

static rs_status run_nmt(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                         rs_text_work *work, rs_error *err)
{
    (void)work;
    return each_character(out, in, step, nmt, err);
}

static rs_status run_form(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                          rs_text_work *work, rs_error *err)
{
    RS_TRY(rs_normal_form(out, in, step->form, &work->forms, err));
    return done(out, err);
}

static rs_status run_strip(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                           rs_text_work *work, rs_error *err)
{
    size_t begin = 0, end = 0, n;
    (void)work;
    bool inside = !step->left; /* behind the blanks at the left */
    for (size_t i = 0; i < in->n; i += n) {
        bool space = rs_char_is_space(rs_char_at(in->bytes + i, &n));
        if (!inside && space) begin = i + n;
        if (!space) inside = true;
        if (!space || !step->right) end = i + n;
    }
    if (end > begin) rs_aligned_copy(out, in, begin, end - begin);
    return done(out, err);
}

static rs_status run_replace(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                             rs_text_work *work, rs_error *err)
{
    rs_text_spans *spans = &work->spans;
    spans->n = 0;
    const char *bytes = in->n ? in->bytes : "";
    RS_TRY(rs_pattern_cut(spans, step->pattern, &work->searcher, bytes, 0, in->n, err));
    for (size_t i = 0; i < spans->n; i++) {
        const rs_text_span *span = &spans->items[i];
        if (span->match)
            rs_aligned_put(out, in, span->begin, span->end, step->content, step->length);
        else
            rs_aligned_copy(out, in, span->begin, span->end - span->begin);
    }
    spans->n = 0;
    return done(out, err);
}

static rs_status run_prepend(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                             rs_text_work *work, rs_error *err)
{
    (void)work;
    if (in->n > 0) rs_aligned_put(out, in, 0, 0, step->content, step->length);
    rs_aligned_copy(out, in, 0, in->n);
    return done(out, err);
}

static rs_status run_charsmap(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                              rs_text_work *work, rs_error *err)
{
    (void)work;
    rs_charsmap_run(out, in, step->map);
    return done(out, err);
}

static rs_status run_bytes(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                           rs_text_work *work, rs_error *err)
{
    (void)step;
    (void)work;
    for (size_t i = 0; i < in->n; i++) {
        char bytes[4];
        size_t n = rs_char_put(bytes, rs_byte_character((unsigned char)in->bytes[i]));
        rs_aligned_put(out, in, i, i + 1, bytes, n);
    }
    return done(out, err);
}

/* ---- reading ---- */

typedef rs_status read_step(rs_normal_step *step, const rs_spec *spec, rs_error *err);

static rs_status read_bert(rs_normal_step *step, const rs_spec *spec, rs_error *err)
{
    step->clean = step->cjk = step->lower = true;
    RS_TRY(rs_spec_bool(&step->clean, spec, "clean_text", false, err));
    RS_TRY(rs_spec_bool(&step->cjk, spec, "handle_chinese_chars", false, err));
    RS_TRY(rs_spec_bool(&step->lower, spec, "lowercase", false, err));
    step->accents = step->lower; /* when strip_accents is null */
    return rs_spec_bool(&step->accents, spec, "strip_accents", false, err);
}

static rs_status read_strip(rs_normal_step *step, const rs_spec *spec, rs_error *err)
{
    RS_TRY(rs_spec_bool(&step->left, spec, "strip_left", true, err));
    return rs_spec_bool(&step->right, spec, "strip_right", true, err);
}

static rs_status read_replace(rs_normal_step *step, const rs_spec *spec, rs_error *err)
{
    RS_TRY(rs_spec_pattern(&step->pattern, spec, "pattern", err));
    return rs_spec_copy(&step->content, &step->length, spec, "content", true, err);
}

static rs_status read_prepend(rs_normal_step *step, const rs_spec *spec, rs_error *err)
{
    return rs_spec_copy(&step->content, &step->length, spec, "prepend", true, err);
}

static rs_status read_charsmap(rs_normal_step *step, const rs_spec *spec, rs_error *err)
{
    const char *text = NULL;
    size_t length = 0;
    RS_TRY(rs_spec_text(&text, &length, spec, "precompiled_charsmap", true, err));
    return rs_charsmap_parse(&step->map, text, length, spec->json->name, err);
}

static const struct {
    const char *type;
    rs_normal_step step;
    read_step *read; /* NULL: nothing to read */
} kinds[] = {
    {"BertNormalizer", {.run = run_bert}, read_bert},
    {"NFC", {.run = run_form, .form = RS_NFC}, NULL},
    {"NFD", {.run = run_form, .form = RS_NFD}, NULL},
    {"NFKC", {.run = run_form, .form = RS_NFKC}, NULL},
    {"NFKD", {.run = run_form, .form = RS_NFKD}, NULL},
    {"Lowercase", {.run = run_lower, .lower = true}, NULL},
    {"Strip", {.run = run_strip}, read_strip},
    {"StripAccents", {.run = run_strip_accents, .class = RS_CHAR_MARK}, NULL},
    {"Replace", {.run = run_replace}, read_replace},
    {"Prepend", {.run = run_prepend}, read_prepend},
    {"Precompiled", {.run = run_charsmap}, read_charsmap},
    {"Nmt", {.run = run_nmt}, NULL},
    {"ByteLevel", {.run = run_bytes}, NULL},
};

static void free_step(rs_normal_step *step)
{
    rs_pattern_free(step->pattern);
    rs_charsmap_free(step->map);
    rs_free(step->content);
}

/* Takes over what the step owns, also on failure. */
static rs_status append_step(rs_normal_steps *steps, rs_normal_step step, rs_error *err)
{
    if (!RS_GROW(steps->items, steps->n, steps->capacity)) {
        free_step(&step);
        return rs_fail_memory(err, "the normaliser", steps->n * sizeof step);
    }
    steps->items[steps->n++] = step;
    return RS_OK;
}

static rs_status read_one(void *user, const rs_spec *spec, const char *type, rs_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) != 0) continue;
        rs_normal_step step = kinds[i].step;
        rs_status status = kinds[i].read ? kinds[i].read(&step, spec, err) : RS_OK;
        if (status == RS_OK) return append_step(user, step, err);
        free_step(&step);
        return status;
    }
    return rs_spec_unknown(spec, "normalizer", type, err);
}

rs_status rs_normal_steps_read(rs_normal_steps *steps, const rs_spec *spec, rs_error *err)
{
    return rs_spec_flatten(spec, "normalizers", read_one, steps, err);
}

/* ---- by hand ---- */

rs_status rs_normal_steps_bert(rs_normal_steps *steps, rs_error *err)
{
    rs_normal_step step = {
        .run = run_bert, .clean = true, .cjk = true, .accents = true, .lower = true};
    return append_step(steps, step, err);
}

rs_status rs_normal_steps_form(rs_normal_steps *steps, rs_text_form form, rs_error *err)
{
    return append_step(steps, (rs_normal_step){.run = run_form, .form = form}, err);
}

static rs_status run_settled(rs_aligned *out, const rs_aligned *in, const rs_normal_step *step,
                             rs_text_work *work, rs_error *err)
{
    RS_TRY(run_form(out, in, step, work, err));
    size_t at = 0;
    while (at < out->n && at < in->n && out->bytes[at] == in->bytes[at])
        at++;
    if (at == out->n && at == in->n) return RS_OK;
    return rs_fail(
        err, RS_E_TOKENIZER_TEXT, step->content,
        "put the text in NFC first: for such a text both are the same",
        "the text is not in NFC (byte %zu), and whether the tokenizer '%s' puts it there "
        "is not known",
        at < in->n ? rs_aligned_begin(in, at) : at, step->content);
}

rs_status rs_normal_steps_charsmap(rs_normal_steps *steps, rs_charsmap *map, rs_error *err)
{
    return append_step(steps, (rs_normal_step){.run = run_charsmap, .map = map}, err);
}

static rs_status with_content(rs_normal_steps *steps, rs_normal_step step, const char *content,
                              rs_error *err)
{
    step.content = rs_strdup(content);
    step.length = strlen(content);
    if (step.content) return append_step(steps, step, err);
    free_step(&step);
    return rs_fail_memory(err, "the normaliser", step.length);
}

rs_status rs_normal_steps_settled(rs_normal_steps *steps, const char *name, rs_error *err)
{
    return with_content(steps, (rs_normal_step){.run = run_settled, .form = RS_NFC}, name, err);
}

rs_status rs_normal_steps_prepend(rs_normal_steps *steps, const char *content, rs_error *err)
{
    return with_content(steps, (rs_normal_step){.run = run_prepend}, content, err);
}

rs_status rs_normal_steps_replace(rs_normal_steps *steps, const char *from, const char *to,
                                  rs_error *err)
{
    rs_normal_step step = {.run = run_replace};
    RS_TRY(rs_pattern_new(&step.pattern, from, strlen(from), false, "normalizer", err));
    return with_content(steps, step, to, err);
}

/* ---- all steps ---- */

rs_status rs_normal_steps_run(rs_aligned *text, const rs_normal_steps *steps, rs_text_work *work,
                              rs_error *err)
{
    for (size_t i = 0; i < steps->n; i++) {
        rs_aligned *out = &work->spare;
        rs_aligned_clear(out);
        RS_TRY(steps->items[i].run(out, text, &steps->items[i], work, err));
        rs_aligned swap = *text;
        *text = *out;
        *out = swap;
    }
    return RS_OK;
}

void rs_normal_steps_free(rs_normal_steps *steps)
{
    for (size_t i = 0; i < steps->n; i++)
        free_step(&steps->items[i]);
    rs_free(steps->items);
    *steps = (rs_normal_steps){0};
}

void rs_text_work_free(rs_text_work *work)
{
    rs_searcher_free(&work->searcher);
    rs_free(work->spans.items);
    rs_free(work->forms.items);
    rs_free(work->forms.spare);
    rs_aligned_free(&work->spare);
    rs_pieces_free(&work->spare_pieces);
    *work = (rs_text_work){0};
}
