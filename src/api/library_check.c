/* library_check.c: see library_check.h. The ranges are those of the command line. */
#include "api/library_check.h"

#include "report/output.h"

#include <limits.h>

enum {
    MOST_THREADS = 4096,
    MOST_COUNT = 1 << 30, /* what sizes may be made of without overflow */
    MOST_GENERATED = 4096,
    MOST_PATHS = 1 << 20
};

typedef struct range {
    const char *name;
    int64_t value, least, most;
} range;

static rs_status check_ranges(const range *ranges, size_t n, rs_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return rs_fail(err, RS_E_BAD_OPTION, ranges[i].name,
                           "*_settings_init gives a setting that is fine",
                           "%lld is not among %lld to %lld", (long long)ranges[i].value,
                           (long long)ranges[i].least, (long long)ranges[i].most);
    return RS_OK;
}

#define CHECK(ranges, err) check_ranges((ranges), sizeof(ranges) / sizeof *(ranges), (err))

rs_status rs_check_pointer(const void *pointer, const char *name, rs_error *err)
{
    if (pointer) return RS_OK;
    return rs_fail(err, RS_E_USAGE, name, "rankscope.h says what each argument is", "is NULL");
}

static rs_status check_run(const rs_run_settings *run, rs_error *err)
{
    const range ranges[] = {
        {"threads", run->threads, 0, MOST_THREADS}, {"random", run->random, 0, MOST_COUNT},
        {"seq_len", run->seq_len, 0, MOST_COUNT},   {"samples", run->samples, 0, MOST_COUNT},
        {"batch", run->batch, 0, MOST_COUNT},
    };
    return CHECK(ranges, err);
}

rs_status rs_check_scan(const rs_scan_settings *settings, rs_error *err)
{
    const range ranges[] = {
        {"threads", settings->threads, 0, MOST_THREADS},
        {"first_layer", settings->first_layer, 0, INT_MAX},
        {"last_layer", settings->last_layer, -1, INT_MAX},
    };
    return CHECK(ranges, err);
}

rs_status rs_check_probe(const rs_probe_settings *settings, rs_error *err)
{
    const range ranges[] = {
        {"precision", (int)settings->precision, RS_PRECISION_F32, RS_PRECISION_RESIDUAL},
        {"generate", settings->generate, 0, MOST_GENERATED},
    };
    RS_TRY(check_run(&settings->run, err));
    RS_TRY(CHECK(ranges, err));
    if (settings->output && settings->taps && rs_output_same(settings->output, settings->taps))
        return rs_fail(err, RS_E_BAD_OPTION, "taps", "choose another name",
                       "%s is to be written as output already", settings->taps);
    return RS_OK;
}

rs_status rs_check_certify(const rs_certify_settings *settings, rs_error *err)
{
    RS_TRY(check_run(&settings->run, err));
    if (settings->kept > 0 && settings->kept < 1) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "kept", "give a fraction between 0 and 1, such as 0.9",
                   "cannot take %g", settings->kept);
}

rs_status rs_check_paths(const rs_paths_settings *settings, rs_error *err)
{
    const range ranges[] = {
        {"max_length", settings->max_length, -1, MOST_COUNT},
        {"paths", settings->paths, 0, MOST_PATHS},
    };
    RS_TRY(check_run(&settings->run, err));
    return CHECK(ranges, err);
}

rs_status rs_check_form(rs_form form, rs_error *err)
{
    const range ranges[] = {{"form", (int)form, RS_FORM_JSON, RS_FORM_TERMINAL}};
    return CHECK(ranges, err);
}
