/* check.c: see check.h. */
#include "api/check.h"

#include "report/output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

rs_status rs_check_pointer(const void *pointer, const char *name, rs_error *err)
{
    if (pointer) return RS_OK;
    return rs_fail(err, RS_E_USAGE, name, "rankscope.h says what each argument is", "is NULL");
}

rs_status rs_check_array(const void *array, size_t n, const char *name, rs_error *err)
{
    return n == 0 ? RS_OK : rs_check_pointer(array, name, err);
}

rs_status rs_check_ranges(const rs_range *ranges, size_t n, rs_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return rs_fail(err, RS_E_BAD_OPTION, ranges[i].name,
                           "*_settings_init gives a setting that is fine",
                           "%lld is not among %lld to %lld", (long long)ranges[i].value,
                           (long long)ranges[i].least, (long long)ranges[i].most);
    return RS_OK;
}

/* What a later header may have put there, this library would not do. */
static rs_status check_reserved(const uint64_t *reserved, size_t n, rs_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (reserved[i])
            return rs_fail(err, RS_E_USAGE, "reserved",
                           "*_settings_init clears it; a library older than its header refuses "
                           "what it does not know",
                           "is not 0");
    return RS_OK;
}

#define CHECK_RESERVED(reserved, err)                                                              \
    check_reserved((reserved), sizeof(reserved) / sizeof *(reserved), (err))

rs_status rs_check_call(const rs_call_settings *call, rs_error *err)
{
    const rs_range ranges[] = {{"threads", call->threads, 0, RS_MOST_THREADS}};
    RS_TRY(CHECK_RESERVED(call->reserved, err));
    return RS_CHECK_RANGES(ranges, err);
}

rs_status rs_check_heads(const rs_map_choice *heads, size_t n, const char *name, rs_error *err)
{
    enum { MOST_HEADS = 64 };
    RS_TRY(rs_check_array(heads, n, name, err));
    if (n > MOST_HEADS)
        return rs_fail(err, RS_E_BAD_OPTION, name, NULL, "at most %d heads", MOST_HEADS);
    for (size_t i = 0; i < n; i++)
        if (heads[i].layer < 0 || heads[i].head < 0)
            return rs_fail(err, RS_E_BAD_OPTION, name, "layers and heads count from 0",
                           "there is no head %d of layer %d", (int)heads[i].head,
                           (int)heads[i].layer);
    return RS_OK;
}

rs_status rs_check_others(const char *const *others, size_t n, bool lent, rs_error *err)
{
    RS_TRY(rs_check_array(others, n, "others", err));
    for (size_t i = 0; i < n; i++)
        RS_TRY(rs_check_pointer(others[i], "others", err));
    if (lent && n > 0)
        return rs_fail(err, RS_E_USAGE, "others", "ask for each path by itself",
                       "a session has one model");
    return RS_OK;
}

rs_status rs_check_texts(const char *text, const char *const *texts, size_t n, rs_error *err)
{
    const rs_range ranges[] = {
        {"n_texts", n > RS_MOST_COUNT ? INT64_MAX : (int64_t)n, 0, RS_MOST_COUNT}};
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    RS_TRY(rs_check_array(texts, n, "texts", err));
    for (size_t i = 0; i < n; i++)
        RS_TRY(rs_check_pointer(texts[i], "texts", err));
    if (!text || n == 0) return RS_OK;
    return rs_fail(err, RS_E_USAGE, "texts", "put it among the texts",
                   "there is one text beside them");
}

rs_status rs_check_run(const rs_run_settings *run, rs_error *err)
{
    const rs_range ranges[] = {
        {"random", run->random, 0, RS_MOST_COUNT},
        {"seq_len", run->seq_len, 0, RS_MOST_COUNT},
        {"samples", run->samples, 0, RS_MOST_COUNT},
        {"batch", run->batch, 0, RS_MOST_COUNT},
        {"ids_samples", run->ids_samples, 0, RS_MOST_COUNT},
        {"ids_length", run->ids_length, 0, RS_MOST_COUNT},
        {"states_as", (int64_t)run->states_as, RS_STATES_AS_FIRST_BLOCK, RS_STATES_AS_EMBEDDINGS},
    };
    RS_TRY(CHECK_RESERVED(run->reserved, err));
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    RS_TRY(rs_check_texts(run->text, run->texts, run->n_texts, err));
    RS_TRY(rs_check_array(run->edits, run->n_edits, "edits", err));
    for (size_t i = 0; i < run->n_edits; i++)
        RS_TRY(rs_check_pointer(run->edits[i].name, "edits", err));
    return RS_OK;
}

static rs_status bad_threshold(const rs_known_threshold *known, size_t n, const char *what,
                               rs_error *err)
{
    char hint[300];
    int used = snprintf(hint, sizeof hint, "give X >= 0 for one of");
    for (size_t k = 0; k < n && used < (int)sizeof hint; k++)
        used +=
            snprintf(hint + used, sizeof hint - (size_t)used, "%s %s", k ? "," : "", known[k].code);
    return rs_fail(err, RS_E_BAD_OPTION, "thresholds", hint, "%s", what);
}

rs_status rs_take_thresholds(const rs_known_threshold *known, size_t n_known,
                             const rs_threshold *thresholds, size_t n, rs_error *err)
{
    RS_TRY(rs_check_array(thresholds, n, "thresholds", err));
    for (size_t i = 0; i < n; i++) {
        const char *code = thresholds[i].code;
        size_t k = 0;
        RS_TRY(rs_check_pointer(code, "thresholds", err));
        while (k < n_known && strcmp(known[k].code, code) != 0)
            k++;
        if (k == n_known) return bad_threshold(known, n_known, "there is no such code", err);
        if (!isfinite(thresholds[i].value) || thresholds[i].value < 0)
            return bad_threshold(known, n_known, "is no threshold", err);
        *known[k].value = thresholds[i].value;
    }
    return RS_OK;
}

rs_status rs_check_two_files(const char *path, const char *other, const char *name,
                             const char *other_name, rs_error *err)
{
    if (!path || !other || !rs_output_same(path, other)) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, other_name, "choose another name",
                   "%s is to be written as %s already", other, name);
}
