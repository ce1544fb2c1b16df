/* test_index.c: model.safetensors.index.json, its text and its shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "case_files.h"
#include "checkpoint/checkpoint.h"

#define INDEX "model.safetensors.index.json"
#define A "model-00001-of-00002.safetensors"
#define B "model-00002-of-00002.safetensors"

static void index_case(void **state)
{
    const case_file *test = *state;
    size_t size;
    char *text = read_whole(test->path, &size);
    json_t *map;
    rs_error err = {0};
    rs_status status = rs_index_parse(&map, INDEX, text, size, &err);
    free(text);
    assert_case(test, status, &err);
    if (status == RS_OK)
        assert_true(json_object_size(map) > 0);
    else
        assert_null(map);
    json_decref(map);
}

static void the_map_is_what_the_text_says(void **state)
{
    (void)state;
    static const char text[] = "{\"weight_map\": {\"x\": \"" A "\", \"y\": \"" B "\"}}";
    json_t *map;
    assert_int_equal(rs_index_parse(&map, INDEX, text, sizeof text - 1, NULL), RS_OK);
    assert_string_equal(json_string_value(json_object_get(map, "x")), A);
    assert_string_equal(json_string_value(json_object_get(map, "y")), B);
    json_decref(map);
}

/* ---- with shards on disk ---- */

/* Two shards, "x y" and "z". */
static void fill(const char *folder, const char *index)
{
    put_tensors(folder, A, "x y");
    put_tensors(folder, B, "z");
    put_text(folder, INDEX, index);
}

static const char good[] = "{\"metadata\": {\"total_size\": 3.0}, \"weight_map\": {\"z\": \"" B
                           "\", \"x\": \"" A "\", \"y\": \"" A "\"}}";

static void expect(const char *folder, rs_status wanted, const char *named)
{
    rs_checkpoint *checkpoint;
    rs_error err = {0};
    rs_status status = rs_checkpoint_open(&checkpoint, folder, NULL, &err);
    if (status != wanted || (named && !strstr(err.what, named) && !strstr(err.where, named)))
        fail_msg("%s: %s: %s", rs_status_name(status), err.where, err.what);
    assert_null(checkpoint);
}

static void shards_are_read_in_order(void **state)
{
    fill(*state, good);
    rs_checkpoint *checkpoint;
    rs_error err = {0};
    assert_int_equal(rs_checkpoint_open(&checkpoint, *state, NULL, &err), RS_OK);
    assert_int_equal(checkpoint->n_files, 2);
    assert_string_equal(checkpoint->files[0].name, A);
    assert_int_equal(checkpoint->n_tensors, 3);
    assert_int_equal(rs_checkpoint_find(checkpoint, "z")->file, 1);
    assert_int_equal(checkpoint->notes.n, 0);
    assert_int_equal(rs_tensor_check(checkpoint, &checkpoint->tensors[2], &err), RS_OK);
    rs_checkpoint_close(checkpoint);
}

static void the_index_itself_can_be_named(void **state)
{
    char path[512];
    fill(*state, good);
    put_tensors(*state, "model.safetensors", "other");
    snprintf(path, sizeof path, "%s/" INDEX, (const char *)*state);
    rs_checkpoint *checkpoint;
    assert_int_equal(rs_checkpoint_open(&checkpoint, path, NULL, NULL), RS_OK);
    assert_non_null(rs_checkpoint_find(checkpoint, "z"));
    assert_null(rs_checkpoint_find(checkpoint, "other"));
    rs_checkpoint_close(checkpoint);
}

static void missing_shard(void **state)
{
    char path[512];
    fill(*state, good);
    snprintf(path, sizeof path, "%s/" B, (const char *)*state);
    unlink(path);
    expect(*state, RS_E_INDEX_SHARD_MISSING, B);
    assert_int_equal(symlink("../../blobs/absent", path), 0); /* as a hub cache leaves it */
    expect(*state, RS_E_INDEX_SHARD_MISSING, B);
}

static void shard_that_is_an_lfs_pointer(void **state)
{
    fill(*state, good);
    put_text(*state, B, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    expect(*state, RS_E_LFS_POINTER, B);
}

static void shard_that_is_empty_or_cut(void **state)
{
    fill(*state, good);
    put_text(*state, B, "");
    expect(*state, RS_E_EMPTY_FILE, B);
    put_text(*state, B, "\x40\0\0");
    expect(*state, RS_E_ST_HEADER_TOO_SMALL, B);
}

static void unreadable_shard(void **state)
{
    char path[512];
    fill(*state, good);
    snprintf(path, sizeof path, "%s/" B, (const char *)*state);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(*state, RS_E_UNREADABLE, B);
}

static void tensor_absent_from_its_shard(void **state)
{
    fill(*state, "{\"weight_map\": {\"x\": \"" A "\", \"y\": \"" A "\", \"z\": \"" B
                 "\", \"w.weight\": \"" B "\"}}");
    expect(*state, RS_E_INDEX_TENSOR_MISSING, "w.weight");
}

static void tensor_in_another_shard_than_said(void **state)
{
    fill(*state, "{\"weight_map\": {\"x\": \"" A "\", \"y\": \"" B "\", \"z\": \"" B "\"}}");
    expect(*state, RS_E_INDEX_TENSOR_MISSING, "but it is in " A);
}

static void tensor_in_two_shards(void **state)
{
    fill(*state, good);
    put_tensors(*state, B, "z y");
    expect(*state, RS_E_INDEX_TENSOR_TWICE, "'y' is in " A " and in " B);
}

static void unlisted_tensors_are_noted(void **state)
{
    fill(*state, good);
    put_tensors(*state, B, "z u1 u2 u3 u4 u5 u6");
    rs_checkpoint *checkpoint;
    assert_int_equal(rs_checkpoint_open(&checkpoint, *state, NULL, NULL), RS_OK);
    assert_int_equal(checkpoint->n_tensors, 9);
    assert_int_equal(checkpoint->notes.n, 1);
    assert_string_equal(checkpoint->notes.items[0].code, "unlisted_tensor");
    assert_int_equal(checkpoint->notes.items[0].severity, RS_WARN);
    assert_non_null(strstr(checkpoint->notes.items[0].message, "6 tensors"));
    assert_non_null(strstr(checkpoint->notes.items[0].message, "u5, ..."));
    rs_checkpoint_close(checkpoint);
}

static void unsafe_path_in_a_folder(void **state)
{
    fill(*state, "{\"weight_map\": {\"x\": \"../" A "\"}}");
    expect(*state, RS_E_INDEX_PATH, "'../" A "'");
}

static void index_that_is_an_lfs_pointer(void **state)
{
    fill(*state, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
    expect(*state, RS_E_LFS_POINTER, INDEX);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)

int main(void)
{
    static case_file cases[100];
    static struct CMUnitTest tests[120];
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(the_map_is_what_the_text_says),
        IN_FOLDER(shards_are_read_in_order),
        IN_FOLDER(the_index_itself_can_be_named),
        IN_FOLDER(missing_shard),
        IN_FOLDER(shard_that_is_an_lfs_pointer),
        IN_FOLDER(shard_that_is_empty_or_cut),
        IN_FOLDER(unreadable_shard),
        IN_FOLDER(tensor_absent_from_its_shard),
        IN_FOLDER(tensor_in_another_shard_than_said),
        IN_FOLDER(tensor_in_two_shards),
        IN_FOLDER(unlisted_tensors_are_noted),
        IN_FOLDER(unsafe_path_in_a_folder),
        IN_FOLDER(index_that_is_an_lfs_pointer),
    };
    size_t n = add_case_tests(tests, cases, read_cases(cases, 100, "index"), index_case);
    if (n < 25) return 1;
    memcpy(tests + n, others, sizeof others);
    n += sizeof others / sizeof *others;
    return _cmocka_run_group_tests("index", tests, n, NULL, NULL);
}
