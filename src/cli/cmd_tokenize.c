/* cmd_tokenize.c: `rankscope tokenize`. */
#include "cli/cli.h"

#include "base/mapping.h"
#include "text/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const rs_column id_columns[] = {
    {.name = "position", .type = RS_COLUMN_INT, .formula = "place in the sequence, from 0"},
    {.name = "id", .type = RS_COLUMN_INT},
    {.name = "token", .type = RS_COLUMN_TEXT, .formula = "as the vocabulary spells it"},
    {.name = "begin",
     .type = RS_COLUMN_INT,
     .unit = "bytes",
     .formula = "where its part of the text begins"},
    {.name = "end",
     .type = RS_COLUMN_INT,
     .unit = "bytes",
     .formula = "behind its last byte; begin = end for tokens that were added"},
};
enum { POSITION, ID, TOKEN, BEGIN, END, N_ID_COLUMNS };

static const rs_column summary_columns[] = {
    {.name = "tokens", .type = RS_COLUMN_INT},
    {.name = "added", .type = RS_COLUMN_INT, .formula = "special tokens around the text"},
    {.name = "bytes", .type = RS_COLUMN_INT, .unit = "bytes"},
    {.name = "bytes_per_token", .type = RS_COLUMN_REAL, .formula = "bytes / (tokens - added)"},
    {.name = "vocabulary", .type = RS_COLUMN_INT, .formula = "largest id + 1"},
};
enum { TOKENS, ADDED, BYTES, BYTES_PER_TOKEN, VOCABULARY, N_SUMMARY_COLUMNS };

static rs_status add_ids(rs_result *result, const rs_tokenizer *tokenizer, const rs_token_ids *ids,
                         rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "ids", "Token ids", "The sequence that the model sees",
                               id_columns, N_ID_COLUMNS, &table, err));
    for (size_t i = 0; i < ids->n; i++) {
        size_t row;
        RS_TRY(rs_table_add_row(table, &row, err));
        rs_table_set_int(table, row, POSITION, (int64_t)i);
        rs_table_set_int(table, row, ID, ids->ids[i]);
        RS_TRY(
            rs_table_set_text(table, row, TOKEN, rs_tokenizer_token(tokenizer, ids->ids[i]), err));
        rs_table_set_int(table, row, BEGIN, (int64_t)ids->begin[i]);
        rs_table_set_int(table, row, END, (int64_t)ids->end[i]);
    }
    return RS_OK;
}

static rs_status add_summary(rs_result *result, const rs_tokenizer *tokenizer,
                             const rs_token_ids *ids, size_t bytes, bool special, rs_error *err)
{
    rs_table *table;
    size_t row, before, after;
    const int32_t *first, *last;
    rs_tokenizer_specials(tokenizer, &first, &before, &last, &after);
    size_t added = special ? before + after : 0;
    RS_TRY(rs_result_add_table(result, "summary", "Summary", "The text and its tokens",
                               summary_columns, N_SUMMARY_COLUMNS, &table, err));
    RS_TRY(rs_table_add_row(table, &row, err));
    rs_table_set_int(table, row, TOKENS, (int64_t)ids->n);
    rs_table_set_int(table, row, ADDED, (int64_t)added);
    rs_table_set_int(table, row, BYTES, (int64_t)bytes);
    rs_table_set_real(table, row, BYTES_PER_TOKEN,
                      ids->n > added ? (double)bytes / (double)(ids->n - added) : NAN);
    rs_table_set_int(table, row, VOCABULARY, rs_tokenizer_vocabulary(tokenizer));
    return RS_OK;
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
    const rs_finding finding = {.severity = RS_INFO,
                                .code = "long_text",
                                .layer = RS_NULL_INT,
                                .head = RS_NULL_INT,
                                .value = NAN,
                                .threshold = NAN,
                                .message = message,
                                .hint = "--table ids shows them all",
                                .table = "ids"};
    return rs_result_add_finding(result, &finding, err);
}

static rs_status encode(rs_result *result, const rs_tokenizer *tokenizer, const rs_mapping *mapping,
                        cli_job *job, rs_error *err)
{
    rs_token_ids ids;
    bool special = !job->args->no_special;
    RS_TRY(rs_tokenizer_encode(&ids, tokenizer, (const char *)mapping->data, mapping->size, special,
                               err));
    rs_status status = rs_mapping_verify(mapping, NULL, err);
    if (status == RS_OK) status = add_summary(result, tokenizer, &ids, mapping->size, special, err);
    if (status == RS_OK) status = add_ids(result, tokenizer, &ids, err);
    if (status == RS_OK && ids.n > MOST_SHOWN) status = add_beginning(result, tokenizer, &ids, err);
    /* A short table is shown unasked: it is what this command is for. */
    if (ids.n <= MOST_SHOWN) job->tables = "ids";
    rs_token_ids_free(&ids);
    return status;
}

/* The text and the tokenizer's file by identity, so that no output replaces them. */
static rs_status note_inputs(cli_job *job, const rs_mapping *text, rs_error *err)
{
    struct stat info;
    const char *path = job->args->input;
    rs_input_files *inputs = &job->inputs;
    inputs->ids = rs_calloc(2, sizeof *inputs->ids);
    if (!inputs->ids) return rs_fail_memory(err, "input files", 2 * sizeof *inputs->ids);
    inputs->ids[inputs->n++] = (rs_file_id){text->device, text->inode};
    if (stat(path, &info) == 0)
        inputs->ids[inputs->n++] = (rs_file_id){(uint64_t)info.st_dev, (uint64_t)info.st_ino};
    return rs_input_files_model(inputs, path, err);
}

static rs_status tokenize(rs_result *result, cli_job *job, const rs_context *context, rs_error *err)
{
    rs_tokenizer *tokenizer;
    rs_mapping *text;
    RS_TRY(rs_tokenizer_open(&tokenizer, job->args->input, err));
    rs_tokenizer_watch(tokenizer, context);
    rs_status status = rs_mapping_open(&text, job->args->text, err);
    if (status == RS_OK) {
        status = note_inputs(job, text, err);
        if (status == RS_OK) status = encode(result, tokenizer, text, job, err);
        rs_mapping_close(text);
    }
    rs_tokenizer_close(tokenizer);
    return status;
}

int cli_tokenize(const cli_args *args)
{
    cli_job job = {.args = args, .work = tokenize};
    if (args->text) return cli_run(&job);
    rs_error err;
    rs_fail(&err, RS_E_USAGE, "--text", "'rankscope tokenize --help' shows how",
            "name the file whose text is to be tokenised");
    return cli_fail(&err);
}
