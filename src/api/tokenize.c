/* tokenize.c: rs_tokenize. */
#include "api/check.h"
#include "api/command.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "text/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- tables ---- */

/* A row of table ids. */
typedef struct id_row {
    int64_t text, position;
    int32_t id;
    const char *token;
    int64_t begin, end;
} id_row;
static const rs_column id_columns[] = {
    {.name = "position", RS_CELL(id_row, position), .formula = "place in the sequence, from 0"},
    {.name = "id", RS_CELL(id_row, id)},
    {.name = "token", RS_CELL(id_row, token), .formula = "as the vocabulary spells it"},
    {.name = "begin",
     RS_CELL(id_row, begin),
     .unit = "bytes",
     .formula = "where its part of the text begins"},
    {.name = "end",
     RS_CELL(id_row, end),
     .unit = "bytes",
     .formula = "behind its last byte; begin = end for tokens that were added"},
};
/* In front of them where there are several texts. */
static const rs_column text_of_id[] = {
    {.name = "text", RS_CELL(id_row, text), .formula = RS_TEXT_NUMBER},
};
const rs_table_kind rs_tokenize_ids_kind = {
    "tokenize", "ids", {RS_PART(text_of_id), RS_PART(id_columns)}};

/* A row of table summary: a text. */
typedef struct summary_row {
    int64_t text;
    const char *file;
    int64_t tokens, added, bytes;
    double bytes_per_token;
    int64_t vocabulary;
} summary_row;
static const rs_column summary_columns[] = {
    {.name = "tokens", RS_CELL(summary_row, tokens)},
    {.name = "added", RS_CELL(summary_row, added), .formula = "special tokens around the text"},
    {.name = "bytes", RS_CELL(summary_row, bytes), .unit = "bytes"},
    {.name = "bytes_per_token",
     RS_CELL(summary_row, bytes_per_token),
     .formula = "bytes / (tokens - added)"},
    {.name = "vocabulary", RS_CELL(summary_row, vocabulary), .formula = "largest id + 1"},
};
static const rs_column text_of_summary[] = {
    {.name = "text", RS_CELL(summary_row, text), .formula = RS_TEXT_NUMBER},
    {.name = "file", RS_CELL(summary_row, file), .formula = RS_TEXT_FILE},
};
const rs_table_kind rs_tokenize_summary_kind = {
    "tokenize", "summary", {RS_PART(text_of_summary), RS_PART(summary_columns)}};

/* The terminal shows a table of so many tokens unasked; of a longer text,
 * the beginning in words. */
enum { MOST_SHOWN = 100, FIRST_SHOWN = 24, LONGEST_SHOWN = 40 };

/* The texts that were tokenised so far, and the tables that have them. */
typedef struct filling {
    rs_result *result;
    const rs_tokenizer *tokenizer;
    bool special;
    size_t n_texts, done; /* texts in all, and in the tables */
    rs_table *ids, *summary;
    size_t tokens, bytes;
    int32_t first[FIRST_SHOWN]; /* [n_first] the beginning of the first text */
    size_t n_first;
} filling;

/* The first columns stand where there are several texts. */
static rs_status add_table(filling *f, const char *name, const char *title, const char *about,
                           const rs_table_kind *kind, rs_table **out, rs_error *err)
{
    rs_column columns[16];
    size_t n = 0;
    for (size_t p = f->n_texts > 1 ? 0 : 1; p < 2; p++)
        for (size_t c = 0; c < kind->parts[p].n; c++)
            columns[n++] = kind->parts[p].columns[c];
    return rs_result_add_table(f->result, name, title, about, columns, n, out, err);
}

static rs_status add_tables(filling *f, rs_error *err)
{
    RS_TRY(add_table(f, "summary", "Summary", "The text and its tokens", &rs_tokenize_summary_kind,
                     &f->summary, err));
    return add_table(f, "ids", "Token ids", "The sequence that the model sees",
                     &rs_tokenize_ids_kind, &f->ids, err);
}

static rs_status append_ids(const filling *f, const rs_token_ids *ids, rs_error *err)
{
    for (size_t i = 0; i < ids->n; i++) {
        const id_row row = {(int64_t)f->done,
                            (int64_t)i,
                            ids->ids[i],
                            rs_tokenizer_token(f->tokenizer, ids->ids[i]),
                            (int64_t)ids->begin[i],
                            (int64_t)ids->end[i]};
        RS_TRY(rs_table_append(f->ids, &row, err));
    }
    return RS_OK;
}

static rs_status append_summary(const filling *f, const char *file, const rs_token_ids *ids,
                                size_t bytes, rs_error *err)
{
    size_t before, after;
    const int32_t *first, *last;
    rs_tokenizer_specials(f->tokenizer, &first, &before, &last, &after);
    size_t added = f->special ? before + after : 0;
    const summary_row row = {(int64_t)f->done,
                             file,
                             (int64_t)ids->n,
                             (int64_t)added,
                             (int64_t)bytes,
                             ids->n > added ? (double)bytes / (double)(ids->n - added) : NAN,
                             rs_tokenizer_vocabulary(f->tokenizer)};
    return rs_table_append(f->summary, &row, err);
}

/* ---- what is said of them ---- */

static rs_status add_beginning(const filling *f, rs_error *err)
{
    char message[512], count[64] = "tokens, which begin";
    if (f->n_texts > 1)
        snprintf(count, sizeof count, "tokens of %zu texts; the first begins", f->n_texts);
    int used = snprintf(message, sizeof message, "%zu %s:", f->tokens, count);
    for (size_t i = 0; i < f->n_first && used < (int)sizeof message - 64; i++) {
        const char *token = rs_tokenizer_token(f->tokenizer, f->first[i]);
        if (!token) token = "(no such token)";
        size_t length = strnlen(token, LONGEST_SHOWN);
        while (length > 0 && ((unsigned char)token[length] & 0xC0) == 0x80)
            length--; /* cut between characters */
        used +=
            snprintf(message + used, sizeof message - (size_t)used, " %.*s", (int)length, token);
    }
    rs_finding finding = rs_finding_of(RS_INFO, "long_text");
    finding.message = message;
    finding.hint = "--table ids shows them all";
    finding.table = "ids";
    return rs_result_add_finding(f->result, &finding, err);
}

static rs_status answer(const filling *f, rs_error *err)
{
    char text[200], of[48] = "";
    if (f->n_texts > 1) snprintf(of, sizeof of, " in %zu texts", f->n_texts);
    snprintf(text, sizeof text, "%zu byte%s%s are %zu token%s of a vocabulary of %lld.", f->bytes,
             f->bytes == 1 ? "" : "s", of, f->tokens, f->tokens == 1 ? "" : "s",
             (long long)rs_tokenizer_vocabulary(f->tokenizer));
    const rs_verdict verdict = {.answer = text,
                                .code = "tokens",
                                .severity = RS_INFO,
                                .value = (double)f->tokens,
                                .threshold = NAN,
                                .next = NULL};
    return rs_result_set_verdict(f->result, &verdict, err);
}

static rs_status finish(const filling *f, rs_error *err)
{
    RS_TRY(answer(f, err));
    if (f->tokens > MOST_SHOWN) return add_beginning(f, err);
    /* A short table is shown unasked: it is what this command is for. */
    rs_result_show(f->result, "ids");
    return RS_OK;
}

/* ---- encoding ---- */

static rs_status append(filling *f, const char *file, const rs_token_ids *ids, size_t bytes,
                        rs_error *err)
{
    RS_TRY(append_summary(f, file, ids, bytes, err));
    RS_TRY(append_ids(f, ids, err));
    f->tokens += ids->n;
    f->bytes += bytes;
    if (f->done++ > 0) return RS_OK;
    f->n_first = ids->n < FIRST_SHOWN ? ids->n : FIRST_SHOWN;
    if (f->n_first) memcpy(f->first, ids->ids, f->n_first * sizeof *f->first);
    return RS_OK;
}

static rs_status encode(filling *f, const char *file, const char *bytes, size_t n, rs_error *err)
{
    rs_token_ids ids;
    RS_TRY(rs_tokenizer_encode(&ids, f->tokenizer, bytes, n, f->special, err));
    rs_status status = append(f, file, &ids, n, err);
    rs_token_ids_free(&ids);
    return status;
}

/* The tokenizer's file by identity, and room for those of the texts, so that no output replaces
 * them. */
static rs_status note_inputs(rs_result *result, const char *path, size_t n_texts, rs_error *err)
{
    struct stat info;
    rs_input_files *inputs = rs_result_files(result);
    inputs->ids = rs_calloc(n_texts + 1, sizeof *inputs->ids);
    if (!inputs->ids)
        return rs_fail_memory(err, "input files", (n_texts + 1) * sizeof *inputs->ids);
    if (stat(path, &info) == 0)
        inputs->ids[inputs->n++] = (rs_file_id){(uint64_t)info.st_dev, (uint64_t)info.st_ino};
    return rs_input_files_model(inputs, path, err);
}

static rs_status encode_file(filling *f, const char *file, rs_error *err)
{
    rs_mapping *text;
    rs_input_files *inputs = rs_result_files(f->result);
    RS_TRY(rs_mapping_open(&text, file, err));
    inputs->ids[inputs->n++] = (rs_file_id){text->device, text->inode};
    rs_status status = encode(f, file, (const char *)text->data, text->size, err);
    if (status == RS_OK) status = rs_mapping_verify(text, NULL, err);
    rs_mapping_close(text);
    return status;
}

static rs_status encode_all(filling *f, const char *const *files, const rs_tokenize_settings *s,
                            rs_error *err)
{
    RS_TRY(add_tables(f, err));
    if (s->bytes) RS_TRY(encode(f, NULL, s->bytes, s->n_bytes, err));
    for (size_t i = 0; i < f->n_texts; i++)
        RS_TRY(encode_file(f, files[i], err));
    return finish(f, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_tokenize_settings *s = &task->settings->tokenize;
    const char *path = task->subject.path;
    rs_tokenizer *tokenizer;
    RS_TRY(rs_check_texts(s->text, s->texts, s->n_texts, err));
    filling f = {.result = result, .special = !s->no_special, .n_texts = s->text ? 1 : s->n_texts};
    if (!f.n_texts == !s->bytes)
        return rs_fail(err, RS_E_USAGE, "text", "'rankscope tokenize --help' shows how",
                       s->bytes ? "a file or bytes are enough"
                                : "name the file whose text is to be tokenised");
    RS_TRY(rs_tokenizer_open(&tokenizer, path, err));
    rs_tokenizer_watch(tokenizer, task->context);
    f.tokenizer = tokenizer;
    rs_status status = note_inputs(result, path, f.n_texts, err);
    if (status == RS_OK) status = encode_all(&f, s->text ? &s->text : s->texts, s, err);
    rs_tokenizer_close(tokenizer);
    return status;
}

static const rs_command command = {
    .name = "tokenize", .size = sizeof(rs_tokenize_settings), .opens = true, .fill = fill};

void rs_tokenize_settings_init(rs_tokenize_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_tokenize(rs_result **out, const char *path, const rs_tokenize_settings *settings,
                      rs_error *err)
{
    return rs_answer_path(out, &command, path, settings, err);
}
