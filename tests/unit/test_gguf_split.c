/* test_gguf_split.c: models in several GGUF files. Oracle: the naming and the keys of
 * docs/formats.md, 6, and a set written by the Python package gguf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf_builder.h"

#include <stdio.h>
#include <unistd.h>

static const char *const golden[] = {
    RS_TEST_DATA "/gguf/split/model-00001-of-00003.gguf",
    RS_TEST_DATA "/gguf/split/model-00002-of-00003.gguf",
    RS_TEST_DATA "/gguf/split/model-00003-of-00003.gguf",
};

/* ---- a folder of its own for each test ---- */

static int make_folder(void **state)
{
    char *folder = strdup("/tmp/rs_split_XXXXXX");
    *state = folder;
    return folder && mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf",
                                        "m-00001-of-00001.gguf", "single.gguf"};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", (char *)*state, names[i]);
        unlink(path);
    }
    rmdir(*state);
    free(*state);
    return 0;
}

/* Keys of a part; a negative one is left out. */
typedef struct part {
    int number, count, tensors;
    const char *tensor; /* its only tensor, one float; NULL for none */
} part;

static void write_part(const char *folder, const char *name, part p)
{
    rs_buffer b = {0};
    put_header(&b, 3, p.tensor ? 1 : 0,
               (uint64_t)(p.number >= 0) + (p.count >= 0) + (p.tensors >= 0));
    if (p.number >= 0) put_key(&b, "split.no", U16), put(&b, (uint64_t)p.number, 2);
    if (p.count >= 0) put_key(&b, "split.count", U16), put(&b, (uint64_t)p.count, 2);
    if (p.tensors >= 0) put_key(&b, "split.tensors.count", I32), put(&b, (uint64_t)p.tensors, 4);
    if (p.tensor) {
        put_tensor(&b, p.tensor, 1, NE(1), 0, 0);
        put_padding(&b, 32);
        put_zeros(&b, 4);
    }
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b.data, 1, b.length, file), b.length);
    fclose(file);
    rs_buffer_free(&b);
}

/* Opens folder/name, which must give that status; words are looked for in where and what. */
static void check_open(const char *folder, const char *name, rs_status expected, const char *words)
{
    char path[512];
    rs_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    rs_checkpoint *checkpoint = rs_checkpoint_new(RS_FORMAT_GGUF, path);
    rs_status status = rs_gguf_open(checkpoint, path, &err);
    rs_checkpoint_close(checkpoint);
    if (status != expected)
        fail_msg("%s instead of %s: %s: %s", rs_status_name(status), rs_status_name(expected),
                 err.where, err.what);
    if (words && !strstr(err.what, words) && !strstr(err.where, words))
        fail_msg("'%s' is not in %s: %s", words, err.where, err.what);
}

static const char first[] = "m-00001-of-00002.gguf", second[] = "m-00002-of-00002.gguf";

/* ---- sets that are whole ---- */

static void any_part_opens_all_in_order(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        rs_error err;
        rs_checkpoint *c = rs_checkpoint_new(RS_FORMAT_GGUF, golden[k]);
        assert_int_equal(rs_gguf_open(c, golden[k], &err), RS_OK);
        assert_int_equal(c->n_files, 3);
        assert_string_equal(c->files[0].name, "model-00001-of-00003.gguf");
        assert_string_equal(c->files[2].name, "model-00003-of-00003.gguf");
        assert_int_equal(c->n_tensors, 6);
        for (int i = 0; i < 6; i++) {
            const rs_tensor *t = &c->tensors[i];
            const char name[2] = {(char)('a' + i), 0};
            float value;
            assert_string_equal(t->name, name);
            assert_ptr_equal(rs_checkpoint_find(c, name), t);
            assert_int_equal(t->file, i / 2);
            memcpy(&value, t->data + 20, sizeof value); /* the last of 2 x 3 */
            assert_true(value == (float)i);
        }
        /* the first part's metadata */
        assert_int_equal(json_integer_value(json_object_get(c->config, "test.block_count")), 6);
        assert_int_equal(json_integer_value(json_object_get(c->config, "split.no")), 0);
        rs_checkpoint_close(c);
    }
}

static void a_set_of_two_and_files_on_their_own_are_accepted(void **state)
{
    write_part(*state, first, (part){0, 2, 2, "a"});
    write_part(*state, second, (part){1, 2, 2, "b"});
    check_open(*state, first, RS_OK, NULL);
    check_open(*state, second, RS_OK, NULL);
    write_part(*state, "single.gguf", (part){-1, -1, -1, "a"});
    check_open(*state, "single.gguf", RS_OK, NULL);
    write_part(*state, "m-00001-of-00001.gguf", (part){0, 1, 1, "a"});
    check_open(*state, "m-00001-of-00001.gguf", RS_OK, NULL);
    write_part(*state, "m-00001-of-00001.gguf", (part){-1, -1, -1, "a"});
    check_open(*state, "m-00001-of-00001.gguf", RS_OK, NULL);
}

static void a_first_part_of_metadata_only_is_accepted(void **state)
{
    write_part(*state, first, (part){0, 2, 1, NULL});
    write_part(*state, second, (part){1, 2, 1, "b"});
    check_open(*state, first, RS_OK, NULL);
}

/* ---- sets that are not ---- */

static void refuses_a_missing_part_and_names_it(void **state)
{
    write_part(*state, first, (part){0, 2, 2, "a"});
    check_open(*state, first, RS_E_GGUF_SPLIT, second);
    check_open(*state, first, RS_E_GGUF_SPLIT, "part 2 of 2 is missing");
    check_open(*state, second, RS_E_GGUF_SPLIT, second);
}

static void refuses_a_part_under_another_name(void **state)
{
    write_part(*state, "single.gguf", (part){1, 3, 9, "a"});
    check_open(*state, "single.gguf", RS_E_GGUF_SPLIT, "part 2 of 3");
}

static void refuses_parts_without_split_keys(void **state)
{
    write_part(*state, second, (part){1, 2, 2, "b"});
    write_part(*state, first, (part){0, -1, 2, "a"});
    check_open(*state, first, RS_E_GGUF_SPLIT, "split.count");
    write_part(*state, first, (part){-1, 2, 2, "a"});
    check_open(*state, first, RS_E_GGUF_SPLIT, "split.no");
    write_part(*state, first, (part){0, 2, -1, "a"});
    check_open(*state, first, RS_E_GGUF_SPLIT, "split.tensors.count");
}

static void refuses_parts_whose_keys_contradict_their_names(void **state)
{
    write_part(*state, first, (part){0, 2, 2, "a"});
    write_part(*state, second, (part){0, 2, 2, "b"});
    check_open(*state, first, RS_E_GGUF_SPLIT, second);
    write_part(*state, second, (part){1, 3, 2, "b"});
    check_open(*state, first, RS_E_GGUF_SPLIT, "part 2 of 3");
}

static void refuses_tensor_counts_that_disagree(void **state)
{
    write_part(*state, first, (part){0, 2, 2, "a"});
    write_part(*state, second, (part){1, 2, 3, "b"});
    check_open(*state, first, RS_E_GGUF_SPLIT, "3 tensors, the first part says 2");
    write_part(*state, first, (part){0, 2, 3, "a"});
    check_open(*state, first, RS_E_GGUF_SPLIT, "hold 2 tensors; their metadata say 3");
    write_part(*state, "m-00001-of-00001.gguf", (part){0, 1, 7, "a"});
    check_open(*state, "m-00001-of-00001.gguf", RS_E_GGUF_SPLIT, "7 tensors");
}

static void refuses_split_keys_that_are_no_numbers(void **state)
{
    rs_buffer b = {0};
    char path[512];
    put_header(&b, 3, 0, 1);
    put_key(&b, "split.count", STRING);
    put_string(&b, "two");
    snprintf(path, sizeof path, "%s/%s", (char *)*state, first);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b.data, 1, b.length, file), b.length);
    fclose(file);
    rs_buffer_free(&b);
    check_open(*state, first, RS_E_GGUF_SPLIT, "split.count must be a whole number");
}

static void refuses_the_same_tensor_in_two_parts(void **state)
{
    write_part(*state, first, (part){0, 2, 2, "a"});
    write_part(*state, second, (part){1, 2, 2, "a"});
    check_open(*state, first, RS_E_DUPLICATE_TENSOR, NULL);
}

static void a_bad_part_is_refused_for_its_own_reason(void **state)
{
    char path[512];
    write_part(*state, first, (part){0, 2, 2, "a"});
    snprintf(path, sizeof path, "%s/%s", (char *)*state, second);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fclose(file);
    check_open(*state, first, RS_E_EMPTY_FILE, second);
    check_open(*state, "absent.gguf", RS_E_NOT_FOUND, "absent.gguf");
}

/* ---- memory ---- */

static void *counted(size_t size)
{
    return rs_malloc(1, size);
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    json_set_alloc_funcs(counted, rs_free);
    rs_status status = RS_E_NO_MEMORY;
    int64_t n = 0;
    while (status != RS_OK) {
        rs_error err = {0};
        rs_memory_fail_at(++n);
        rs_checkpoint *c = rs_checkpoint_new(RS_FORMAT_GGUF, golden[1]);
        status = c ? rs_gguf_open(c, golden[1], &err) : RS_E_NO_MEMORY;
        rs_memory_fail_at(0);
        rs_checkpoint_close(c);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 30);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_part_opens_all_in_order),
        IN_A_FOLDER(a_set_of_two_and_files_on_their_own_are_accepted),
        IN_A_FOLDER(a_first_part_of_metadata_only_is_accepted),
        IN_A_FOLDER(refuses_a_missing_part_and_names_it),
        IN_A_FOLDER(refuses_a_part_under_another_name),
        IN_A_FOLDER(refuses_parts_without_split_keys),
        IN_A_FOLDER(refuses_parts_whose_keys_contradict_their_names),
        IN_A_FOLDER(refuses_tensor_counts_that_disagree),
        IN_A_FOLDER(refuses_split_keys_that_are_no_numbers),
        IN_A_FOLDER(refuses_the_same_tensor_in_two_parts),
        IN_A_FOLDER(a_bad_part_is_refused_for_its_own_reason),
        cmocka_unit_test(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("gguf_split", tests, NULL, NULL);
}
