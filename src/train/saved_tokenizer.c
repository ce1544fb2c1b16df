/* saved_tokenizer.c: the tokenizer.json of a run on text, so that what opens its checkpoints reads text
 * as the run did. */
#include "train/saver_parts.h"

#include "base/memory.h"
#include "base/text.h"
#include "report/result.h"
#include "train/saver.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- characters ---- */

/* {"a": 0, ...}; NULL where memory is out. */
static json_t *vocabulary_of(const uint32_t *characters, int64_t n)
{
    json_t *vocabulary = json_object();
    char text[5];
    for (int64_t i = 0; i < n && vocabulary; i++) {
        text[rs_utf8_put(text, characters[i])] = 0;
        if (json_object_set_new(vocabulary, text, json_integer(i)) == 0) continue;
        json_decref(vocabulary);
        vocabulary = NULL;
    }
    return vocabulary;
}

/* Byte pairs without a merge: each character is a token. One that the text had not is none. */
static rs_status write_characters(const char *path, const uint32_t *characters, int64_t n,
                                  rs_error *err)
{
    json_t *vocabulary = vocabulary_of(characters, n);
    json_t *json =
        vocabulary
            ? json_pack("{s:s, s:n, s:n, s:[], s:n, s:{s:s, s:{s:s}, s:s, s:b}, s:n, s:{s:s}, "
                        "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, s:[]}}",
                        "version", "1.0", "truncation", "padding", "added_tokens", "normalizer",
                        "pre_tokenizer", "type", "Split", "pattern", "Regex", ".|\\n", "behavior",
                        "Isolated", "invert", 0, "post_processor", "decoder", "type", "Fuse",
                        "model", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                        "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "vocab",
                        vocabulary, "merges")
            : NULL;
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (!text) return rs_fail_memory(err, path, (size_t)n);
    rs_status status = rs_output_write(path, text, strlen(text), NULL, err);
    rs_memory_free_json(text);
    return status;
}

/* ---- a tokenizer's words ---- */

/* The tokenizer.json that a task names, itself or by its folder; false: it is of another format. */
static bool find_file(char out[RS_SAVED_PATH], const char *path)
{
    struct stat what;
    if (!path || stat(path, &what) != 0) return false;
    const char *end = S_ISDIR(what.st_mode) ? "/tokenizer.json" : "";
    int n = snprintf(out, RS_SAVED_PATH, "%s%s", path, end);
    size_t length = strlen(path);
    bool gguf = length > 5 && strcmp(path + length - 5, ".gguf") == 0;
    return n > 0 && n < RS_SAVED_PATH && !gguf && access(out, R_OK) == 0;
}

/* A copy that is there whole or not at all: what ends the program in it leaves another name. */
static rs_status copy_whole(const char *path, const char *folder, const char *from, rs_error *err)
{
    char new[RS_SAVED_PATH];
    RS_TRY(rs_saved_path(new, folder, -1, ".tokenizer.new", err));
    rs_status status = rs_saved_copy(new, from, err);
    if (status == RS_OK && rename(new, path) != 0) status = rs_saved_fail(path, err);
    if (status != RS_OK) (void)unlink(new);
    return status;
}

rs_status rs_saved_tokenizer(bool *written, const char *folder, const rs_train_task *task,
                             const rs_train_settings *settings, rs_error *err)
{
    char path[RS_SAVED_PATH], from[RS_SAVED_PATH];
    int64_t n;
    const uint32_t *characters = rs_task_characters(task, &n);
    bool named = characters && characters[0] != 0; /* a NUL has no name in its format */
    *written = named || (!characters && find_file(from, settings->files.tokenizer));
    if (!*written) return RS_OK;
    RS_TRY(rs_saved_path(path, folder, -1, "tokenizer.json", err));
    return named ? write_characters(path, characters, n, err) : copy_whole(path, folder, from, err);
}
