/* test_library.c: every function of rankscope.h with what no caller should give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rankscope.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MODEL RS_TEST_DATA "/forward/llama"

/* The three commands that run a model, and scan, behind one face. */
typedef union settings {
    rs_scan_settings scan;
    rs_probe_settings probe;
    rs_certify_settings certify;
    rs_paths_settings paths;
} settings;

static void init_scan(settings *s)
{
    rs_scan_settings_init(s ? &s->scan : NULL);
}

static void init_probe(settings *s)
{
    rs_probe_settings_init(s ? &s->probe : NULL);
    if (s) s->probe.run.random = 2;
}

static void init_certify(settings *s)
{
    rs_certify_settings_init(s ? &s->certify : NULL);
    if (s) s->certify.run.random = 2;
}

static void init_paths(settings *s)
{
    rs_paths_settings_init(s ? &s->paths : NULL);
    if (s) s->paths.run.random = 2;
}

static rs_status run_scan(rs_result **out, const char *path, const settings *s, rs_error *err)
{
    return rs_scan_checkpoint(out, path, s ? &s->scan : NULL, err);
}

static rs_status run_probe(rs_result **out, const char *path, const settings *s, rs_error *err)
{
    return rs_probe_checkpoint(out, path, s ? &s->probe : NULL, err);
}

static rs_status run_certify(rs_result **out, const char *path, const settings *s, rs_error *err)
{
    return rs_certify_checkpoint(out, path, s ? &s->certify : NULL, err);
}

static rs_status run_paths(rs_result **out, const char *path, const settings *s, rs_error *err)
{
    return rs_paths_checkpoint(out, path, s ? &s->paths : NULL, err);
}

enum { SCAN, PROBE, CERTIFY, PATHS, COMMANDS };
static const struct {
    const char *name;
    void (*init)(settings *s);
    rs_status (*run)(rs_result **out, const char *path, const settings *s, rs_error *err);
} commands[COMMANDS] = {
    {"scan", init_scan, run_scan},
    {"probe", init_probe, run_probe},
    {"certify", init_certify, run_certify},
    {"paths", init_paths, run_paths},
};

/* Fields by place and width; each value is refused with RS_E_BAD_OPTION that names the field. */
#define INT(command, type, field, name, value)                                                     \
    {                                                                                              \
        command, name, offsetof(type, field), sizeof(int), value                                   \
    }
#define LONG(command, type, field, name, value)                                                    \
    {                                                                                              \
        command, name, offsetof(type, field), sizeof(int64_t), value                               \
    }
#define RUN(command, type)                                                                         \
    INT(command, type, run.threads, "threads", -1),                                                \
        INT(command, type, run.threads, "threads", 1 << 30),                                       \
        INT(command, type, run.threads, "threads", 4097),                                          \
        INT(command, type, run.threads, "threads", INT_MIN),                                       \
        LONG(command, type, run.random, "random", -1),                                             \
        LONG(command, type, run.random, "random", ((int64_t)1 << 30) + 1),                         \
        LONG(command, type, run.random, "random", INT64_MAX),                                      \
        LONG(command, type, run.random, "random", INT64_MIN),                                      \
        LONG(command, type, run.seq_len, "seq_len", -1),                                           \
        LONG(command, type, run.seq_len, "seq_len", INT64_MAX),                                    \
        LONG(command, type, run.samples, "samples", -5),                                           \
        LONG(command, type, run.samples, "samples", INT64_MAX),                                    \
        LONG(command, type, run.batch, "batch", -1),                                               \
        LONG(command, type, run.batch, "batch", INT64_MAX),                                        \
        LONG(command, type, run.batch, "batch", INT64_MIN)

static const struct {
    int command;
    const char *name;
    size_t offset, size;
    int64_t value;
} wrong[] = {
    INT(SCAN, rs_scan_settings, threads, "threads", -1),
    INT(SCAN, rs_scan_settings, threads, "threads", 1 << 30),
    INT(SCAN, rs_scan_settings, threads, "threads", INT_MAX),
    INT(SCAN, rs_scan_settings, first_layer, "first_layer", -1),
    INT(SCAN, rs_scan_settings, first_layer, "first_layer", INT_MIN),
    INT(SCAN, rs_scan_settings, last_layer, "last_layer", -2),
    INT(SCAN, rs_scan_settings, last_layer, "last_layer", INT_MIN),
    RUN(PROBE, rs_probe_settings),
    RUN(CERTIFY, rs_certify_settings),
    RUN(PATHS, rs_paths_settings),
    INT(PROBE, rs_probe_settings, precision, "precision", 9),
    INT(PROBE, rs_probe_settings, precision, "precision", 3),
    INT(PROBE, rs_probe_settings, precision, "precision", -1),
    INT(PROBE, rs_probe_settings, precision, "precision", INT_MIN),
    LONG(PROBE, rs_probe_settings, generate, "generate", -1),
    LONG(PROBE, rs_probe_settings, generate, "generate", 4097),
    LONG(PROBE, rs_probe_settings, generate, "generate", INT64_MAX),
    LONG(PATHS, rs_paths_settings, max_length, "max_length", -2),
    LONG(PATHS, rs_paths_settings, max_length, "max_length", INT64_MAX),
    LONG(PATHS, rs_paths_settings, paths, "paths", -1),
    LONG(PATHS, rs_paths_settings, paths, "paths", INT64_MAX),
};

static void sizes_and_enums_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        settings s;
        rs_error err = {0};
        rs_result *result = (rs_result *)(void *)&s; /* must not be left as it was */
        commands[wrong[i].command].init(&s);
        int narrow = (int)wrong[i].value;
        if (wrong[i].size == sizeof narrow)
            memcpy((char *)&s + wrong[i].offset, &narrow, sizeof narrow);
        else
            memcpy((char *)&s + wrong[i].offset, &wrong[i].value, sizeof wrong[i].value);
        rs_status status = commands[wrong[i].command].run(&result, MODEL, &s, &err);
        if (status != RS_E_BAD_OPTION || strcmp(err.where, wrong[i].name) != 0)
            fail_msg("%s, %s = %lld: %s: %s: %s", commands[wrong[i].command].name, wrong[i].name,
                     (long long)wrong[i].value, rs_status_name(status), err.where, err.what);
        assert_null(result);
    }
}

static void kept_is_a_fraction(void **state)
{
    static const double values[] = {0, 1, -0.5, 1.5, 1e300};
    (void)state;
    for (size_t i = 0; i <= sizeof values / sizeof *values; i++) {
        settings s;
        rs_error err;
        rs_result *result;
        commands[CERTIFY].init(&s);
        s.certify.kept = i < sizeof values / sizeof *values ? values[i] : strtod("nan", NULL);
        assert_int_equal(run_certify(&result, MODEL, &s, &err), RS_E_BAD_OPTION);
        assert_string_equal(err.where, "kept");
        assert_null(result);
    }
}

static void the_commands_take_no_null(void **state)
{
    (void)state;
    for (int c = 0; c < COMMANDS; c++) {
        settings s;
        rs_error err = {0};
        rs_result *result = (rs_result *)(void *)&s;
        commands[c].init(NULL);
        commands[c].init(&s);
        assert_int_equal(commands[c].run(NULL, MODEL, &s, &err), RS_E_USAGE);
        assert_non_null(strstr(err.what, "NULL"));
        assert_int_equal(commands[c].run(&result, NULL, &s, &err), RS_E_USAGE);
        assert_null(result);
        assert_int_equal(commands[c].run(&result, MODEL, NULL, &err), RS_E_USAGE);
        assert_null(result);
        assert_int_equal(commands[c].run(NULL, NULL, NULL, NULL), RS_E_USAGE);
        assert_int_equal(commands[c].run(&result, MODEL, &s, NULL), RS_OK); /* the error may be */
        rs_result_free(result);
    }
}

static void the_readers_of_results_take_no_null(void **state)
{
    static const int forms[] = {3, 9, -1, INT_MIN, INT_MAX};
    (void)state;
    settings s;
    rs_error err;
    rs_result *result;
    char *text = (char *)&s;
    size_t length;
    commands[SCAN].init(&s);
    assert_int_equal(run_scan(&result, MODEL, &s, &err), RS_OK);

    assert_int_equal(rs_result_text(NULL, &length, result, RS_FORM_JSON, &err), RS_E_USAGE);
    assert_int_equal(rs_result_text(&text, &length, NULL, RS_FORM_JSON, &err), RS_E_USAGE);
    assert_null(text);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        text = (char *)&s;
        assert_int_equal(rs_result_text(&text, &length, result, (rs_form)forms[i], &err),
                         RS_E_BAD_OPTION);
        assert_null(text);
    }
    assert_int_equal(rs_result_text(&text, NULL, result, RS_FORM_TERMINAL, NULL), RS_OK);
    rs_text_free(text);

    text = (char *)&s;
    assert_int_equal(rs_result_csv(NULL, &length, result, "heads", &err), RS_E_USAGE);
    assert_int_equal(rs_result_csv(&text, &length, NULL, "heads", &err), RS_E_USAGE);
    assert_null(text);
    assert_int_equal(rs_result_csv(&text, &length, result, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_result_csv(&text, &length, result, "nowhere", &err), RS_E_NOT_FOUND);
    assert_int_equal(rs_result_csv(&text, NULL, result, "heads", NULL), RS_OK);
    rs_text_free(text);

    assert_int_equal(rs_result_count_findings(NULL, 0), 0);
    assert_int_equal(rs_result_count_findings(result, INT_MAX), 0);
    assert_int_equal(rs_result_count_findings(result, INT_MIN),
                     rs_result_count_findings(result, 0));
    rs_result_free(result);
    rs_result_free(NULL);
    rs_text_free(NULL);
}

static void two_outputs_are_two_files(void **state)
{
    (void)state;
    settings s;
    rs_error err;
    rs_result *result;
    commands[PROBE].init(&s);
    s.probe.output = "two_outputs.safetensors";
    s.probe.taps = "./two_outputs.safetensors";
    assert_int_equal(run_probe(&result, MODEL, &s, &err), RS_E_BAD_OPTION);
    assert_null(result);
    assert_string_equal(err.where, "taps");
}

static void statuses_of_no_name(void **state)
{
    static const int statuses[] = {1, 9, 9999, -1, INT_MIN, INT_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        assert_string_equal(rs_status_name((rs_status)statuses[i]), "unknown-status");
        assert_int_equal(rs_status_exit_code((rs_status)statuses[i]), 1);
    }
    assert_string_equal(rs_version(), RS_VERSION);
    rs_guard_install();
    rs_guard_install();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_enums_are_checked),
        cmocka_unit_test(kept_is_a_fraction),
        cmocka_unit_test(the_commands_take_no_null),
        cmocka_unit_test(the_readers_of_results_take_no_null),
        cmocka_unit_test(two_outputs_are_two_files),
        cmocka_unit_test(statuses_of_no_name),
    };
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
