/* test_checkpoint.c: what a path means: files by content, folders by precedence, side files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "case_files.h"
#include "checkpoint/open.h"

#define WHOLE "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define PART1 "model-00001-of-00002.safetensors"
#define PART2 "model-00002-of-00002.safetensors"

/* ---- folders: the choice alone ---- */

static const char *expected_name(rs_choice *choice, rs_notes *notes, const char *folder,
                                 rs_status status)
{
    rs_error err = {0};
    *notes = (rs_notes){0};
    rs_status found = rs_directory_choose(choice, notes, folder, &err);
    if (found != status) fail_msg("%s: %s", rs_status_name(found), err.what);
    return choice->name;
}

/* Creates the files of a list "a b c" (empty ones) and asks for the choice. */
static void expect_choice(const char *folder, const char *files, rs_choice_kind kind,
                          const char *name, const char *note_codes)
{
    char list[512], codes[256] = "", *save;
    strcpy(list, files);
    for (char *file = strtok_r(list, " ", &save); file; file = strtok_r(NULL, " ", &save))
        put_text(folder, file, "");
    rs_choice choice;
    rs_notes notes;
    assert_string_equal(expected_name(&choice, &notes, folder, RS_OK), name);
    assert_int_equal(choice.kind, kind);
    for (size_t i = 0; i < notes.n; i++) {
        if (i > 0) strcat(codes, " ");
        strcat(codes, notes.items[i].code);
    }
    assert_string_equal(codes, note_codes);
    rs_free(choice.name);
    rs_notes_free(&notes);
}

static void expect_none(const char *folder, const char *files, rs_status status, const char *what,
                        const char *hint)
{
    char list[512], *save;
    strcpy(list, files);
    for (char *file = strtok_r(list, " ", &save); file; file = strtok_r(NULL, " ", &save))
        put_text(folder, file, "");
    rs_checkpoint *checkpoint;
    rs_error err = {0};
    assert_int_equal(rs_checkpoint_open(&checkpoint, folder, NULL, &err), status);
    assert_null(checkpoint);
    if (!strstr(err.what, what)) fail_msg("'%s' lacks '%s'", err.what, what);
    if (!strstr(err.hint, hint)) fail_msg("'%s' lacks '%s'", err.hint, hint);
}

static void whole_file_comes_first(void **state)
{
    expect_choice(*state, WHOLE " " INDEX " " PART1 " z.gguf other.safetensors",
                  RS_CHOICE_SAFETENSORS, WHOLE, "ambiguous_checkpoint skipped_file skipped_file");
}

static void index_comes_second(void **state)
{
    expect_choice(*state, INDEX " " PART1 " " PART2 " z.gguf", RS_CHOICE_INDEX, INDEX,
                  "skipped_file");
}

/* A shard is what the index names, whatever it is called. */
static void what_the_index_names_is_not_passed_over(void **state)
{
    put_text(*state, INDEX,
             "{\"weight_map\": {\"a\": \"part1.safetensors\", \"b\": \"model.2.safetensors\", "
             "\"c\": \"part1.safetensors\"}}");
    put_text(*state, "part1.safetensors", "");
    put_text(*state, "model.2.safetensors", "");
    rs_choice choice;
    rs_notes notes;
    assert_string_equal(expected_name(&choice, &notes, *state, RS_OK), INDEX);
    assert_int_equal(choice.kind, RS_CHOICE_INDEX);
    assert_int_equal(notes.n, 0);
    rs_free(choice.name);
    put_text(*state, "part2.safetensors", "");
    put_text(*state, "model.fp16.safetensors", "");
    assert_string_equal(expected_name(&choice, &notes, *state, RS_OK), INDEX);
    assert_int_equal(notes.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(notes.items[i].code, "skipped_file");
        assert_null(strstr(notes.items[i].message, "part1"));
        assert_null(strstr(notes.items[i].message, "model.2"));
        assert_non_null(strstr(notes.items[i].message, i ? "part2" : "model.fp16"));
    }
    rs_free(choice.name);
    rs_notes_free(&notes);
}

static void single_safetensors_comes_third(void **state)
{
    expect_choice(*state, "weights.safetensors z.gguf config.json", RS_CHOICE_SAFETENSORS,
                  "weights.safetensors", "skipped_file");
}

static void a_set_of_one_part_is_a_single_file(void **state)
{
    expect_choice(*state, "model-00001-of-00001.safetensors", RS_CHOICE_SAFETENSORS,
                  "model-00001-of-00001.safetensors", "");
}

static void single_gguf_comes_fourth(void **state)
{
    expect_choice(*state, "z.gguf config.json", RS_CHOICE_GGUF, "z.gguf", "");
}

static void split_gguf_set_is_one(void **state)
{
    expect_choice(*state, "q-00002-of-00003.gguf q-00001-of-00003.gguf q-00003-of-00003.gguf",
                  RS_CHOICE_GGUF, "q-00001-of-00003.gguf", "");
}

static void variants_are_passed_over(void **state)
{
    assert_int_equal(mkdir(strcat(strcpy((char[512]){0}, *state), "/original"), 0700), 0);
    expect_choice(*state,
                  WHOLE " model.fp16.safetensors adapter_model.safetensors "
                        "consolidated.safetensors diffusion_pytorch_model.safetensors",
                  RS_CHOICE_SAFETENSORS, WHOLE, "skipped_file");
}

static void leftovers_of_a_download_are_mentioned(void **state)
{
    expect_choice(*state, WHOLE " 1234.incomplete", RS_CHOICE_SAFETENSORS, WHOLE,
                  "incomplete_download");
}

static void several_files_are_not_guessed_between(void **state)
{
    expect_none(*state, "a.safetensors b.safetensors", RS_E_NO_CHECKPOINT,
                "found: a.safetensors, b.safetensors", "name one of them");
}

static void several_gguf_files_are_not_guessed_between(void **state)
{
    expect_none(*state, "a-q4.gguf b-q8.gguf", RS_E_NO_CHECKPOINT, "a-q4.gguf, b-q8.gguf",
                "name one of them");
}

static void two_split_sets_are_not_guessed_between(void **state)
{
    expect_none(*state, "a-00001-of-00002.gguf a-00002-of-00002.gguf b-00001-of-00002.gguf",
                RS_E_NO_CHECKPOINT, "b-00001-of-00002.gguf", "name one of them");
}

static void only_variants(void **state)
{
    expect_none(*state, "adapter_model.safetensors", RS_E_NO_CHECKPOINT,
                "adapter_model.safetensors", "name the file itself");
}

static void parts_without_index(void **state)
{
    expect_none(*state, PART1 " " PART2, RS_E_NO_CHECKPOINT, PART2, INDEX);
}

static void pickles_only(void **state)
{
    expect_none(*state, "pytorch_model.bin x.pth config.json", RS_E_PICKLE,
                "pytorch_model.bin, x.pth", "convert it to safetensors");
}

static void download_that_left_nothing_else(void **state)
{
    expect_none(*state, "1234.incomplete", RS_E_NO_CHECKPOINT, "1234.incomplete", "incomplete");
}

static void folder_without_anything(void **state)
{
    expect_none(*state, "config.json", RS_E_NO_CHECKPOINT, "no *.safetensors", WHOLE);
}

static void root_of_a_hub_cache(void **state)
{
    assert_int_equal(mkdir(strcat(strcpy((char[512]){0}, *state), "/snapshots"), 0700), 0);
    expect_none(*state, "refs", RS_E_NO_CHECKPOINT, "no *.safetensors", "snapshots/");
}

static void many_names_are_capped(void **state)
{
    char name[32], list[512] = "";
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "f%02d.safetensors ", i);
        strcat(list, name);
    }
    expect_none(*state, list, RS_E_NO_CHECKPOINT, "f07.safetensors and 12 more", "name one");
}

/* ---- whole opening ---- */

static void join(char *path, size_t size, const char *folder, const char *name)
{
    snprintf(path, size, "%s/%s", folder, name);
}

static rs_checkpoint *opened(const char *folder, const char *name)
{
    char path[512];
    join(path, sizeof path, folder, name);
    rs_checkpoint *checkpoint;
    rs_error err = {0};
    rs_status status = rs_checkpoint_open(&checkpoint, path, NULL, &err);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
    return checkpoint;
}

static void expect_refused(const char *folder, const char *name, rs_status status)
{
    char path[512];
    join(path, sizeof path, folder, name);
    rs_checkpoint *checkpoint;
    rs_error err = {0};
    rs_status found = rs_checkpoint_open(&checkpoint, path, NULL, &err);
    if (found != status) fail_msg("%s: %s: %s", name, rs_status_name(found), err.what);
    assert_null(checkpoint);
    assert_non_null(strstr(err.where, name));
}

static void file_takes_the_config_beside_it(void **state)
{
    put_tensors(*state, "w.safetensors", "a b");
    put_text(*state, "config.json", "{\"model_type\": \"bert\", \"x\": Infinity}");
    put_text(*state, "adapter_config.json", "{\"r\": 8}");
    rs_checkpoint *checkpoint = opened(*state, "w.safetensors");
    assert_int_equal(checkpoint->format, RS_FORMAT_SAFETENSORS);
    assert_int_equal(checkpoint->n_tensors, 2);
    assert_string_equal(json_string_value(json_object_get(checkpoint->config, "model_type")),
                        "bert");
    assert_non_null(strstr(checkpoint->config_path, "config.json"));
    assert_int_equal(json_integer_value(json_object_get(checkpoint->adapter_config, "r")), 8);
    float value;
    rs_tensor_decode_f32(&value, rs_checkpoint_find(checkpoint, "b"), 0, 1);
    assert_true(value == 7);
    rs_checkpoint_close(checkpoint);
}

static void config_may_be_absent_but_not_bad(void **state)
{
    put_tensors(*state, WHOLE, "a");
    rs_checkpoint *checkpoint = opened(*state, "");
    assert_null(checkpoint->config);
    assert_null(checkpoint->config_path);
    rs_checkpoint_close(checkpoint);
    put_text(*state, "config.json", "{");
    rs_error err = {0};
    assert_int_equal(rs_checkpoint_open(&checkpoint, *state, NULL, &err), RS_E_JSON_SYNTAX);
    assert_non_null(strstr(err.where, "config.json"));
    put_text(*state, "config.json", "[]");
    assert_int_equal(rs_checkpoint_open(&checkpoint, *state, NULL, &err), RS_E_CONFIG_SCHEMA);
}

/* A path without a folder means the current one. */
static void plain_name_in_the_current_folder(void **state)
{
    char before[512];
    put_tensors(*state, WHOLE, "a");
    put_text(*state, "config.json", "{\"n\": 1}");
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(*state), 0);
    rs_checkpoint *checkpoint;
    rs_status status = rs_checkpoint_open(&checkpoint, WHOLE, NULL, NULL);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, RS_OK);
    assert_non_null(checkpoint->config);
    rs_checkpoint_close(checkpoint);
}

static void one_part_named_is_read_alone(void **state)
{
    put_tensors(*state, PART1, "a");
    put_tensors(*state, PART2, "b");
    rs_checkpoint *checkpoint = opened(*state, PART2);
    assert_int_equal(checkpoint->n_tensors, 1);
    assert_int_equal(checkpoint->notes.n, 1);
    assert_string_equal(checkpoint->notes.items[0].code, "single_shard");
    assert_non_null(strstr(checkpoint->notes.items[0].message, "part 2 of 2"));
    rs_checkpoint_close(checkpoint);
}

static void a_variant_named_is_read(void **state)
{
    put_tensors(*state, WHOLE, "a");
    put_tensors(*state, "model.fp16.safetensors", "b");
    rs_checkpoint *checkpoint = opened(*state, "model.fp16.safetensors");
    assert_non_null(rs_checkpoint_find(checkpoint, "b"));
    rs_checkpoint_close(checkpoint);
}

/* snapshots/REVISION/model.safetensors -> ../../blobs/HASH, named without its suffix there. */
static void links_of_a_hub_cache_are_followed(void **state)
{
    char path[512];
    static const char *const folders[] = {"blobs", "snapshots", "snapshots/abc"};
    for (size_t i = 0; i < 3; i++) {
        join(path, sizeof path, *state, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    put_tensors(*state, "blobs/0123", "a");
    put_text(*state, "blobs/4567", "{}");
    join(path, sizeof path, *state, "snapshots/abc/" WHOLE);
    assert_int_equal(symlink("../../blobs/0123", path), 0);
    join(path, sizeof path, *state, "snapshots/abc/config.json");
    assert_int_equal(symlink("../../blobs/4567", path), 0);
    rs_checkpoint *checkpoint = opened(*state, "snapshots/abc");
    assert_int_equal(checkpoint->n_tensors, 1);
    assert_non_null(checkpoint->config);
    assert_string_equal(checkpoint->files[0].name, WHOLE);
    rs_checkpoint_close(checkpoint);
}

static void content_decides_before_the_name(void **state)
{
    put_tensors(*state, "weights.bin", "a");
    rs_checkpoint *checkpoint = opened(*state, "weights.bin");
    assert_int_equal(checkpoint->n_tensors, 1);
    rs_checkpoint_close(checkpoint);
    put_bytes(*state, "a.safetensors", "GGUF\1\0\0\0", 8); /* version 1: refused by that reader */
    put_bytes(*state, "b.bin", "FUGG\1\0\0\0", 8);         /* its byte-swapped form */
    static const char *const names[] = {"a.safetensors", "b.bin"};
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        join(path, sizeof path, *state, names[i]);
        rs_status status = rs_checkpoint_open(&checkpoint, path, NULL, NULL);
        assert_true(status >= RS_E_GGUF_MAGIC && status <= RS_E_GGUF_SPLIT);
    }
}

static void foreign_files_are_named(void **state)
{
    put_text(*state, "empty.safetensors", "");
    expect_refused(*state, "empty.safetensors", RS_E_EMPTY_FILE);
    put_text(*state, "empty.gguf", "");
    expect_refused(*state, "empty.gguf", RS_E_EMPTY_FILE);
    put_text(*state, "lfs.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    expect_refused(*state, "lfs.gguf", RS_E_LFS_POINTER);
    put_bytes(*state, "pytorch_model.bin", "PK\3\4\0\0\0\0\0\0\0\0", 12);
    expect_refused(*state, "pytorch_model.bin", RS_E_PICKLE);
    put_bytes(*state, "old.pt", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P", 13);
    expect_refused(*state, "old.pt", RS_E_PICKLE);
    put_text(*state, "page.safetensors", "<!DOCTYPE html><html></html>");
    expect_refused(*state, "page.safetensors", RS_E_UNKNOWN_FORMAT);
    put_text(*state, "config.json", "{}");
    expect_refused(*state, "config.json", RS_E_UNKNOWN_FORMAT);
    put_text(*state, "notes.txt", "hello, this is text");
    expect_refused(*state, "notes.txt", RS_E_UNKNOWN_FORMAT);
    put_text(*state, "no.gguf", "hello, this is text");
    expect_refused(*state, "no.gguf", RS_E_GGUF_MAGIC);
    put_bytes(*state, "seven.safetensors", "\0\0\0\0\0\0\0", 7);
    expect_refused(*state, "seven.safetensors", RS_E_ST_HEADER_TOO_SMALL);
    expect_refused(*state, "absent.safetensors", RS_E_NOT_FOUND);
    expect_refused(*state, "notes.txt/x", RS_E_NOT_FOUND);
}

static void a_file_cut_while_open_is_noticed(void **state)
{
    enum { DATA = 1 << 20 };
    static char bytes[DATA + 200];
    uint64_t length = (uint64_t)sprintf(
        bytes + 8, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", DATA, DATA);
    memcpy(bytes, &length, 8);
    memset(bytes + 8 + length, 9, DATA);
    put_bytes(*state, WHOLE, bytes, 8 + length + DATA);
    rs_guard_install();
    rs_checkpoint *checkpoint = opened(*state, WHOLE);
    const rs_tensor *tensor = rs_checkpoint_find(checkpoint, "a");
    float value;
    rs_tensor_decode_f32(&value, tensor, DATA - 1, 1);
    assert_true(value == 9);
    assert_int_equal(rs_tensor_check(checkpoint, tensor, NULL), RS_OK);
    assert_int_equal(truncate(checkpoint->files[0].mapping->path, 8192), 0);
    rs_tensor_decode_f32(&value, tensor, DATA - 1, 1);
    assert_int_equal(rs_tensor_check(checkpoint, tensor, NULL), RS_E_TRUNCATED_WHILE_MAPPED);
    rs_checkpoint_close(checkpoint);
}

/* A header length whose bytes spell a zip's magic is still a header length. */
static void magic_bytes_as_header_length(void **state)
{
    static const char start[] = "\x80\x02\1\0\0\0\0\0{\"__metadata__\":{\"a\":\"";
    enum { LENGTH = 0x10280, HEAD = sizeof start - 1 };
    char *bytes = malloc(8 + LENGTH);
    assert_non_null(bytes);
    memset(bytes, 'x', 8 + LENGTH);
    memcpy(bytes, start, HEAD);
    memcpy(bytes + 8 + LENGTH - 3, "\"}}", 3);
    put_bytes(*state, WHOLE, bytes, 8 + LENGTH);
    free(bytes);
    rs_checkpoint_close(opened(*state, ""));
}

static void same_name_twice_is_refused(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint = rs_checkpoint_new(RS_FORMAT_GGUF, "x");
    char path[512];
    join(path, sizeof path, *state, "f");
    put_text(*state, "f", "x");
    uint32_t first, second;
    assert_int_equal(rs_checkpoint_add_file(checkpoint, path, "f", &first, NULL), RS_OK);
    assert_int_equal(rs_checkpoint_add_file(checkpoint, path, "f", &second, NULL), RS_OK);
    rs_tensor tensor = {.name = "a", .file = first};
    assert_int_equal(rs_checkpoint_add(checkpoint, &tensor, NULL), RS_OK);
    assert_int_equal(rs_checkpoint_add(checkpoint, &tensor, NULL), RS_E_DUPLICATE_TENSOR);
    tensor.file = second;
    assert_int_equal(rs_checkpoint_add(checkpoint, &tensor, NULL), RS_E_DUPLICATE_TENSOR);
    assert_int_equal(checkpoint->n_tensors, 1);
    rs_checkpoint_close(checkpoint);
}

static void long_names_are_cut_whole(void **state)
{
    (void)state;
    char name[400];
    memset(name, 'x', sizeof name);
    for (int i = 203; i < 207; i++) /* a euro sign astride the cut */
        memcpy(name + 3 * (i - 203) + 203, "\xE2\x82\xAC", 3);
    rs_shown shown = rs_show(name, sizeof name);
    assert_true(strlen(shown.text) < sizeof shown.text);
    assert_true(rs_utf8_valid(shown.text, strlen(shown.text)));
    assert_string_equal(shown.text + strlen(shown.text) - 3, "...");
    assert_string_equal(rs_show("short", 5).text, "short");
}

static void walk(const char *path, rs_status otherwise)
{
    rs_checkpoint *checkpoint;
    rs_error err;
    rs_status status;
    int64_t n = 0;
    do {
        rs_memory_fail_at(++n);
        status = rs_checkpoint_open(&checkpoint, path, NULL, &err);
        rs_memory_fail_at(0);
        assert_true(status == otherwise || status == RS_E_NO_MEMORY);
        if (status != RS_OK) assert_null(checkpoint);
    } while (status != otherwise);
    assert_true(n > 5);
    rs_checkpoint_close(checkpoint);
}

static void survives_lack_of_memory(void **state)
{
    put_tensors(*state, PART1, "a b c d e f g h i j k l m n o p q");
    put_tensors(*state, PART2, "aa unlisted");
    put_text(*state, INDEX,
             "{\"weight_map\": {\"a\": \"" PART1 "\", \"b\": \"" PART1 "\", \"aa\": \"" PART2
             "\"}}");
    put_text(*state, "config.json", "{\"a\": NaN}");
    put_text(*state, "adapter_model.safetensors", "");
    put_text(*state, "x.incomplete", "");
    walk(*state, RS_OK);
    char path[512];
    join(path, sizeof path, *state, PART1);
    walk(path, RS_OK);
    join(path, sizeof path, *state, INDEX);
    unlink(path);
    walk(*state, RS_E_NO_CHECKPOINT);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(whole_file_comes_first),
        IN_FOLDER(index_comes_second),
        IN_FOLDER(what_the_index_names_is_not_passed_over),
        IN_FOLDER(single_safetensors_comes_third),
        IN_FOLDER(a_set_of_one_part_is_a_single_file),
        IN_FOLDER(single_gguf_comes_fourth),
        IN_FOLDER(split_gguf_set_is_one),
        IN_FOLDER(variants_are_passed_over),
        IN_FOLDER(leftovers_of_a_download_are_mentioned),
        IN_FOLDER(several_files_are_not_guessed_between),
        IN_FOLDER(several_gguf_files_are_not_guessed_between),
        IN_FOLDER(two_split_sets_are_not_guessed_between),
        IN_FOLDER(only_variants),
        IN_FOLDER(parts_without_index),
        IN_FOLDER(pickles_only),
        IN_FOLDER(download_that_left_nothing_else),
        IN_FOLDER(folder_without_anything),
        IN_FOLDER(root_of_a_hub_cache),
        IN_FOLDER(many_names_are_capped),
        IN_FOLDER(file_takes_the_config_beside_it),
        IN_FOLDER(config_may_be_absent_but_not_bad),
        IN_FOLDER(plain_name_in_the_current_folder),
        IN_FOLDER(one_part_named_is_read_alone),
        IN_FOLDER(a_variant_named_is_read),
        IN_FOLDER(links_of_a_hub_cache_are_followed),
        IN_FOLDER(content_decides_before_the_name),
        IN_FOLDER(foreign_files_are_named),
        IN_FOLDER(a_file_cut_while_open_is_noticed),
        IN_FOLDER(magic_bytes_as_header_length),
        IN_FOLDER(same_name_twice_is_refused),
        cmocka_unit_test(long_names_are_cut_whole),
        IN_FOLDER(survives_lack_of_memory),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
