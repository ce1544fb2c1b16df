/* inputs_texts.c: samples from texts: each file is cut into windows of its own, and none spans two.
 */
#include "base/mapping.h"
#include "base/memory.h"
#include "observe/inputs_parts.h"

/* ---- windows ---- */

/* What surrounds each window. */
typedef struct frame {
    const int32_t *before, *after;
    size_t n_before, n_after;
} frame;

/* What all texts of a run are cut by. */
typedef struct cutting {
    rs_inputs *in;
    const rs_input_source *source;
    const rs_network *network;
    const rs_tokenizer *tokenizer;
    frame frame;
    int64_t body; /* tokens of a window that the text fills */
} cutting;

/* Makes room behind the samples so far for so many more, of n tokens each. */
static rs_status add_windows(rs_inputs *in, int64_t samples, int64_t n, const char *where,
                             rs_error *err)
{
    int64_t held = in->samples, rows = held ? in->begin[held] : 0;
    size_t more = 0, ids = 0;
    bool fits = rs_size_mul((size_t)samples, (size_t)n, &more) &&
                rs_size_add((size_t)rows, more, &ids) && ids <= INT64_MAX;
    int64_t *begin =
        fits ? rs_realloc(in->begin, (size_t)(held + samples) + 1, sizeof *begin) : NULL;
    if (!begin) return rs_fail_memory(err, where, (size_t)samples * sizeof *begin);
    in->begin = begin;
    int32_t *grown = rs_realloc(in->ids, ids, sizeof *grown);
    if (!grown) return rs_fail_memory(err, where, ids * sizeof *grown);
    in->ids = grown;
    for (int64_t s = 0; s <= samples; s++)
        begin[held + s] = rows + s * n;
    in->samples = held + samples;
    return RS_OK;
}

static rs_status fill_window(const cutting *c, int64_t sample, const int32_t *ids, int64_t body,
                             const char *where, rs_error *err)
{
    const rs_inputs *in = c->in;
    const struct {
        const int32_t *ids;
        size_t n;
    } parts[] = {{c->frame.before, c->frame.n_before},
                 {ids, (size_t)body},
                 {c->frame.after, c->frame.n_after}};
    int64_t begin = in->begin[sample], at = begin;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        for (size_t i = 0; i < parts[p].n; i++, at++)
            RS_TRY(rs_input_id(&in->ids[at], parts[p].ids[i], sample, at - begin, c->network, where,
                               err));
    return RS_OK;
}

/* What is no window, or one too many, is said; of several texts by name. */
static rs_status note_left_out(const cutting *c, const rs_input_text *text, int64_t body,
                               rs_error *err)
{
    bool several = c->source->n_texts > 1;
    int64_t used = text->samples * body, special = (int64_t)(c->frame.n_before + c->frame.n_after);
    if (used >= text->tokens) return RS_OK;
    return rs_notes_say(&c->in->notes, err, RS_INFO, "text_left_out", NULL,
                        "%s%s%lld of the text's %lld tokens were used: %lld whole windows of %lld "
                        "(%lld of them special tokens)",
                        several ? text->file : "", several ? ": " : "", (long long)used,
                        (long long)text->tokens, (long long)text->samples,
                        (long long)(body + special), (long long)special);
}

/* Adds windows of `body` tokens each: all whole ones, or the one that a short text leaves. */
static rs_status cut(const cutting *c, const rs_token_ids *ids, const char *file, rs_error *err)
{
    rs_inputs *in = c->in;
    int64_t total = (int64_t)ids->n, body = c->body, whole = total / body, first = in->samples;
    if (total == 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, file, "give a text with words in it",
                       "the text is empty");
    if (whole == 0) whole = 1, body = total;
    int64_t samples = rs_input_wanted_samples(c->source, whole);
    RS_TRY(add_windows(in, samples, body + (int64_t)(c->frame.n_before + c->frame.n_after), file,
                       err));
    for (int64_t s = 0; s < samples; s++)
        RS_TRY(fill_window(c, first + s, ids->ids + s * body, body, file, err));
    in->tokens_in_text += total;
    in->texts[in->n_texts] = (rs_input_text){file, first, samples, total};
    return note_left_out(c, &in->texts[in->n_texts++], body, err);
}

/* ---- files ---- */

static rs_status add_text(const cutting *c, const char *path, rs_error *err)
{
    rs_mapping *file;
    RS_TRY(rs_mapping_open(&file, path, err));
    rs_token_ids ids = {0};
    rs_status status =
        rs_tokenizer_encode(&ids, c->tokenizer, (const char *)file->data, file->size, false, err);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    if (status == RS_OK) status = cut(c, &ids, path, err);
    rs_token_ids_free(&ids);
    rs_mapping_close(file);
    return status;
}

/* Sets the frame of a window and what is left for the text in it. */
static rs_status set_window(cutting *c, rs_error *err)
{
    int64_t n;
    frame *f = &c->frame;
    rs_tokenizer_specials(c->tokenizer, &f->before, &f->n_before, &f->after, &f->n_after);
    RS_TRY(rs_input_length(&n, c->source, c->network, "--seq-len", err));
    c->body = n - (int64_t)(f->n_before + f->n_after);
    if (c->body < 1)
        return rs_fail(err, RS_E_BAD_OPTION, "--seq-len", "raise it",
                       "windows of %lld tokens have no room beside the model's %zu special tokens",
                       (long long)n, f->n_before + f->n_after);
    return RS_OK;
}

rs_status rs_input_texts(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                         const rs_tokenizer *tokenizer, rs_error *err)
{
    cutting c = {.in = in, .source = source, .network = network, .tokenizer = tokenizer};
    if (!tokenizer)
        return rs_fail(err, RS_E_UNSUPPORTED, "--text", "give --tokens FILE or --random SAMPLES",
                       "this model comes without a tokenizer");
    RS_TRY(set_window(&c, err));
    in->texts = rs_calloc(source->n_texts, sizeof *in->texts);
    if (!in->texts) return rs_fail_memory(err, "texts", source->n_texts * sizeof *in->texts);
    for (size_t i = 0; i < source->n_texts; i++)
        RS_TRY(add_text(&c, source->texts[i], err));
    return RS_OK;
}

/* ---- table texts ---- */

/* A row of it. */
typedef struct text_row {
    int64_t text;
    const char *file;
    int64_t first_sample, samples, tokens, tokens_in_text;
} text_row;

static const rs_column columns[] = {
    {.name = "text", RS_CELL(text_row, text), .formula = RS_TEXT_NUMBER},
    {.name = "file", RS_CELL(text_row, file), .formula = RS_TEXT_FILE},
    {.name = "first_sample",
     RS_CELL(text_row, first_sample),
     .formula = "its samples are numbered from here on: first_sample <= sample < first_sample + "
                "samples"},
    {.name = "samples", RS_CELL(text_row, samples), .formula = "windows that were cut from it"},
    {.name = "tokens",
     RS_CELL(text_row, tokens),
     .formula = "of its samples, special tokens included"},
    {.name = "tokens_in_text",
     RS_CELL(text_row, tokens_in_text),
     .formula = "of the whole file, without special tokens"},
};
const rs_table_kind rs_probe_texts_kind = {"probe", "texts", {RS_PART(columns)}},
                    rs_certify_texts_kind = {"certify", "texts", {RS_PART(columns)}},
                    rs_paths_texts_kind = {"paths", "texts", {RS_PART(columns)}};

rs_status rs_input_texts_table(rs_result *result, const rs_inputs *inputs, rs_error *err)
{
    rs_table *table;
    if (inputs->n_texts < 2) return RS_OK;
    RS_TRY(rs_result_add_table(result, "texts", "Texts", "Which samples come from which text",
                               columns, sizeof columns / sizeof *columns, &table, err));
    for (size_t i = 0; i < inputs->n_texts; i++) {
        const rs_input_text *t = &inputs->texts[i];
        int64_t tokens = inputs->begin[t->first + t->samples] - inputs->begin[t->first];
        const text_row row = {(int64_t)i, t->file, t->first, t->samples, tokens, t->tokens};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}
