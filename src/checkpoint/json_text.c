/* json_text.c: strict JSON through jansson (see json_text.h). */
#include "checkpoint/json_text.h"

#include "base/json_parse.h"
#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/open.h"

#include <string.h>

/* jansson needs some 16 bytes for each byte of text; no configuration or index comes near this. */
#define MAX_TEXT ((size_t)100 * 1000 * 1000)

static const struct bare {
    const char *word;
    size_t length;
    const char *object; /* what stands for it afterwards */
} bare_words[] = {
    {"NaN", 3, "{\"__float__\": \"NaN\"}"},
    {"Infinity", 8, "{\"__float__\": \"Infinity\"}"},
    {"-Infinity", 9, "{\"__float__\": \"-Infinity\"}"},
};

/* The index behind the string that opens at `i`. A string that never ends runs to the end. */
static size_t skip_string(const char *text, size_t length, size_t i)
{
    for (i++; i < length; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '"')
            return i + 1;
    }
    return length;
}

/* The next bare word at or behind `i`, which is outside strings; NULL and `length` when none. */
static const struct bare *next_bare(const char *text, size_t length, size_t i, size_t *at)
{
    while (i < length) {
        if (text[i] == '"') {
            i = skip_string(text, length, i);
            continue;
        }
        for (size_t w = 0; w < sizeof bare_words / sizeof *bare_words; w++) {
            const struct bare *bare = &bare_words[w];
            if (length - i >= bare->length && memcmp(text + i, bare->word, bare->length) == 0) {
                *at = i;
                return bare;
            }
        }
        i++;
    }
    *at = length;
    return NULL;
}

static void rewrite(rs_buffer *buffer, const char *text, size_t length)
{
    size_t from = 0, at;
    const struct bare *bare;
    while ((bare = next_bare(text, length, from, &at)) != NULL) {
        rs_buffer_append(buffer, text + from, at - from);
        rs_buffer_puts(buffer, bare->object);
        from = at + bare->length;
    }
    rs_buffer_append(buffer, text + from, length - from);
}

/* Where in the original text a position of the rewritten one lies. */
static size_t original_position(const char *text, size_t length, size_t position)
{
    size_t from = 0, written = 0, at;
    const struct bare *bare;
    while ((bare = next_bare(text, length, from, &at)) != NULL) {
        if (position <= written + (at - from)) break;
        written += at - from + strlen(bare->object);
        from = at + bare->length;
        if (position <= written) return from;
    }
    size_t original = from + (position - written);
    return original < length ? original : length;
}

static void line_and_column(const char *text, size_t position, size_t *line, size_t *column)
{
    *line = 1, *column = 1;
    for (size_t i = 0; i < position; i++) {
        if (text[i] == '\n')
            ++*line, *column = 1;
        else
            ++*column;
    }
}

static rs_status check_depth(const char *path, const char *text, size_t length, size_t max_depth,
                             rs_error *err)
{
    size_t depth = 0;
    for (size_t i = 0; i < length;) {
        if (text[i] == '"') {
            i = skip_string(text, length, i);
            continue;
        }
        if (text[i] == '{' || text[i] == '[') depth++;
        if ((text[i] == '}' || text[i] == ']') && depth > 0) depth--;
        if (depth > max_depth) {
            size_t line, column;
            line_and_column(text, i, &line, &column);
            return rs_fail(err, RS_E_JSON_DEPTH, path, NULL,
                           "line %zu, column %zu: more than %zu objects and arrays inside each "
                           "other",
                           line, column, max_depth);
        }
        i++;
    }
    return RS_OK;
}

static rs_status status_of(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_stack_overflow:
        return RS_E_JSON_DEPTH;
    case json_error_duplicate_key:
        return RS_E_JSON_DUPLICATE_KEY;
    case json_error_numeric_overflow: /* a number such as 1e999 gives the same code */
        return strncmp(error->text, "real", 4) == 0 ? RS_E_JSON_SYNTAX : RS_E_JSON_INTEGER;
    default:
        return RS_E_JSON_SYNTAX;
    }
}

static rs_status parse(json_t **out, const char *path, const char *original, size_t original_length,
                       const rs_buffer *rewritten, size_t flags, rs_error *err)
{
    bool changed = rewritten->data != NULL;
    int64_t failures = rs_memory_failures();
    json_error_t error = {.text = ""};
    *out = rs_json_parse(changed ? rewritten->data : original,
                         changed ? rewritten->length : original_length, flags, &error);
    rs_status kept = rs_memory_check(failures, path, NULL);
    if (kept == RS_OK && *out) return RS_OK;
    json_decref(*out);
    *out = NULL;
    if (kept != RS_OK || !error.text[0] || json_error_code(&error) == json_error_out_of_memory)
        return rs_fail_memory(err, path, 0);
    size_t position = error.position > 0 ? (size_t)error.position : 0;
    if (changed) position = original_position(original, original_length, position);
    if (position > original_length) position = original_length;
    size_t line, column;
    line_and_column(original, position, &line, &column);
    return rs_fail(err, status_of(&error), path, "correct the file, or download it again",
                   "line %zu, column %zu: %s", line, column, error.text);
}

rs_status rs_json_load(json_t **out, const char *path, const char *text, size_t length,
                       const rs_json_rules *rules, rs_error *err)
{
    *out = NULL;
    if (length == 0)
        return rs_fail(err, RS_E_EMPTY_FILE, path, "fetch the file again", "is empty (0 bytes)");
    if (rs_is_lfs_pointer(text, length))
        return rs_fail(err, RS_E_LFS_POINTER, path,
                       "run `git lfs pull` in the repository, or download the file itself",
                       "is a Git LFS pointer (a few lines of text), not the data it stands for");
    if (length > MAX_TEXT)
        return rs_fail(err, RS_E_UNSUPPORTED, path, NULL,
                       "has %zu bytes; a JSON file of more than %zu is not read", length, MAX_TEXT);
    RS_TRY(check_depth(path, text, length, rules->max_depth, err));
    rs_buffer rewritten = {0};
    size_t at;
    if (rules->non_finite && next_bare(text, length, 0, &at)) {
        rewrite(&rewritten, text, length);
        if (rewritten.failed) {
            rs_buffer_free(&rewritten);
            return rs_fail_memory(err, path, 0);
        }
    }
    size_t flags =
        JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | (rules->allow_nul ? JSON_ALLOW_NUL : 0);
    rs_status status = parse(out, path, text, length, &rewritten, flags, err);
    rs_buffer_free(&rewritten);
    return status;
}
