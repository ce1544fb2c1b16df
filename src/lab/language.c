/* language.c: see language.h. */
#include "lab/language.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#define SCHEDULE ", 'batch': 16, 'schedule': {'kind': 'cosine', 'warmup': 100, 'last': 0.1}"

/* 2048 samples that come again and again, so that there is something to learn by heart. */
static const char source[] =
    "'task': 'markov', 'data': {'length': 64, 'symbols': 32, 'deviation': 1.5, 'block': 8, "
    "'copies': 0.5, 'train': 2048, 'shuffle': true, 'eval': 256}" SCHEDULE;
static const char text_before[] = "'task': 'char-lm', 'data': {'length': 64, 'text': '",
                  text_behind[] = "'}" SCHEDULE;

rs_status rs_lab_language(char **out, const rs_lab_data *data, rs_error *err)
{
    const char *text = data ? data->text : NULL;
    size_t quoted = text ? 6 * strlen(text) + 9 : 0;
    size_t size = sizeof source + sizeof text_before + sizeof text_behind + quoted;
    *out = rs_malloc(size, 1);
    if (!*out) return rs_fail_memory(err, "a task", size);
    if (!text) {
        memcpy(*out, source, sizeof source);
        return RS_OK;
    }
    memcpy(*out, text_before, sizeof text_before);
    char *path = *out + sizeof text_before - 1;
    (void)rs_lab_data_quote(path, quoted, text);
    memcpy(path + strlen(path), text_behind, sizeof text_behind);
    return RS_OK;
}

rs_language_marks rs_lab_language_marks(const rs_result *result)
{
    return (rs_language_marks){rs_lab_mark(result, "unigram entropy"),
                               rs_lab_mark(result, "entropy of the source")};
}
