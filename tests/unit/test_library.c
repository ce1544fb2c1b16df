/* test_library.c: every function of rankscope.h with what no caller should give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rankscope.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    rs_scan_settings_init(s ? &s->scan : NULL, sizeof s->scan);
}

static void init_probe(settings *s)
{
    rs_probe_settings_init(s ? &s->probe : NULL, sizeof s->probe);
    if (s) s->probe.run.random = 2;
}

static void init_certify(settings *s)
{
    rs_certify_settings_init(s ? &s->certify : NULL, sizeof s->certify);
    if (s) s->certify.run.random = 2;
}

static void init_paths(settings *s)
{
    rs_paths_settings_init(s ? &s->paths : NULL, sizeof s->paths);
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
    INT(command, type, call.threads, "threads", -1),                                               \
        INT(command, type, call.threads, "threads", 1 << 30),                                      \
        INT(command, type, call.threads, "threads", 4097),                                         \
        INT(command, type, call.threads, "threads", INT_MIN),                                      \
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
        LONG(command, type, run.batch, "batch", INT64_MIN),                                        \
        INT(command, type, run.states_as, "states_as", 2),                                         \
        INT(command, type, run.states_as, "states_as", -1)

static const struct {
    int command;
    const char *name;
    size_t offset, size;
    int64_t value;
} wrong[] = {
    INT(SCAN, rs_scan_settings, call.threads, "threads", -1),
    INT(SCAN, rs_scan_settings, call.threads, "threads", 1 << 30),
    INT(SCAN, rs_scan_settings, call.threads, "threads", INT_MAX),
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
    INT(PROBE, rs_probe_settings, centre, "centre", 4),
    INT(PROBE, rs_probe_settings, centre, "centre", -1),
    INT(PATHS, rs_paths_settings, semantics, "semantics", 2),
    INT(PATHS, rs_paths_settings, semantics, "semantics", -1),
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

/* ---- lists ---- */

static void refuses(int command, const settings *s, rs_status status, const char *where)
{
    rs_error err = {0};
    rs_result *result = (rs_result *)(void *)&err;
    rs_status got = commands[command].run(&result, MODEL, s, &err);
    if (got != status || strcmp(err.where, where) != 0)
        fail_msg("%s: %s: %s: %s, not %s: %s", commands[command].name, rs_status_name(got),
                 err.where, err.what, rs_status_name(status), where);
    assert_null(result);
}

static void lists_are_checked(void **state)
{
    static const double energies[] = {0.9, 0.95}, zero[] = {0.5, 0}, above[] = {1.5},
                        many[17] = {.5, .5, .5, .5, .5, .5, .5, .5, .5,
                                    .5, .5, .5, .5, .5, .5, .5, .5};
    static const rs_threshold fine = {"dead_head", 0}, unknown = {"no_such_code", 1},
                              negative = {"dead_head", -1}, nameless = {NULL, 1},
                              of_probe = {"token_collapse", 1};
    static const rs_map_choice before = {-1, 0}, choices[65];
    static const rs_intervention no_name = {NULL, "1"};
    (void)state;
    settings s;
    init_scan(&s);
    s.scan.n_energies = 1;
    refuses(SCAN, &s, RS_E_USAGE, "energies");
    s.scan.energies = zero;
    s.scan.n_energies = 2;
    refuses(SCAN, &s, RS_E_BAD_OPTION, "energies");
    s.scan.energies = above;
    s.scan.n_energies = 1;
    refuses(SCAN, &s, RS_E_BAD_OPTION, "energies");
    s.scan.energies = many;
    s.scan.n_energies = 17;
    refuses(SCAN, &s, RS_E_BAD_OPTION, "energies");
    s.scan.energies = energies;
    s.scan.n_energies = 2;
    s.scan.n_thresholds = 1;
    refuses(SCAN, &s, RS_E_USAGE, "thresholds");
    const rs_threshold *wrong_ones[] = {&unknown, &negative, &of_probe};
    for (size_t i = 0; i < 3; i++) {
        s.scan.thresholds = wrong_ones[i];
        refuses(SCAN, &s, RS_E_BAD_OPTION, "thresholds");
    }
    s.scan.thresholds = &nameless;
    refuses(SCAN, &s, RS_E_USAGE, "thresholds");
    s.scan.thresholds = &fine;
    rs_result *result;
    assert_int_equal(run_scan(&result, MODEL, &s, NULL), RS_OK);
    rs_result_free(result);

    init_probe(&s);
    s.probe.n_maps = 1;
    refuses(PROBE, &s, RS_E_USAGE, "maps");
    s.probe.maps = &before;
    refuses(PROBE, &s, RS_E_BAD_OPTION, "maps");
    s.probe.maps = choices;
    s.probe.n_maps = 65;
    refuses(PROBE, &s, RS_E_BAD_OPTION, "maps");
    s.probe.n_maps = 0;
    s.probe.run.n_edits = 1;
    refuses(PROBE, &s, RS_E_USAGE, "edits");
    s.probe.run.edits = &no_name;
    refuses(PROBE, &s, RS_E_USAGE, "edits");
    s.probe.run.n_edits = 0;
    s.probe.compat = "nobody";
    refuses(PROBE, &s, RS_E_BAD_OPTION, "compat");
    s.probe.compat = NULL;
    s.probe.rigorous = true;
    refuses(PROBE, &s, RS_E_USAGE, "rigorous");
}

static void texts_are_checked(void **state)
{
    static const char *const two[] = {"a", "b"}, *const hole[] = {"a", NULL};
    (void)state;
    settings s;
    const int runs[] = {PROBE, CERTIFY, PATHS};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        commands[runs[i]].init(&s);
        rs_run_settings *run = &s.probe.run; /* where all of them have it */
        run->n_texts = 2;
        refuses(runs[i], &s, RS_E_USAGE, "texts");
        run->texts = hole;
        refuses(runs[i], &s, RS_E_USAGE, "texts");
        run->texts = two;
        refuses(runs[i], &s, RS_E_USAGE, "input"); /* init asks for random samples */
        run->random = 0;
        refuses(runs[i], &s, RS_E_TOKENIZER_MISSING, MODEL);
        run->text = "c";
        refuses(runs[i], &s, RS_E_USAGE, "texts");
        run->n_texts = SIZE_MAX;
        refuses(runs[i], &s, RS_E_BAD_OPTION, "n_texts");
    }
}

/* ---- several texts ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A model whose weights are drawn, with a tokenizer. */
static void speak(char folder[])
{
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(symlink(RS_TEST_DATA "/tokenizer/llama3.json", "tokenizer.json"), 0);
    write_file("config.json",
               "{\"model_type\": \"llama\", \"hidden_size\": 12, \"vocab_size\": 1000,"
               "\"intermediate_size\": 18, \"num_hidden_layers\": 2, "
               "\"num_attention_heads\": 2, \"max_position_embeddings\": 32}");
    write_file("a.txt", "A lighthouse that nobody needs has 300 steps.");
    write_file("b.txt", "Its keeper counts.");
}

static void forget(char folder[])
{
    static const char *const names[] = {"tokenizer.json", "config.json", "a.txt", "b.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(unlink(names[i]), 0);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(rmdir(folder), 0);
}

static rs_result *certify_texts(const char *text, const char *const *texts, size_t n)
{
    rs_certify_settings s;
    rs_result *result;
    rs_error err;
    rs_certify_settings_init(&s, sizeof s);
    s.run.init = "default";
    s.run.seq_len = 6;
    s.run.batch = 1;
    s.run.text = text;
    s.run.texts = texts;
    s.run.n_texts = n;
    if (rs_certify_checkpoint(&result, ".", &s, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static rs_column_data column_of(const rs_result *result, const char *table, const char *column)
{
    rs_column_data data;
    assert_int_equal(rs_result_column(&data, result, table, column, NULL), RS_OK);
    return data;
}

/* Rows of the whole's table bounds from `row` on are the rows of the part. */
static size_t follows(const rs_result *whole, size_t row, const rs_result *part, int64_t first)
{
    rs_column_data all = column_of(whole, "bounds", "certified_diameter"),
                   some = column_of(part, "bounds", "certified_diameter"),
                   sample = column_of(whole, "bounds", "sample"),
                   own = column_of(part, "bounds", "sample");
    assert_true(some.rows > 0 && row + some.rows <= all.rows);
    assert_memory_equal(all.real + row, some.real, some.rows * sizeof(double));
    for (size_t i = 0; i < some.rows; i++)
        assert_int_equal(sample.integer[row + i], own.integer[i] + first);
    return row + some.rows;
}

static void several_texts_are_their_samples_in_turn(void **state)
{
    static const char *const two[] = {"a.txt", "b.txt"}, *const one[] = {"b.txt"};
    char folder[] = "texts_XXXXXX";
    (void)state;
    speak(folder);
    rs_result *whole = certify_texts(NULL, two, 2), *a = certify_texts("a.txt", NULL, 0),
              *b = certify_texts("b.txt", NULL, 0), *listed = certify_texts(NULL, one, 1);
    rs_column_data first = column_of(whole, "texts", "first_sample"),
                   samples = column_of(whole, "texts", "samples"),
                   file = column_of(whole, "texts", "file");
    assert_int_equal(first.rows, 2);
    assert_string_equal(file.text[1], "b.txt");
    assert_int_equal(first.integer[0], 0);
    assert_int_equal(first.integer[1], samples.integer[0]);
    assert_true(samples.integer[0] > 1 && samples.integer[1] > 0);
    size_t row = follows(whole, 0, a, 0);
    row = follows(whole, row, b, first.integer[1]);
    assert_int_equal(row, column_of(whole, "bounds", "sample").rows);
    assert_int_equal(follows(listed, 0, b, 0), column_of(b, "bounds", "sample").rows);
    rs_result *const all[] = {whole, a, b, listed};
    for (size_t i = 0; i < 4; i++)
        rs_result_free(all[i]);
    forget(folder);
}

static void tolerances_are_checked(void **state)
{
    static const double values[] = {-2, -0.5, HUGE_VAL, -HUGE_VAL};
    (void)state;
    settings s;
    for (size_t i = 0; i <= sizeof values / sizeof *values; i++) {
        init_scan(&s);
        s.scan.tolerance = i < sizeof values / sizeof *values ? values[i] : strtod("nan", NULL);
        refuses(SCAN, &s, RS_E_BAD_OPTION, "tolerance");
    }
}

/* ---- sizes ---- */

static void what_is_larger_than_the_library_knows_is_refused(void **state)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1};
    (void)state;
    for (int c = 0; c < COMMANDS; c++) {
        settings s;
        commands[c].init(&s);
        size_t whole = s.scan.size; /* where every command has it */
        s.scan.size = whole + 1;
        refuses(c, &s, RS_E_USAGE, "size");
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            s.scan.size = sizes[i];
            refuses(c, &s, RS_E_USAGE, "size");
        }
        s.scan.size = SIZE_MAX;
        refuses(c, &s, RS_E_USAGE, "size");
        commands[c].init(&s);
        s.scan.call.reserved[3] = 1;
        refuses(c, &s, RS_E_USAGE, "reserved");
        if (c == SCAN) continue;
        commands[c].init(&s);
        s.probe.run.reserved[3] = 1;
        refuses(c, &s, RS_E_USAGE, "reserved");
    }
}

static size_t count(const rs_result *result, const char *table)
{
    size_t i = 0;
    while (rs_result_table_name(result, i) && strcmp(rs_result_table_name(result, i), table) != 0)
        i++;
    return rs_result_table_name(result, i) ? 1 : 0;
}

/* A caller of an earlier header: what stands behind its struct is not read, and is as by default. */
static void an_earlier_struct_is_taken(void **state)
{
    static const double energies[] = {0.9};
    (void)state;
    settings s;
    rs_result *result;
    memset(&s, 0x55, sizeof s);
    rs_scan_settings_init(&s.scan, offsetof(rs_scan_settings, energies));
    assert_int_equal(s.scan.last_layer, -1);
    assert_true(s.scan.tolerance == -1);
    assert_int_equal(*(unsigned char *)&s.scan.energies, 0x55); /* init keeps to its size, too */
    assert_int_equal(run_scan(&result, MODEL, &s, NULL), RS_OK);
    assert_int_equal(count(result, "energy"), 0);
    rs_result_free(result);
    const size_t behind = offsetof(rs_scan_settings, energies);
    memset((char *)&s.scan + behind, 0, sizeof s.scan - behind);
    s.scan.size = sizeof s.scan;
    s.scan.energies = energies;
    s.scan.n_energies = 1;
    assert_int_equal(run_scan(&result, MODEL, &s, NULL), RS_OK);
    assert_int_equal(count(result, "energy"), 1);
    rs_result_free(result);

    memset(&s, 0x55, sizeof s); /* before `kept`, whose default is not 0 */
    rs_certify_settings_init(&s.certify, offsetof(rs_certify_settings, kept));
    s.certify.run.random = 2;
    assert_int_equal(run_certify(&result, MODEL, &s, NULL), RS_OK);
    rs_result_free(result);
}

/* One of a later header: init clears what it does not know. */
static void init_clears_all_that_the_caller_has(void **state)
{
    (void)state;
    unsigned char bytes[sizeof(rs_paths_settings) + 24];
    rs_paths_settings head;
    memset(bytes, 0x55, sizeof bytes);
    rs_paths_settings_init((rs_paths_settings *)(void *)bytes, sizeof bytes - 8);
    memcpy(&head, bytes, sizeof head);
    assert_int_equal(head.size, sizeof bytes - 8);
    assert_int_equal(head.max_length, -1);
    for (size_t i = sizeof head; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], i < sizeof bytes - 8 ? 0 : 0x55);
    memset(bytes, 0x55, sizeof bytes);
    rs_paths_settings_init((rs_paths_settings *)(void *)bytes, sizeof(size_t) - 1);
    assert_int_equal(bytes[0], 0x55);
}

/* ---- whom a call tells ---- */

typedef struct heard {
    int progress, asked, until;
} heard;

static void count_progress(void *user, const char *phase, uint64_t done, uint64_t total,
                           const char *unit)
{
    heard *h = user;
    assert_true(phase && unit && done <= total);
    h->progress++;
}

static bool stop_later(void *user)
{
    heard *h = user;
    return h->asked++ >= h->until;
}

static void every_command_tells_and_stops(void **state)
{
    static const volatile sig_atomic_t stopped = 1, not_stopped = 0;
    (void)state;
    for (int c = 0; c < COMMANDS; c++) {
        settings s;
        rs_result *result;
        heard h = {.until = 1 << 30};
        commands[c].init(&s);
        rs_call_settings *call = &s.scan.call; /* where every command has it */
        call->progress = count_progress;
        call->user = &h;
        call->stop = &not_stopped;
        assert_int_equal(commands[c].run(&result, MODEL, &s, NULL), RS_OK);
        rs_result_free(result);
        assert_true(h.progress > 0);
        call->cancel = stop_later;
        assert_int_equal(commands[c].run(&result, MODEL, &s, NULL), RS_OK);
        rs_result_free(result);
        h.until = h.asked = 0;
        assert_int_equal(commands[c].run(&result, MODEL, &s, NULL), RS_E_INTERRUPTED);
        assert_null(result);
        assert_int_equal(h.asked, 1);
        call->stop = &stopped; /* the callback need not be asked any more */
        h.until = 1 << 30;
        assert_int_equal(commands[c].run(&result, MODEL, &s, NULL), RS_E_INTERRUPTED);
        call->cancel = NULL;
        assert_int_equal(commands[c].run(&result, MODEL, &s, NULL), RS_E_INTERRUPTED);
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
        cmocka_unit_test(lists_are_checked),
        cmocka_unit_test(texts_are_checked),
        cmocka_unit_test(several_texts_are_their_samples_in_turn),
        cmocka_unit_test(tolerances_are_checked),
        cmocka_unit_test(what_is_larger_than_the_library_knows_is_refused),
        cmocka_unit_test(an_earlier_struct_is_taken),
        cmocka_unit_test(init_clears_all_that_the_caller_has),
        cmocka_unit_test(every_command_tells_and_stops),
        cmocka_unit_test(the_commands_take_no_null),
        cmocka_unit_test(the_readers_of_results_take_no_null),
        cmocka_unit_test(two_outputs_are_two_files),
        cmocka_unit_test(statuses_of_no_name),
    };
    return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
