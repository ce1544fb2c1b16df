/* test_output.c: a file appears whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/rs_output_XXXXXX";

static const char *in_folder(const char *name)
{
    static char paths[4][PATH_MAX];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static void expect(const char *path, const char *text, mode_t mode)
{
    char bytes[100] = {0};
    struct stat st;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, sizeof bytes - 1, f), strlen(text));
    fclose(f);
    assert_string_equal(bytes, text);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
}

static int files_in_folder(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int begin(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    umask(022);
    signal(SIGXFSZ, SIG_IGN);
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void new_and_replaced_files(void **state)
{
    (void)state;
    rs_error err;
    const char *path = in_folder("new.json");
    assert_int_equal(rs_output_write(path, "one", 3, NULL, &err), RS_OK);
    expect(path, "one", 0644);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(rs_output_write(path, "second", 6, NULL, &err), RS_OK);
    expect(path, "second", 0600);
    assert_int_equal(rs_output_write(path, "", 0, NULL, &err), RS_OK);
    expect(path, "", 0600);
    assert_int_equal(files_in_folder(), 1);
}

static void links_stay_links(void **state)
{
    (void)state;
    rs_error err;
    struct stat st;
    put(in_folder("target"), "old", 0640);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(symlink("not_yet", in_folder("dangling")), 0);
    assert_int_equal(symlink("loop", in_folder("loop")), 0);
    assert_int_equal(rs_output_write(in_folder("link"), "new", 3, NULL, &err), RS_OK);
    assert_int_equal(lstat(in_folder("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    expect(in_folder("target"), "new", 0640);
    assert_int_equal(rs_output_write(in_folder("dangling"), "made", 4, NULL, &err), RS_OK);
    expect(in_folder("not_yet"), "made", 0644);
    assert_int_equal(rs_output_write(in_folder("loop"), "x", 1, NULL, &err), RS_E_WRITE);
}

static void inputs_are_never_overwritten(void **state)
{
    (void)state;
    rs_error err;
    struct stat st;
    put(in_folder("model"), "weights", 0644);
    assert_int_equal(link(in_folder("model"), in_folder("hard")), 0);
    assert_int_equal(symlink("model", in_folder("soft")), 0);
    assert_int_equal(stat(in_folder("model"), &st), 0);
    rs_file_id inputs[] = {{1, 2}, {(uint64_t)st.st_dev, (uint64_t)st.st_ino}};
    const rs_input_files files = {.ids = inputs, .n = 2};
    static const char *const names[] = {"model", "hard", "soft"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(rs_output_write(in_folder(names[i]), "x", 1, &files, &err),
                         RS_E_OVERWRITES_INPUT);
    expect(in_folder("model"), "weights", 0644);
    assert_int_equal(files_in_folder(), 3);
}

static void a_full_disk_changes_nothing(void **state)
{
    (void)state;
    rs_error err;
    static char bytes[100000];
    put(in_folder("report"), "before", 0644);
    assert_int_equal(rs_output_write("/dev/full", "x", 1, NULL, &err), RS_E_WRITE);
    assert_non_null(strstr(err.hint, "space"));
    struct rlimit old, small = {.rlim_cur = 10000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rs_status existing = rs_output_write(in_folder("report"), bytes, sizeof bytes, NULL, &err);
    rs_status fresh = rs_output_write(in_folder("fresh"), bytes, sizeof bytes, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(existing, RS_E_WRITE);
    assert_int_equal(fresh, RS_E_WRITE);
    expect(in_folder("report"), "before", 0644);
    assert_int_equal(files_in_folder(), 1);
}

static void places_that_cannot_be_written(void **state)
{
    (void)state;
    rs_error err;
    assert_int_equal(rs_output_write(folder, "x", 1, NULL, &err), RS_E_WRITE);
    assert_int_equal(rs_output_write(in_folder("no/such/file"), "x", 1, NULL, &err), RS_E_WRITE);
    assert_non_null(strstr(err.hint, "folder"));
    assert_int_equal(rs_output_write("", "x", 1, NULL, &err), RS_E_WRITE);
    assert_int_equal(rs_output_write("/dev/null", "x", 1, NULL, &err), RS_OK);
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(files_in_folder(), 0);
}

static void a_pipe_is_written_directly(void **state)
{
    (void)state;
    rs_error err;
    char bytes[10] = {0};
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    int fd = open(in_folder("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(rs_output_write(in_folder("pipe"), "hello", 5, NULL, &err), RS_OK);
    assert_int_equal(read(fd, bytes, sizeof bytes), 5);
    assert_string_equal(bytes, "hello");
    close(fd);
}

/* A child is stopped by a signal in the middle of a write (its size limit):
 * its handler abandons. */
static void on_signal(int number)
{
    (void)number;
    rs_output_abandon();
    _exit(42);
}

static void a_signal_leaves_no_temporary_file(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        static char bytes[100000];
        struct rlimit small = {10000, 10000};
        signal(SIGXFSZ, on_signal);
        setrlimit(RLIMIT_FSIZE, &small);
        rs_output_write(in_folder("report"), bytes, sizeof bytes, NULL, NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    assert_int_equal(files_in_folder(), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
/* ---- in pieces ---- */

static void pieces_become_a_file(void **state)
{
    (void)state;
    rs_error err;
    rs_output *output;
    const char *path = in_folder("pieces");
    put(path, "old", 0640);
    assert_int_equal(rs_output_open(&output, path, 6, NULL, &err), RS_OK);
    assert_int_equal(rs_output_put(output, 4, "ef", 2, &err), RS_OK);
    expect(path, "old", 0640);
    assert_int_equal(rs_output_put(output, 0, "abcd", 4, &err), RS_OK);
    assert_int_equal(rs_output_put(output, 5, "xy", 2, &err), RS_E_INTERNAL);
    assert_int_equal(rs_output_put(output, UINT64_MAX, "x", 1, &err), RS_E_INTERNAL);
    assert_int_equal(rs_output_commit(output, &err), RS_OK);
    expect(path, "abcdef", 0640);
    unlink(path);
}

static void discarded_pieces_leave_nothing(void **state)
{
    (void)state;
    rs_error err;
    rs_output *output;
    const char *path = in_folder("discarded");
    assert_int_equal(rs_output_open(&output, path, 3, NULL, &err), RS_OK);
    assert_int_equal(rs_output_put(output, 0, "abc", 3, &err), RS_OK);
    rs_output_discard(output);
    rs_output_discard(NULL);
    assert_int_equal(files_in_folder(), 0);
}

static void pieces_are_refused_where_a_file_cannot_be(void **state)
{
    (void)state;
    rs_error err;
    rs_output *output;
    struct stat st;
    assert_int_equal(rs_output_open(&output, "/dev/null", 3, NULL, &err), RS_E_WRITE);
    assert_int_equal(rs_output_open(&output, folder, 3, NULL, &err), RS_E_WRITE);
    assert_int_equal(rs_output_open(&output, "", 3, NULL, &err), RS_E_WRITE);
    assert_int_equal(rs_output_open(&output, in_folder("huge"), UINT64_MAX, NULL, &err),
                     RS_E_WRITE);
    const char *path = in_folder("input");
    put(path, "old", 0600);
    assert_int_equal(stat(path, &st), 0);
    rs_file_id input = {(uint64_t)st.st_dev, (uint64_t)st.st_ino};
    const rs_input_files files = {.ids = &input, .n = 1};
    assert_int_equal(rs_output_open(&output, path, 3, &files, &err), RS_E_OVERWRITES_INPUT);
    assert_null(output);
    expect(path, "old", 0600);
    unlink(path);
}

/* ---- several together ---- */

static void outputs_appear_together(void **state)
{
    (void)state;
    rs_error err;
    rs_outputs outputs = {0};
    rs_input_files files = {.outputs = &outputs};
    rs_output *pieces;
    put(in_folder("old"), "before", 0640);
    assert_int_equal(rs_output_write(in_folder("new"), "one", 3, &files, &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("old"), "two", 3, &files, &err), RS_OK);
    assert_int_equal(rs_output_open(&pieces, in_folder("pieces"), 5, &files, &err), RS_OK);
    assert_int_equal(rs_output_put(pieces, 0, "three", 5, &err), RS_OK);
    assert_int_equal(rs_output_commit(pieces, &err), RS_OK);
    expect(in_folder("old"), "before", 0640);
    assert_int_equal(access(in_folder("new"), F_OK), -1);
    assert_int_equal(rs_outputs_place(&outputs, &err), RS_OK);
    rs_outputs_keep(&outputs);
    expect(in_folder("new"), "one", 0644);
    expect(in_folder("old"), "two", 0640);
    expect(in_folder("pieces"), "three", 0644);
    assert_int_equal(files_in_folder(), 3);
}

/* One of them may not replace another, whatever its name is written like; a link to nowhere is no folder. */
static void no_two_have_one_name(void **state)
{
    (void)state;
    rs_error err;
    char what[200];
    rs_outputs outputs = {0};
    rs_input_files files = {.outputs = &outputs};
    assert_int_equal(rs_outputs_make_folder(&outputs, in_folder("made"), &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("made/new"), "one", 3, &files, &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("./made/new"), "two", 3, &files, &err),
                     RS_E_OVERWRITES_INPUT);
    assert_int_equal(symlink("nowhere", in_folder("link")), 0);
    assert_int_equal(rs_outputs_make_folder(&outputs, in_folder("link"), &err), RS_E_WRITE);
    rs_outputs_undo(&outputs, what, sizeof what);
    assert_string_equal(what, "nothing was written");
    assert_int_equal(unlink(in_folder("link")), 0);
    assert_int_equal(files_in_folder(), 0);
}

static void one_that_fails_takes_all_back(void **state)
{
    (void)state;
    rs_error err;
    char what[200];
    rs_outputs outputs = {0};
    rs_input_files files = {.outputs = &outputs};
    put(in_folder("old"), "before", 0640);
    assert_int_equal(rs_outputs_make_folder(&outputs, in_folder("made"), &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("made/new"), "one", 3, &files, &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("old"), "two", 3, &files, &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("third"), "three", 5, &files, &err), RS_OK);
    assert_int_equal(mkdir(in_folder("third"), 0700), 0); /* a folder cannot be replaced */
    assert_int_equal(rs_outputs_place(&outputs, &err), RS_E_WRITE);
    rs_outputs_undo(&outputs, what, sizeof what);
    assert_string_equal(what, "nothing was written");
    expect(in_folder("old"), "before", 0640);
    assert_int_equal(files_in_folder(), 2);
}

/* An error of a pipe comes last, when the files have their names. */
static void a_pipe_that_fails_takes_the_files_back(void **state)
{
    (void)state;
    rs_error err;
    char what[200];
    rs_outputs outputs = {0};
    rs_input_files files = {.outputs = &outputs};
    assert_int_equal(rs_output_write("/dev/full", "x", 1, &files, &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("new"), "one", 3, &files, &err), RS_OK);
    assert_int_equal(rs_outputs_place(&outputs, &err), RS_E_WRITE);
    assert_int_equal(access(in_folder("new"), F_OK), 0);
    rs_outputs_undo(&outputs, what, sizeof what);
    assert_int_equal(files_in_folder(), 0);
}

/* A child whose outputs are in place, not yet kept, is ended by a signal. */
static void a_signal_takes_placed_files_back(void **state)
{
    (void)state;
    put(in_folder("old"), "before", 0640);
    pid_t child = fork();
    if (child == 0) {
        rs_outputs outputs = {0};
        rs_input_files files = {.outputs = &outputs};
        signal(SIGUSR1, on_signal);
        rs_outputs_make_folder(&outputs, in_folder("made"), NULL);
        rs_output_write(in_folder("made/new"), "one", 3, &files, NULL);
        rs_output_write(in_folder("old"), "two", 3, &files, NULL);
        rs_outputs_place(&outputs, NULL);
        if (access(in_folder("made/new"), F_OK) == 0) raise(SIGUSR1);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 42);
    expect(in_folder("old"), "before", 0640);
    assert_int_equal(files_in_folder(), 1);
}

static void descriptors_are_written_as_they_are(void **state)
{
    (void)state;
    rs_error err;
    char name[40];
    put(in_folder("log"), "before ", 0644);
    int fd = open(in_folder("log"), O_WRONLY | O_APPEND);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    assert_int_equal(symlink(name, in_folder("link")), 0);
    assert_true(rs_output_same(name, in_folder("link")));
    assert_true(rs_output_same("/dev/stdout", "/dev/fd/1"));
    assert_false(rs_output_same("/dev/stdout", name));
    assert_false(rs_output_same(in_folder("log"), name));
    assert_false(rs_output_same(NULL, name) || rs_output_same(name, NULL));
    assert_int_equal(rs_output_write(name, "and ", 4, NULL, &err), RS_OK);
    assert_int_equal(rs_output_write(in_folder("link"), "after", 5, NULL, &err), RS_OK);
    expect(in_folder("log"), "before and after", 0644);
    close(fd);
    assert_int_equal(rs_output_write(name, "x", 1, NULL, &err), RS_E_WRITE);
    assert_true(rs_output_same(in_folder("log"), in_folder("log")));
    assert_true(rs_output_same("/dev/stdout", "/dev/fd/1"));
    assert_false(rs_output_same("/dev/stdout", "/dev/stderr"));
}

/* The folder of a model: what exists there is an input, but for what rankscope wrote. */
static void files_of_a_model_are_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new;
        rs_status status;
    } cases[] = {
        {"{}", "{\"rankscope\":\"1\"}", RS_E_OVERWRITES_INPUT},
        {"{\"rankscope\":\"0\"}", "{}", RS_OK},
        {"<!doctype html><meta name=\"generator\" content=\"rankscope\">", "x", RS_OK},
        {"<!doctype html><p>", "x", RS_E_OVERWRITES_INPUT},
        {"12345678{\"__metadata__\":{\"format\":\"pt\",\"rankscope\":\"0\"}}", "x", RS_OK},
        {"12345678{\"__metadata__\":{\"format\":\"pt\"}}", "x", RS_E_OVERWRITES_INPUT},
        {"layer,head\n1,2\n", "layer,head\n3,4\n", RS_OK},
        {"layer,head\n1,2\n", "head,layer,rank\n3,4\n", RS_OK},
        {"layer,head,rank\n1,2\n", "head,layer\n3,4\n", RS_OK},
        {"layer,note\n1,2\n", "layer,head\n3,4\n", RS_E_OVERWRITES_INPUT},
        {"layer", "layer,head\n3,4\n", RS_E_OVERWRITES_INPUT},
        {"", "layer,head\n", RS_E_OVERWRITES_INPUT},
    };
    rs_error err;
    rs_input_files files = {0};
    assert_int_equal(rs_input_files_model(&files, in_folder("weights.gguf"), &err), RS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(in_folder("out"), cases[i].old, 0644);
        const char *bytes = cases[i].new;
        assert_int_equal(rs_output_write(in_folder("out"), bytes, strlen(bytes), &files, &err),
                         cases[i].status);
        expect(in_folder("out"), cases[i].status == RS_OK ? bytes : cases[i].old, 0644);
    }
    rs_input_files_free(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(new_and_replaced_files),
        CASE(links_stay_links),
        CASE(inputs_are_never_overwritten),
        CASE(a_full_disk_changes_nothing),
        CASE(places_that_cannot_be_written),
        CASE(a_pipe_is_written_directly),
        CASE(a_signal_leaves_no_temporary_file),
        CASE(pieces_become_a_file),
        CASE(discarded_pieces_leave_nothing),
        CASE(pieces_are_refused_where_a_file_cannot_be),
        CASE(outputs_appear_together),
        CASE(no_two_have_one_name),
        CASE(one_that_fails_takes_all_back),
        CASE(a_pipe_that_fails_takes_the_files_back),
        CASE(a_signal_takes_placed_files_back),
        CASE(descriptors_are_written_as_they_are),
        CASE(files_of_a_model_are_inputs),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
