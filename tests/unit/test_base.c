/* test_base.c: errors, memory, text, mappings, random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/context.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "base/notes.h"
#include "base/random.h"
#include "base/text.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void error_text_is_safe_to_print(void **state)
{
    (void)state;
    rs_error err;
    assert_int_equal(rs_fail(&err, RS_E_READ, "a\x1b[2Jb", "h", "%s", "line\nnext"), RS_E_READ);
    assert_string_equal(err.where, "a?[2Jb");
    assert_string_equal(err.what, "line?next");
    char longer[4000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    rs_fail(&err, RS_E_READ, longer, NULL, "%s", longer);
    assert_int_equal(strlen(err.where), sizeof err.where - 1);
    assert_string_equal(err.where + sizeof err.where - 4, "...");
    assert_string_equal(err.hint, "");
}

static void every_status_has_name_and_exit_code(void **state)
{
    (void)state;
    assert_string_equal(rs_status_name(RS_E_ST_OFFSETS), "safetensors-offsets");
    assert_int_equal(rs_status_exit_code(RS_OK), 0);
    assert_int_equal(rs_status_exit_code(RS_E_WRITE), 1);
    assert_int_equal(rs_status_exit_code(RS_E_GGUF_MAGIC), 2);
    assert_int_equal(rs_status_exit_code(RS_E_INTERRUPTED), 130);
}

static void allocation_checks_overflow_and_fails_on_request(void **state)
{
    (void)state;
    assert_null(rs_malloc(SIZE_MAX / 2, 3));
    rs_memory_fail_at(2);
    void *first = rs_malloc(1, 1);
    assert_non_null(first);
    assert_null(rs_malloc(1, 1));
    rs_memory_fail_at(0);
    int64_t failures = rs_memory_failures(), blocks = rs_memory_blocks();
    assert_int_equal(rs_memory_check(failures, "x", NULL), RS_OK);
    rs_memory_fail_once(2);
    void *second = rs_malloc(1, 1), *third = rs_malloc(1, 1), *fourth = rs_malloc(1, 1);
    assert_null(third);
    assert_non_null(second = rs_realloc(second, 100, 1));
    assert_int_equal(rs_memory_blocks(), blocks + 2);
    rs_free(second);
    rs_free(fourth);
    rs_free(NULL);
    assert_int_equal(rs_memory_blocks(), blocks);
    assert_int_equal(rs_memory_failures(), failures + 1);
    assert_int_equal(rs_memory_check(failures, "x", NULL), RS_E_NO_MEMORY);
    rs_memory_fail_at(0);
    rs_free(first);
    rs_arena *arena = rs_arena_new();
    for (size_t size = 0; size < 300000; size = size * 3 + 1) {
        char *block = rs_arena_alloc(arena, size, 1);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 16, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(block[i], 0);
        if (size) memset(block, 0xAA, size);
    }
    assert_string_equal(rs_arena_printf(arena, "%d-%s", 7, "x"), "7-x");
    rs_arena_free(arena);
}

static void buffer_and_map(void **state)
{
    (void)state;
    rs_buffer buffer = {0};
    for (int i = 0; i < 1000; i++)
        rs_buffer_printf(&buffer, "%d,", i);
    assert_false(buffer.failed);
    assert_int_equal(buffer.length, 10 * 2 + 90 * 3 + 900 * 4);
    rs_buffer_free(&buffer);

    static char keys[5000][16];
    rs_strmap map = {0};
    bool existed;
    for (int i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        assert_true(rs_strmap_insert(&map, keys[i], strlen(keys[i]), i, &existed));
        assert_false(existed);
    }
    assert_true(rs_strmap_insert(&map, "k17", 3, 99, &existed));
    assert_true(existed);
    assert_int_equal(rs_strmap_get(&map, "k17", 3, -1), 17);
    assert_int_equal(rs_strmap_get(&map, "k5000", 5, -1), -1);
    rs_strmap_free(&map);
}

static void utf8(void **state)
{
    (void)state;
    assert_true(rs_utf8_valid("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 10));
    assert_false(rs_utf8_valid("\xC0\x80", 2));         /* overlong */
    assert_false(rs_utf8_valid("\xE0\x80\x80", 3));     /* overlong */
    assert_false(rs_utf8_valid("\xED\xA0\x80", 3));     /* surrogate */
    assert_false(rs_utf8_valid("\xF4\x90\x80\x80", 4)); /* above U+10FFFF */
    assert_false(rs_utf8_valid("\xE2\x82", 2));         /* cut */
    assert_false(rs_utf8_valid("\x80", 1));
    assert_int_equal(rs_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(rs_edit_distance("", "abc"), 3);
}

static void a_file_cut_while_mapped_is_an_error(void **state)
{
    (void)state;
    char path[] = "/tmp/rs_test_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4 * 65536), 0);
    rs_mapping *mapping;
    rs_error err;
    rs_guard_install();
    assert_int_equal(rs_mapping_open(&mapping, path, &err), RS_OK);
    volatile const uint8_t *data = mapping->data;
    assert_int_equal(data[3 * 65536], 0);
    assert_int_equal(rs_mapping_check(mapping, &err), RS_OK);
    assert_int_equal(ftruncate(fd, 65536), 0);
    assert_int_equal(data[3 * 65536], 0); /* the page is gone: the guard supplies zeros */
    assert_int_equal(rs_mapping_check(mapping, &err), RS_E_TRUNCATED_WHILE_MAPPED);
    assert_string_equal(err.where, path);
    rs_mapping_close(mapping);
    close(fd);
    unlink(path);
    assert_int_equal(rs_mapping_open(&mapping, path, &err), RS_E_NOT_FOUND);
    assert_int_equal(rs_mapping_open(&mapping, "/", &err), RS_E_UNREADABLE);
    assert_int_equal(rs_mapping_open(&mapping, "/dev/null", &err), RS_E_UNREADABLE);
}

/* A temporary file of so many bytes that was last written long ago. */
static int old_file(char *path, off_t size)
{
    const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(futimens(fd, long_ago), 0);
    return fd;
}

static void a_file_changed_while_mapped_is_an_error(void **state)
{
    (void)state;
    char path[] = "/tmp/rs_test_XXXXXX", other[] = "/tmp/rs_other_XXXXXX";
    rs_mapping *mapping;
    rs_error err;
    bool touched;
    int fd = old_file(path, 100);
    assert_int_equal(rs_mapping_open(&mapping, path, &err), RS_OK);
    assert_int_equal(rs_mapping_verify(mapping, &touched, &err), RS_OK);
    assert_false(touched);
    struct stat before, after;
    assert_int_equal(fstat(fd, &before), 0);
    do { /* the file system's time moves in steps */
        assert_int_equal(fchmod(fd, 0640), 0);
        assert_int_equal(fstat(fd, &after), 0);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    assert_int_equal(rs_mapping_verify(mapping, &touched, &err), RS_OK);
    assert_true(touched);
    assert_int_equal(ftruncate(fd, 99), 0); /* inside its only page: no SIGBUS */
    assert_int_equal(rs_mapping_verify(mapping, NULL, &err), RS_E_CHANGED_WHILE_READ);
    assert_int_equal(rs_status_exit_code(err.status), 1);
    assert_non_null(strstr(err.what, "99"));
    rs_mapping_close(mapping);
    close(fd);
    unlink(path);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    fd = old_file(path, 100);
    assert_int_equal(rs_mapping_open(&mapping, path, &err), RS_OK);
    assert_int_equal(pwrite(fd, "x", 1, 50), 1);
    assert_int_equal(rs_mapping_verify(mapping, NULL, &err), RS_E_CHANGED_WHILE_READ);
    rs_mapping_close(mapping);
    assert_int_equal(rs_mapping_open(&mapping, path, &err), RS_OK);
    close(fd);
    close(old_file(other, 100));
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(rs_mapping_verify(mapping, NULL, &err), RS_E_CHANGED_WHILE_READ);
    unlink(path);
    assert_int_equal(rs_mapping_verify(mapping, NULL, &err), RS_E_CHANGED_WHILE_READ);
    rs_mapping_close(mapping);
}

static void no_mapping_is_left_unguarded(void **state)
{
    (void)state;
    enum { ROOM = 4096 };
    static rs_mapping *mappings[ROOM + 1];
    char path[] = "/tmp/rs_test_XXXXXX";
    rs_error err;
    close(old_file(path, 10));
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(rs_mapping_open(&mappings[i], path, &err), RS_OK);
    assert_int_equal(rs_mapping_open(&mappings[ROOM], path, &err), RS_E_UNSUPPORTED);
    assert_null(mappings[ROOM]);
    rs_mapping_close(mappings[0]);
    assert_int_equal(rs_mapping_open(&mappings[0], path, &err), RS_OK);
    for (int i = 0; i < ROOM; i++)
        rs_mapping_close(mappings[i]);
    unlink(path);
}

static void bytes_without_a_size_are_refused(void **state)
{
    (void)state;
    rs_mapping *mapping;
    rs_error err;
    char path[] = "/tmp/rs_test_XXXXXX";
    close(old_file(path, 0));
    assert_int_equal(rs_mapping_open(&mapping, path, &err), RS_OK);
    assert_int_equal(mapping->size, 0);
    rs_mapping_close(mapping);
    unlink(path);
    if (access("/proc/self/status", R_OK) != 0) skip();
    assert_int_equal(rs_mapping_open(&mapping, "/proc/self/status", &err), RS_E_UNREADABLE);
    assert_non_null(strstr(err.what, "size is 0"));
}

static void errors_are_safe_to_print(void **state)
{
    (void)state;
    rs_error err;
    /* ESC, CSI of the second range, soft hyphen, right-to-left override, isolate, zero width, line
     * separator, annotation, tag, a lone byte of CSI; beside letters, accents and emoji */
    static const char hostile[] = "a\x1b"
                                  "b\xC2\x9B"
                                  "c\xC2\xAD"
                                  "d\xE2\x80\xAE"
                                  "e\xE2\x81\xA6"
                                  "f\xE2\x80\x8B"
                                  "g\xE2\x80\xA8"
                                  "h\xEF\xBF\xBA"
                                  "i\xF3\xA0\x81\x81"
                                  "j\x9B"
                                  "k\xC3\xA9\xF0\x9F\x98\x80";
    static const char safe[] = "a?b?c?d?e?f?g?h?i?j?k\xC3\xA9\xF0\x9F\x98\x80";
    rs_fail(&err, RS_E_READ, hostile, hostile, "%s", hostile);
    assert_string_equal(err.where, safe);
    assert_string_equal(err.what, safe);
    assert_string_equal(err.hint, safe);
}

/* Philox4x32-10 with counter 0 and key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (Salmon et al.
 * 2011, known answers). */
static void random_numbers(void **state)
{
    (void)state;
    rs_random random = rs_random_new(0, 0);
    double expected = ((double)((0x6627e8d5e169c58du) >> 11) + 0.5) * 0x1p-53;
    assert_true(rs_random_uniform(&random) == expected);
    /* many at once are the same ones, whatever was drawn before and how many */
    for (size_t n = 0; n < 200; n++) {
        rs_random one = rs_random_new(n, 3), all = one;
        double out[200];
        for (size_t i = 0; i < n % 3; i++)
            assert_true(rs_random_normal(&one) == rs_random_normal(&all));
        rs_random_normals(&all, out, n);
        for (size_t i = 0; i < n; i++)
            assert_true(rs_random_normal(&one) == out[i]);
        assert_true(rs_random_normal(&one) == rs_random_normal(&all));
        assert_true(rs_random_uniform(&one) == rs_random_uniform(&all));
    }
    enum { N = 200000 };
    double sum = 0, square = 0, cube = 0, chi = 0, small = 0;
    for (int i = 0; i < N; i++) {
        double x = rs_random_normal(&random);
        sum += x, square += x * x, cube += x * x * x;
        double c = rs_random_chi(&random, 7.0), s = rs_random_chi(&random, 1.0);
        chi += c * c, small += s * s;
    }
    /* means of N(0,1): 0, 1, 0; E chi2_k = k. Five standard errors. */
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(square / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(cube / N) < 5 * sqrt(15.0 / N));
    assert_true(fabs(chi / N - 7) < 5 * sqrt(14.0 / N));
    assert_true(fabs(small / N - 1) < 5 * sqrt(2.0 / N));
}

static void notes(void **state)
{
    (void)state;
    rs_notes list = {0};
    assert_true(rs_notes_add(&list, RS_WARN, "code", "hint", "%d files", 3));
    assert_string_equal(list.items[0].message, "3 files");
    assert_string_equal(rs_severity_name(list.items[0].severity), "warn");
    rs_notes_free(&list);
    volatile sig_atomic_t stop = 1;
    rs_context context = {.threads = 1, .cancel = &stop};
    assert_int_equal(rs_check_cancelled(&context, NULL), RS_E_INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_text_is_safe_to_print),
        cmocka_unit_test(every_status_has_name_and_exit_code),
        cmocka_unit_test(allocation_checks_overflow_and_fails_on_request),
        cmocka_unit_test(buffer_and_map),
        cmocka_unit_test(utf8),
        cmocka_unit_test(a_file_cut_while_mapped_is_an_error),
        cmocka_unit_test(a_file_changed_while_mapped_is_an_error),
        cmocka_unit_test(no_mapping_is_left_unguarded),
        cmocka_unit_test(bytes_without_a_size_are_refused),
        cmocka_unit_test(errors_are_safe_to_print),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(notes),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
