/* decoder.c: the decoders of tokenizer.json, as rows of a table: from the texts of tokens to the
 * text they stand for. */
#include "base/memory.h"
#include "text/steps.h"

#include <string.h>

#define METASPACE "\xE2\x96\x81"
#define REPLACEMENT "\xEF\xBF\xBD"

/* ---- lists of texts ---- */

void rs_decoded_free(rs_decoded *texts)
{
    rs_buffer_free(&texts->bytes);
    rs_free(texts->ends);
    *texts = (rs_decoded){0};
}

void rs_decoded_end(rs_decoded *texts)
{
    if (texts->failed || !RS_GROW(texts->ends, texts->n, texts->capacity)) {
        texts->failed = true;
        return;
    }
    texts->ends[texts->n++] = texts->bytes.length;
}

static const char *text_at(const rs_decoded *texts, size_t i, size_t *length)
{
    size_t begin = i > 0 ? texts->ends[i - 1] : 0;
    *length = texts->ends[i] - begin;
    return texts->bytes.data ? texts->bytes.data + begin : "";
}

static bool starts(const char *text, size_t length, const char *with, size_t n)
{
    return length >= n && memcmp(text, with, n) == 0;
}

/* ---- steps ---- */

/* Appends bytes that need not be UTF-8, each maximal ill-formed part as U+FFFD. */
static rs_status append_repaired(rs_buffer *out, const char *bytes, size_t n, rs_error *err)
{
    rs_aligned repaired = {0};
    rs_aligned_repair(&repaired, bytes, n);
    if (repaired.n) rs_buffer_append(out, repaired.bytes, repaired.n);
    bool failed = repaired.failed;
    rs_aligned_free(&repaired);
    return failed ? rs_fail_memory(err, "decoding", n) : RS_OK;
}

/* A token with a character that stands for no byte is taken as it is. */
static void append_bytes(rs_buffer *out, const char *text, size_t length)
{
    size_t before = out->length;
    for (size_t i = 0, n; i < length; i += n) {
        int byte = rs_character_byte(rs_char_at(text + i, &n));
        char c = (char)byte;
        if (byte < 0) {
            out->length = before;
            rs_buffer_append(out, text, length);
            return;
        }
        rs_buffer_append(out, &c, 1);
    }
}

static rs_status run_byte_level(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                                rs_text_work *work, rs_error *err)
{
    rs_buffer bytes = {0};
    (void)step;
    (void)work;
    for (size_t i = 0; i < in->n; i++) {
        size_t length;
        const char *text = text_at(in, i, &length);
        append_bytes(&bytes, text, length);
    }
    rs_status status = bytes.failed ? rs_fail_memory(err, "decoding", bytes.length) : RS_OK;
    if (status == RS_OK && bytes.length)
        status = append_repaired(&out->bytes, bytes.data, bytes.length, err);
    rs_buffer_free(&bytes);
    rs_decoded_end(out);
    return status;
}

/* Text with every `from` (of n bytes; none when n is 0) replaced by `to`. */
static void append_replaced(rs_buffer *out, const char *text, size_t length, const char *from,
                            size_t n, const char *to)
{
    for (size_t i = 0; i < length;) {
        bool found = n > 0 && starts(text + i, length - i, from, n);
        if (found)
            rs_buffer_puts(out, to);
        else
            rs_buffer_append(out, text + i, 1);
        i += found ? n : 1;
    }
}

/* Blanks before punctuation and contractions are taken out of each text, rule after rule. */
static rs_status append_cleaned(rs_buffer *out, const char *text, size_t length, rs_error *err)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    rs_buffer now = {0}, next = {0};
    rs_buffer_append(&now, text, length);
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        next.length = 0;
        append_replaced(&next, now.data, now.length, rules[r][0], strlen(rules[r][0]), rules[r][1]);
        rs_buffer swap = now;
        now = next;
        next = swap;
    }
    bool failed = now.failed || next.failed;
    if (now.length) rs_buffer_append(out, now.data, now.length);
    rs_buffer_free(&now);
    rs_buffer_free(&next);
    return failed ? rs_fail_memory(err, "decoding", length) : RS_OK;
}

static rs_status run_wordpiece(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                               rs_text_work *work, rs_error *err)
{
    rs_buffer word = {0};
    rs_status status = RS_OK;
    (void)work;
    for (size_t i = 0; i < in->n && status == RS_OK; i++) {
        size_t length;
        const char *text = text_at(in, i, &length);
        bool continues = i > 0 && starts(text, length, step->content, step->length);
        size_t skipped = continues ? step->length : 0;
        word.length = 0;
        if (i > 0 && !continues) rs_buffer_puts(&word, " ");
        rs_buffer_append(&word, text + skipped, length - skipped);
        if (word.failed)
            status = rs_fail_memory(err, "decoding", length);
        else if (step->cleanup)
            status = append_cleaned(&out->bytes, word.data, word.length, err);
        else
            rs_buffer_append(&out->bytes, word.data, word.length);
        rs_decoded_end(out);
    }
    rs_buffer_free(&word);
    return status;
}

/* The content becomes a blank in texts [first, last), and nothing in the others. */
static rs_status run_blanks(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                            size_t first, size_t last)
{
    for (size_t i = 0; i < in->n; i++) {
        size_t length;
        const char *text = text_at(in, i, &length);
        append_replaced(&out->bytes, text, length, step->content, step->length,
                        i >= first && i < last ? " " : "");
        rs_decoded_end(out);
    }
    return RS_OK;
}

static rs_status run_metaspace(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                               rs_text_work *work, rs_error *err)
{
    (void)work;
    (void)err;
    return run_blanks(out, in, step, step->prepends, in->n);
}

/* BPEDecoder: the suffix that ends a word becomes a blank, none at the end. */
static rs_status run_suffix(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                            rs_text_work *work, rs_error *err)
{
    (void)work;
    (void)err;
    return run_blanks(out, in, step, 0, in->n > 0 ? in->n - 1 : 0);
}

static int hexadecimal(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of "<0x0A>", or -1. */
static int fallback_byte(const char *text, size_t length)
{
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hexadecimal(text[3]), low = hexadecimal(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Bytes in a row are one text when they are UTF-8, else each is U+FFFD. */
static void append_fallback(rs_decoded *out, rs_buffer *bytes)
{
    if (bytes->length == 0) return;
    if (rs_utf8_valid(bytes->data, bytes->length)) {
        rs_buffer_append(&out->bytes, bytes->data, bytes->length);
        rs_decoded_end(out);
    } else {
        for (size_t i = 0; i < bytes->length; i++) {
            rs_buffer_puts(&out->bytes, REPLACEMENT);
            rs_decoded_end(out);
        }
    }
    bytes->length = 0;
}

static rs_status run_byte_fallback(rs_decoded *out, const rs_decoded *in,
                                   const rs_decode_step *step, rs_text_work *work, rs_error *err)
{
    rs_buffer bytes = {0};
    (void)step;
    (void)work;
    for (size_t i = 0; i < in->n; i++) {
        size_t length;
        const char *text = text_at(in, i, &length);
        int byte = fallback_byte(text, length);
        char c = (char)byte;
        if (byte >= 0) {
            rs_buffer_append(&bytes, &c, 1);
            continue;
        }
        append_fallback(out, &bytes);
        rs_buffer_append(&out->bytes, text, length);
        rs_decoded_end(out);
    }
    append_fallback(out, &bytes);
    bool failed = bytes.failed;
    rs_buffer_free(&bytes);
    return failed ? rs_fail_memory(err, "decoding", in->n) : RS_OK;
}

static rs_status run_replace(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                             rs_text_work *work, rs_error *err)
{
    for (size_t i = 0; i < in->n; i++) {
        size_t length;
        const char *text = text_at(in, i, &length);
        work->spans.n = 0;
        RS_TRY(rs_pattern_cut(&work->spans, step->pattern, &work->searcher, text, 0, length, err));
        for (size_t k = 0; k < work->spans.n; k++) {
            const rs_text_span *span = &work->spans.items[k];
            if (span->match)
                rs_buffer_append(&out->bytes, step->content, step->length);
            else
                rs_buffer_append(&out->bytes, text + span->begin, span->end - span->begin);
            if (out->bytes.length > out->limit)
                return rs_fail(err, RS_E_TOKENIZER_LIMIT, "tokenizer", NULL,
                               "a decoded text grows beyond %zu bytes", out->limit);
        }
        rs_decoded_end(out);
    }
    return RS_OK;
}

static rs_status run_fuse(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                          rs_text_work *work, rs_error *err)
{
    (void)step;
    (void)work;
    (void)err;
    if (in->bytes.length) rs_buffer_append(&out->bytes, in->bytes.data, in->bytes.length);
    rs_decoded_end(out);
    return RS_OK;
}

static rs_status run_strip(rs_decoded *out, const rs_decoded *in, const rs_decode_step *step,
                           rs_text_work *work, rs_error *err)
{
    (void)work;
    (void)err;
    for (size_t i = 0; i < in->n; i++) {
        size_t length;
        const char *text = text_at(in, i, &length);
        size_t n = step->length;
        for (int64_t k = 0; k < step->start && starts(text, length, step->content, n); k++)
            text += n, length -= n;
        for (int64_t k = 0;
             k < step->stop && length >= n && memcmp(text + length - n, step->content, n) == 0; k++)
            length -= n;
        rs_buffer_append(&out->bytes, text, length);
        rs_decoded_end(out);
    }
    return RS_OK;
}

/* ---- reading ---- */

typedef rs_status read_step(rs_decode_step *step, const rs_spec *spec, rs_error *err);

static rs_status read_wordpiece(rs_decode_step *step, const rs_spec *spec, rs_error *err)
{
    RS_TRY(rs_spec_bool(&step->cleanup, spec, "cleanup", true, err));
    return rs_spec_copy(&step->content, &step->length, spec, "prefix", true, err);
}

static rs_status own_content(rs_decode_step *step, const char *text, size_t length, rs_error *err)
{
    step->content = rs_malloc(length + 1, 1);
    if (!step->content) return rs_fail_memory(err, "the decoder", length);
    memcpy(step->content, text, length);
    step->content[length] = 0;
    step->length = length;
    return RS_OK;
}

static rs_status read_metaspace(rs_decode_step *step, const rs_spec *spec, rs_error *err)
{
    char mark[4];
    size_t n;
    step->prepends = true;
    RS_TRY(rs_spec_character(mark, &n, spec, "replacement", err));
    RS_TRY(rs_spec_bool(&step->prepends, spec, "add_prefix_space", false, err));
    uint32_t scheme = rs_json_member(spec->json, spec->value, "prepend_scheme");
    if (scheme != RS_JSON_ABSENT) step->prepends = !rs_json_is(spec->json, scheme, "never");
    return own_content(step, mark, n, err);
}

static rs_status read_replace(rs_decode_step *step, const rs_spec *spec, rs_error *err)
{
    RS_TRY(rs_spec_pattern(&step->pattern, spec, "pattern", err));
    return rs_spec_copy(&step->content, &step->length, spec, "content", true, err);
}

static rs_status read_strip(rs_decode_step *step, const rs_spec *spec, rs_error *err)
{
    char content[4];
    size_t n;
    RS_TRY(rs_spec_character(content, &n, spec, "content", err));
    RS_TRY(rs_spec_integer(&step->start, spec, "start", true, err));
    RS_TRY(rs_spec_integer(&step->stop, spec, "stop", true, err));
    return own_content(step, content, n, err);
}

static rs_status read_suffix(rs_decode_step *step, const rs_spec *spec, rs_error *err)
{
    return rs_spec_copy(&step->content, &step->length, spec, "suffix", true, err);
}

static const struct {
    const char *type;
    rs_decode_step step;
    read_step *read;
} kinds[] = {
    {"ByteLevel", {.run = run_byte_level}, NULL},
    {"WordPiece", {.run = run_wordpiece}, read_wordpiece},
    {"Metaspace", {.run = run_metaspace}, read_metaspace},
    {"ByteFallback", {.run = run_byte_fallback}, NULL},
    {"Replace", {.run = run_replace}, read_replace},
    {"Fuse", {.run = run_fuse}, NULL},
    {"Strip", {.run = run_strip}, read_strip},
    {"BPEDecoder", {.run = run_suffix}, read_suffix},
};

static void free_step(rs_decode_step *step)
{
    rs_pattern_free(step->pattern);
    rs_free(step->content);
}

static rs_status append_step(rs_decode_steps *steps, rs_decode_step step, rs_error *err)
{
    if (!RS_GROW(steps->items, steps->n, steps->capacity)) {
        free_step(&step);
        return rs_fail_memory(err, "the decoder", steps->n * sizeof step);
    }
    steps->items[steps->n++] = step;
    return RS_OK;
}

static rs_status read_one(void *user, const rs_spec *spec, const char *type, rs_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) != 0) continue;
        rs_decode_step step = kinds[i].step;
        rs_status status = kinds[i].read ? kinds[i].read(&step, spec, err) : RS_OK;
        if (status == RS_OK) return append_step(user, step, err);
        free_step(&step);
        return status;
    }
    return rs_spec_unknown(spec, "decoder", type, err);
}

rs_status rs_decode_steps_read(rs_decode_steps *steps, const rs_spec *spec, rs_error *err)
{
    return rs_spec_flatten(spec, "decoders", read_one, steps, err);
}

/* ---- by hand ---- */

static rs_status with_content(rs_decode_steps *steps, rs_decode_step step, const char *content,
                              rs_error *err)
{
    rs_status status = own_content(&step, content, strlen(content), err);
    if (status == RS_OK) return append_step(steps, step, err);
    free_step(&step);
    return status;
}

rs_status rs_decode_steps_bytes(rs_decode_steps *steps, rs_error *err)
{
    return append_step(steps, (rs_decode_step){.run = run_byte_level}, err);
}

rs_status rs_decode_steps_wordpiece(rs_decode_steps *steps, rs_error *err)
{
    return with_content(steps, (rs_decode_step){.run = run_wordpiece, .cleanup = true}, "##", err);
}

rs_status rs_decode_steps_sentencepiece(rs_decode_steps *steps, bool strip_first, rs_error *err)
{
    rs_decode_step replace = {.run = run_replace};
    RS_TRY(rs_pattern_new(&replace.pattern, METASPACE, 3, false, "decoder", err));
    RS_TRY(with_content(steps, replace, " ", err));
    RS_TRY(append_step(steps, (rs_decode_step){.run = run_byte_fallback}, err));
    RS_TRY(append_step(steps, (rs_decode_step){.run = run_fuse}, err));
    return strip_first
               ? with_content(steps, (rs_decode_step){.run = run_strip, .start = 1}, " ", err)
               : RS_OK;
}

/* ---- all steps ---- */

rs_status rs_decode_steps_run(rs_decoded *texts, const rs_decode_steps *steps, rs_text_work *work,
                              rs_error *err)
{
    for (size_t i = 0; i < steps->n; i++) {
        rs_decoded out = {.limit = texts->limit};
        rs_status status = steps->items[i].run(&out, texts, &steps->items[i], work, err);
        if (status == RS_OK && (out.failed || out.bytes.failed))
            status = rs_fail_memory(err, "decoding", texts->bytes.length);
        rs_decoded_free(texts);
        *texts = out;
        RS_TRY(status);
    }
    return RS_OK;
}

void rs_decode_steps_free(rs_decode_steps *steps)
{
    for (size_t i = 0; i < steps->n; i++)
        free_step(&steps->items[i]);
    rs_free(steps->items);
    *steps = (rs_decode_steps){0};
}
