/* case_files.h: whole files, folders for a test, and the golden lists "NAME STATUS". Include behind
 * cmocka.h. */
#ifndef RS_TEST_CASE_FILES_H
#define RS_TEST_CASE_FILES_H

#include "base/error.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The bytes of a file with a NUL behind them that is not counted; freed by the caller. */
static inline char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be read", path);
    struct stat status;
    if (fstat(fileno(file), &status) != 0) fail_msg("%s has no size", path);
    *size = (size_t)status.st_size;
    char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    bytes[*size] = 0;
    fclose(file);
    return bytes;
}

/* ---- one test for each line of a golden list ---- */

typedef struct case_file {
    char name[64], status[64], path[512];
} case_file;

#ifdef RS_TEST_SEEDS
/* Reads tests/golden/KIND/cases.txt; the files are seeds of fuzz target KIND
 * (fuzz/corpus/KIND.tar.gz), which the build has unpacked. */
static inline size_t read_cases(case_file *cases, size_t most, const char *kind)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/cases.txt", RS_TEST_DATA, kind);
    FILE *file = fopen(path, "r");
    size_t n = 0;
    while (file && n < most && fscanf(file, "%63s %63s", cases[n].name, cases[n].status) == 2) {
        snprintf(cases[n].path, sizeof cases[n].path, "%s/%s/%.63s", RS_TEST_SEEDS, kind,
                 cases[n].name);
        n++;
    }
    if (file) fclose(file);
    return n;
}
#endif

static inline size_t add_case_tests(struct CMUnitTest *tests, case_file *cases, size_t n,
                                    CMUnitTestFunction function)
{
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = function, .initial_state = &cases[i]};
    return n;
}

static inline void assert_case(const case_file *test, rs_status status, const rs_error *err)
{
    if (strcmp(rs_status_name(status), test->status) != 0)
        fail_msg("%s: %s instead of %s (%s)", test->name, rs_status_name(status), test->status,
                 err->what);
    if (status == RS_OK) return;
    assert_int_equal(err->status, status);
    assert_int_equal(rs_status_exit_code(status), 2);
    assert_true(err->where[0] && err->what[0]);
}

/* ---- a folder that a test fills ---- */

static inline int make_folder(void **state)
{
    static char folder[64];
    strcpy(folder, "/tmp/rs_test_XXXXXX");
    *state = mkdtemp(folder);
    return *state ? 0 : -1;
}

static inline void remove_tree(const char *folder)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory)) != NULL) {
        char path[1024];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%.700s/%s", folder, entry->d_name);
        if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
            remove_tree(path);
        else
            unlink(path);
    }
    if (directory) closedir(directory);
    rmdir(folder);
}

static inline int drop_folder(void **state)
{
    remove_tree(*state);
    return 0;
}

static inline void put_bytes(const char *folder, const char *name, const void *bytes, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static inline void put_text(const char *folder, const char *name, const char *text)
{
    put_bytes(folder, name, text, strlen(text));
}

/* A safetensors file of U8 tensors of one byte each, named by a list "a b c". */
static inline void put_tensors(const char *folder, const char *name, const char *tensors)
{
    char header[4096] = "{", bytes[4200], one[64];
    size_t n = 0, length, used;
    for (const char *at = tensors; *at; n++) {
        length = strcspn(at, " ");
        memcpy(one, at, length);
        one[length] = 0;
        used = strlen(header);
        snprintf(header + used, sizeof header - used,
                 "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                 n ? "," : "", one, n, n + 1);
        at += length + (at[length] == ' ');
    }
    strcat(header, "}");
    uint64_t size = strlen(header);
    memcpy(bytes, &size, 8);
    memcpy(bytes + 8, header, size);
    memset(bytes + 8 + size, 7, n);
    put_bytes(folder, name, bytes, 8 + size + n);
}

#endif
