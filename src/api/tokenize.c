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
    int64_t position;
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
const rs_table_kind rs_tokenize_ids_kind = {"tokenize", "ids", {RS_PART(id_columns)}};

/* The row of table summary. */
typedef struct summary_row {
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
const rs_table_kind rs_tokenize_summary_kind = {"tokenize", "summary", {RS_PART(summary_columns)}};

static rs_status add_ids(rs_result *result, const rs_tokenizer *tokenizer, const rs_token_ids *ids,
                         rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "ids", "Token ids", "The sequence that the model sees",
                               id_columns, sizeof id_columns / sizeof *id_columns, &table, err));
    for (size_t i = 0; i < ids->n; i++) {
        const id_row row = {(int64_t)i, ids->ids[i], rs_tokenizer_token(tokenizer, ids->ids[i]),
                            (int64_t)ids->begin[i], (int64_t)ids->end[i]};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}

static rs_status add_summary(rs_result *result, const rs_tokenizer *tokenizer,
                             const rs_token_ids *ids, size_t bytes, bool special, rs_error *err)
{
    rs_table *table;
    size_t before, after;
    const int32_t *first, *last;
    rs_tokenizer_specials(tokenizer, &first, &before, &last, &after);
    size_t added = special ? before + after : 0;
    RS_TRY(rs_result_add_table(result, "summary", "Summary", "The text and its tokens",
                               summary_columns, sizeof summary_columns / sizeof *summary_columns,
                               &table, err));
    const summary_row row = {(int64_t)ids->n, (int64_t)added, (int64_t)bytes,
                             ids->n > added ? (double)bytes / (double)(ids->n - added) : NAN,
                             rs_tokenizer_vocabulary(tokenizer)};
    return rs_table_append(table, &row, err);
}

/* The terminal shows a table of so many tokens unasked; of a longer text,
 * the beginning in words. */
enum { MOST_SHOWN = 100, FIRST_SHOWN = 24, LONGEST_SHOWN = 40 };

static rs_status add_beginning(rs_result *result, const rs_tokenizer *tokenizer,
                               const rs_token_ids *ids, rs_error *err)
{
    char message[512];
    int used = snprintf(message, sizeof message, "%zu tokens, which begin:", ids->n);
    for (size_t i = 0; i < FIRST_SHOWN && i < ids->n && used < (int)sizeof message - 64; i++) {
        const char *token = rs_tokenizer_token(tokenizer, ids->ids[i]);
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
    return rs_result_add_finding(result, &finding, err);
}

static rs_status answer(rs_result *result, const rs_tokenizer *tokenizer, const rs_token_ids *ids,
                        size_t bytes, rs_error *err)
{
    char text[200];
    snprintf(text, sizeof text, "%zu byte%s are %zu token%s of a vocabulary of %lld.", bytes,
             bytes == 1 ? "" : "s", ids->n, ids->n == 1 ? "" : "s",
             (long long)rs_tokenizer_vocabulary(tokenizer));
    const rs_verdict verdict = {.answer = text,
                                .code = "tokens",
                                .severity = RS_INFO,
                                .value = (double)ids->n,
                                .threshold = NAN,
                                .next = NULL};
    return rs_result_set_verdict(result, &verdict, err);
}

/* ---- encoding ---- */

static rs_status encode(rs_result *result, const rs_tokenizer *tokenizer, const char *bytes,
                        size_t n, bool special, rs_error *err)
{
    rs_token_ids ids;
    RS_TRY(rs_tokenizer_encode(&ids, tokenizer, bytes, n, special, err));
    rs_status status = add_summary(result, tokenizer, &ids, n, special, err);
    if (status == RS_OK) status = add_ids(result, tokenizer, &ids, err);
    if (status == RS_OK) status = answer(result, tokenizer, &ids, n, err);
    if (status == RS_OK && ids.n > MOST_SHOWN) status = add_beginning(result, tokenizer, &ids, err);
    /* A short table is shown unasked: it is what this command is for. */
    if (ids.n <= MOST_SHOWN) rs_result_show(result, "ids");
    rs_token_ids_free(&ids);
    return status;
}

/* The text (NULL: it is no file) and the tokenizer's file by identity, so that no output replaces
 * them. */
static rs_status note_inputs(rs_result *result, const char *path, const rs_mapping *text,
                             rs_error *err)
{
    struct stat info;
    rs_input_files *inputs = rs_result_files(result);
    inputs->ids = rs_calloc(2, sizeof *inputs->ids);
    if (!inputs->ids) return rs_fail_memory(err, "input files", 2 * sizeof *inputs->ids);
    if (text) inputs->ids[inputs->n++] = (rs_file_id){text->device, text->inode};
    if (stat(path, &info) == 0)
        inputs->ids[inputs->n++] = (rs_file_id){(uint64_t)info.st_dev, (uint64_t)info.st_ino};
    return rs_input_files_model(inputs, path, err);
}

static rs_status encode_file(rs_result *result, const rs_tokenizer *tokenizer, const char *path,
                             const rs_tokenize_settings *s, rs_error *err)
{
    rs_mapping *text;
    RS_TRY(rs_mapping_open(&text, s->text, err));
    rs_status status = note_inputs(result, path, text, err);
    if (status == RS_OK)
        status =
            encode(result, tokenizer, (const char *)text->data, text->size, !s->no_special, err);
    if (status == RS_OK) status = rs_mapping_verify(text, NULL, err);
    rs_mapping_close(text);
    return status;
}

static rs_status encode_bytes(rs_result *result, const rs_tokenizer *tokenizer, const char *path,
                              const rs_tokenize_settings *s, rs_error *err)
{
    RS_TRY(note_inputs(result, path, NULL, err));
    return encode(result, tokenizer, s->bytes, s->n_bytes, !s->no_special, err);
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_tokenize_settings *s = &task->settings->tokenize;
    rs_tokenizer *tokenizer;
    if (!s->text == !s->bytes)
        return rs_fail(err, RS_E_USAGE, "text", "'rankscope tokenize --help' shows how",
                       s->text ? "one text is enough"
                               : "name the file whose text is to be tokenised");
    RS_TRY(rs_tokenizer_open(&tokenizer, task->subject.path, err));
    rs_tokenizer_watch(tokenizer, task->context);
    rs_status status =
        (s->text ? encode_file : encode_bytes)(result, tokenizer, task->subject.path, s, err);
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
