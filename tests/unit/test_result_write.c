/* test_result_write.c: results into files that appear together; tokenize, lab and what they show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rankscope.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL RS_TEST_DATA "/forward/llama"
#define TOKENIZER RS_TEST_DATA "/tokenizer/bert.json"

/* ---- a folder of the test's own ---- */

static char folder[] = "result_write_XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = calloc(1, 1 << 22);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 22) - 1, file);
    assert_true(n < (1 << 22) - 1);
    fclose(file);
    return text;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static bool is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static void copy(const char *from, const char *to)
{
    char buffer[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        assert_int_equal(fwrite(buffer, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static rs_result *scan(const char *path)
{
    rs_scan_settings settings;
    rs_result *result;
    rs_error err;
    rs_scan_settings_init(&settings, sizeof settings);
    if (rs_scan_checkpoint(&result, path, &settings, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static rs_output_settings outputs(void)
{
    rs_output_settings settings;
    rs_output_settings_init(&settings, sizeof settings);
    return settings;
}

/* ---- files ---- */

static void files_hold_what_the_texts_say(void **state)
{
    (void)state;
    rs_result *result = scan(MODEL);
    rs_output_settings s = outputs();
    char json[64], html[64], csv[64], *text;
    snprintf(json, sizeof json, "%s", in_folder("a.json"));
    snprintf(html, sizeof html, "%s", in_folder("a.html"));
    snprintf(csv, sizeof csv, "%s", in_folder("tables"));
    s.json = json;
    s.html = html;
    s.csv = csv;
    for (int again = 0; again < 2; again++) { /* its own files are replaced */
        assert_int_equal(rs_result_write(result, &s, NULL), RS_OK);
        char *written = read_all(json);
        assert_int_equal(rs_result_text(&text, NULL, result, RS_FORM_JSON, NULL), RS_OK);
        assert_string_equal(written, text);
        rs_text_free(text);
        free(written);
        written = read_all(in_folder("tables/heads.csv"));
        assert_int_equal(rs_result_csv(&text, NULL, result, "heads", NULL), RS_OK);
        assert_string_equal(written, text);
        rs_text_free(text);
        free(written);
        assert_true(is_there(html));
    }
    rs_result_free(result);
    assert_true(is_there(json)); /* they stay */
}

static void all_files_or_none(void **state)
{
    (void)state;
    rs_result *result = scan(MODEL);
    rs_output_settings s = outputs();
    rs_error err;
    char json[64], html[64];
    snprintf(json, sizeof json, "%s", in_folder("b.json"));
    snprintf(html, sizeof html, "%s", in_folder("no/such/folder.html"));
    s.json = json;
    s.html = html;
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_WRITE);
    assert_non_null(strstr(err.hint, "nothing was written"));
    assert_false(is_there(json));
    put(json, "{\"rankscope\":\"of before\"}");
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_WRITE);
    char *before = read_all(json);
    assert_string_equal(before, "{\"rankscope\":\"of before\"}");
    free(before);
    static const volatile sig_atomic_t stopped = 1;
    s.html = NULL;
    s.stop = &stopped;
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_INTERRUPTED);
    before = read_all(json);
    assert_string_equal(before, "{\"rankscope\":\"of before\"}");
    free(before);
    s.stop = NULL;
    assert_int_equal(rs_result_write(result, &s, &err), RS_OK);
    rs_result_free(result);
    unlink(json);
}

static void the_reader_of_a_pipe_goes_away(void **state)
{
    (void)state;
    rs_result *result = scan(MODEL);
    rs_output_settings s = outputs();
    rs_error err;
    int ends[2];
    char json[64], html[64];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    snprintf(json, sizeof json, "/dev/fd/%d", ends[1]);
    snprintf(html, sizeof html, "%s", in_folder("c.html"));
    s.json = json;
    s.html = html;
    close(ends[0]);
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_BROKEN_PIPE);
    assert_non_null(strstr(err.hint, "nothing was written"));
    assert_false(is_there(html));
    close(ends[1]);
    rs_result_free(result);
}

static void what_it_was_made_from_stays(void **state)
{
    (void)state;
    char model[64], config[64], note[64];
    rs_output_settings s = outputs();
    rs_error err;
    snprintf(model, sizeof model, "%s", in_folder("model"));
    snprintf(config, sizeof config, "%s", in_folder("model/config.json"));
    snprintf(note, sizeof note, "%s", in_folder("model/notes.json"));
    assert_int_equal(mkdir(model, 0700), 0);
    copy(MODEL "/config.json", config);
    copy(MODEL "/model.safetensors", in_folder("model/model.safetensors"));
    put(note, "mine");
    rs_result *result = scan(model);
    char *before = read_all(config);
    s.json = config;
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_OVERWRITES_INPUT);
    s.json = note; /* not read, but in the model's folder */
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_OVERWRITES_INPUT);
    char *after = read_all(config), *kept = read_all(note);
    assert_string_equal(before, after);
    assert_string_equal(kept, "mine");
    s.json = in_folder("model/result.json");
    for (int again = 0; again < 2; again++) /* what is rankscope's own may be replaced */
        assert_int_equal(rs_result_write(result, &s, &err), RS_OK);
    free(before);
    free(after);
    free(kept);
    rs_result_free(result);
}

static void two_outputs_are_two_files(void **state)
{
    (void)state;
    rs_result *result = scan(MODEL);
    rs_error err;
    rs_output_settings s = outputs();
    s.json = "same";
    s.html = "./same";
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_BAD_OPTION);
    assert_string_equal(err.where, "html");
    s.json = "-";
    s.html = "/dev/stdout";
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_BAD_OPTION);
    assert_string_equal(err.where, "html");
    s.html = NULL;
    s.text = true;
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_BAD_OPTION);
    assert_string_equal(err.where, "text");
    s.size++;
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_USAGE);
    assert_int_equal(rs_result_write(result, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_result_write(NULL, &s, NULL), RS_E_USAGE);
    rs_output_settings_init(NULL, sizeof s);
    s = outputs();
    assert_int_equal(rs_result_write(result, &s, NULL), RS_OK); /* nowhere */
    s.text = true;
    s.tables = "no_such_table";
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_BAD_OPTION);
    rs_result_free(result);
}

/* ---- files that wait ---- */

static rs_result *probe(const char *output, const char *taps, bool hold)
{
    rs_probe_settings settings;
    rs_result *result;
    rs_error err;
    rs_probe_settings_init(&settings, sizeof settings);
    settings.run.random = 2;
    settings.run.seq_len = 4;
    settings.output = output;
    settings.taps = taps;
    settings.hold = hold;
    if (rs_probe_checkpoint(&result, MODEL, &settings, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static void held_files_appear_with_the_result(void **state)
{
    (void)state;
    char output[64], taps[64], json[64];
    rs_output_settings s = outputs();
    rs_error err;
    snprintf(output, sizeof output, "%s", in_folder("o.safetensors"));
    snprintf(taps, sizeof taps, "%s", in_folder("t.safetensors"));
    snprintf(json, sizeof json, "%s", in_folder("no/such.json"));
    rs_result_free(probe(output, taps, false));
    assert_true(is_there(output) && is_there(taps));
    unlink(output);
    unlink(taps);

    rs_result *result = probe(output, taps, true);
    assert_false(is_there(output) || is_there(taps));
    rs_result_free(result); /* never written: taken back */
    assert_false(is_there(output) || is_there(taps));

    result = probe(output, taps, true);
    s.json = json;
    assert_int_equal(rs_result_write(result, &s, &err), RS_E_WRITE);
    assert_false(is_there(output) || is_there(taps));
    rs_result_free(result);

    result = probe(output, taps, true);
    snprintf(json, sizeof json, "%s", in_folder("held.json"));
    assert_int_equal(rs_result_write(result, &s, &err), RS_OK);
    rs_result_free(result);
    assert_true(is_there(output) && is_there(taps) && is_there(json));
}

/* ---- meta ---- */

static void notes_are_members_of_the_result(void **state)
{
    static const char *const taken[] = {"rankscope", "command", "tables", "figures",
                                        "findings",  "model",   "machine"};
    (void)state;
    rs_result *result = scan(MODEL);
    rs_error err;
    char *text;
    assert_int_equal(rs_result_note(result, "step", "{\"n\": 7, \"loss\": 0.5}", &err), RS_OK);
    assert_int_equal(rs_result_text(&text, NULL, result, RS_FORM_JSON, &err), RS_OK);
    assert_non_null(strstr(text, "\"step\":{\"n\":7,\"loss\":0.5}"));
    static const char *const of_a_run[] = {"\"started\":\"", "\"seconds\":", "\"machine\":{"};
    for (size_t i = 0; i < 3; i++)
        assert_non_null(strstr(text, of_a_run[i]));
    rs_text_free(text);
    assert_int_equal(rs_result_note(result, "step", "8", &err), RS_E_BAD_OPTION);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        assert_int_equal(rs_result_note(result, taken[i], "1", &err), RS_E_BAD_OPTION);
    assert_int_equal(rs_result_note(result, "other", "{", &err), RS_E_JSON_SYNTAX);
    assert_int_equal(rs_result_note(result, "other", "", &err), RS_E_EMPTY_FILE);
    assert_int_equal(rs_result_note(result, "other", NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_result_note(result, NULL, "1", &err), RS_E_USAGE);
    assert_int_equal(rs_result_note(NULL, "other", "1", NULL), RS_E_USAGE);
    rs_result_free(result);
}

/* ---- tokenize and lab ---- */

static void a_text_in_memory_is_as_one_in_a_file(void **state)
{
    static const char text[] = "to be or not to be";
    (void)state;
    rs_tokenize_settings s;
    rs_result *result;
    rs_error err;
    rs_column_data of_file, of_bytes;
    char path[64], *shown;
    snprintf(path, sizeof path, "%s", in_folder("text.txt"));
    put(path, text);
    rs_tokenize_settings_init(&s, sizeof s);
    assert_int_equal(rs_tokenize(&result, TOKENIZER, &s, &err), RS_E_USAGE); /* no text */
    s.text = path;
    s.bytes = text;
    assert_int_equal(rs_tokenize(&result, TOKENIZER, &s, &err), RS_E_USAGE); /* two */
    s.bytes = NULL;
    rs_result *file;
    assert_int_equal(rs_tokenize(&file, TOKENIZER, &s, &err), RS_OK);
    s.text = NULL;
    s.bytes = text;
    s.n_bytes = strlen(text);
    assert_int_equal(rs_tokenize(&result, TOKENIZER, &s, &err), RS_OK);
    assert_int_equal(rs_result_column(&of_file, file, "ids", "id", &err), RS_OK);
    assert_int_equal(rs_result_column(&of_bytes, result, "ids", "id", &err), RS_OK);
    assert_int_equal(of_file.rows, of_bytes.rows);
    assert_true(of_bytes.rows > 4);
    assert_memory_equal(of_file.integer, of_bytes.integer, of_file.rows * sizeof(int64_t));
    /* What the command is for is shown unasked. */
    assert_int_equal(rs_result_text(&shown, NULL, result, RS_FORM_TERMINAL, &err), RS_OK);
    assert_non_null(strstr(shown, "(ids, "));
    rs_text_free(shown);
    rs_result_free(file);
    rs_result_free(result);
    assert_int_equal(rs_tokenize(&result, NULL, &s, &err), RS_E_USAGE);
    assert_int_equal(rs_tokenize(&result, TOKENIZER, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_tokenize(NULL, TOKENIZER, &s, NULL), RS_E_USAGE);
}

static void the_lab_lists_and_runs(void **state)
{
    (void)state;
    rs_lab_settings s;
    rs_result *result;
    rs_error err;
    rs_column_data ids;
    rs_lab_settings_init(&s, sizeof s);
    assert_int_equal(rs_lab(&result, &s, &err), RS_OK);
    assert_int_equal(rs_result_column(&ids, result, "experiments", "id", &err), RS_OK);
    assert_true(ids.rows > 10);
    rs_result_free(result);
    s.experiment = "dobrushin-musk";
    assert_int_equal(rs_lab(&result, &s, &err), RS_E_NOT_FOUND);
    assert_non_null(strstr(err.hint, "dobrushin-mask"));
    s.experiment = "dobrushin-mask";
    assert_int_equal(rs_lab(&result, &s, &err), RS_OK);
    assert_true(rs_result_column_count(result, "claims") > 0);
    rs_result_free(result);
    s.call.threads = -1;
    assert_int_equal(rs_lab(&result, &s, &err), RS_E_BAD_OPTION);
    assert_int_equal(rs_lab(&result, NULL, &err), RS_E_USAGE);
    rs_explain_settings explain;
    rs_explain_settings_init(&explain, sizeof explain);
    explain.word = "stabel rank";
    assert_int_equal(rs_explain(&result, &explain, &err), RS_E_NOT_FOUND);
    assert_non_null(strstr(err.hint, "stable rank"));
    explain.word = "σ"; /* another spelling */
    assert_int_equal(rs_explain(&result, &explain, &err), RS_OK);
    rs_column_data name;
    assert_int_equal(rs_result_column(&name, result, "words", "name", &err), RS_OK);
    assert_string_equal(name.text[0], "singular values");
    rs_result_free(result);
    assert_int_equal(rs_explain(&result, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_doctor(&result, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_doctor(NULL, NULL, NULL), RS_E_USAGE);
}

static int remove_folder(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_what_the_texts_say),
        cmocka_unit_test(all_files_or_none),
        cmocka_unit_test(the_reader_of_a_pipe_goes_away),
        cmocka_unit_test(what_it_was_made_from_stays),
        cmocka_unit_test(two_outputs_are_two_files),
        cmocka_unit_test(held_files_appear_with_the_result),
        cmocka_unit_test(notes_are_members_of_the_result),
        cmocka_unit_test(a_text_in_memory_is_as_one_in_a_file),
        cmocka_unit_test(the_lab_lists_and_runs),
    };
    return cmocka_run_group_tests_name("result_write", tests, make_folder, remove_folder);
}
