/*
 * test_open_once.c: a checkpoint that is recognised once, for a pass and for a scan, gives the scan
 * that it gives when it is recognised for the scan alone: of every small model, byte for byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "network/network.h"
#include "scan/scan.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* What a scan of the model writes, its notes included. */
static char *scan_of(const rs_model *model)
{
    rs_buffer text = {0};
    rs_scan_options options;
    const rs_context context = {.threads = 1};
    rs_result *result = rs_result_new("scan");
    rs_scan_defaults(&options);
    assert_int_equal(rs_scan(result, model, &options, &context, NULL), RS_OK);
    assert_int_equal(rs_write_json(&text, result, NULL), RS_OK);
    assert_false(text.failed);
    rs_result_free(result);
    return text.data;
}

/* without: a field that the configuration leaves to its default; NULL: none. */
static void one_checkpoint(const char *path, const char *without, int *scanned)
{
    rs_checkpoint *checkpoint;
    rs_checkpoint_options how = {0};
    rs_model *both = NULL, *alone;
    rs_network *network;
    rs_error err = {0};
    assert_int_equal(rs_checkpoint_open(&checkpoint, path, &how, &err), RS_OK);
    if (without) assert_int_equal(json_object_del(checkpoint->config, without), 0);
    rs_status expected = rs_model_open(&alone, checkpoint, NULL, NULL, NULL);
    rs_status status = rs_network_open_with_model(&network, &both, checkpoint, &err);
    if (status != expected) fail_msg("%s: %s", path, err.what);
    if (status == RS_OK) {
        char *a = scan_of(alone), *b = scan_of(both);
        if (strcmp(a, b) != 0) fail_msg("%s: another scan", path);
        rs_free(a);
        rs_free(b);
        (*scanned)++;
    }
    rs_model_close(alone);
    rs_model_close(both);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

static void one_recognition_serves_both(void **state)
{
    (void)state;
    char path[1024];
    int scanned = 0;
    snprintf(path, sizeof path, "%s/forward", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/forward/%s/model.gguf", RS_TEST_DATA, entry->d_name);
        FILE *file = fopen(path, "rb");
        if (file)
            fclose(file);
        else
            snprintf(path, sizeof path, "%s/forward/%s", RS_TEST_DATA, entry->d_name);
        one_checkpoint(path, NULL, &scanned);
    }
    closedir(folder);
    assert_true(scanned > 50);
}

/* A pass takes the field's default, a scan the configuration as it is, where the model is of another
 * family, whose shapes its tensors have not: both are refused, as a scan alone is. */
static void what_scan_refuses_is_refused(void **state)
{
    (void)state;
    int scanned = 0;
    one_checkpoint(RS_TEST_DATA "/forward/falcon", "multi_query", &scanned);
    assert_int_equal(scanned, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_recognition_serves_both),
        cmocka_unit_test(what_scan_refuses_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
