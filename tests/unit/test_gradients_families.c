/*
 * test_gradients_families.c: gradients of the small models of every family, held against central
 * differences of a loss that the test computes from the forward pass, along eight directions of each
 * parameter in float64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_catch.h"
#include "gradient_support.h"

#include <dirent.h>
#include <unistd.h>

enum { DIRECTIONS = 8 };

/* The number of faults of one folder of tests/golden/forward; *compared counts models. */
static int one_family(const char *name, int *compared)
{
    char path[512];
    rs_checkpoint *checkpoint, *inputs;
    rs_checkpoint_options options = {0};
    rs_network *network;
    rs_error err = {0};
    input in;
    snprintf(path, sizeof path, "%s/forward/%s/golden.safetensors", RS_TEST_DATA, name);
    if (rs_checkpoint_open(&inputs, path, &options, NULL) != RS_OK) return 0;
    snprintf(path, sizeof path, "%s/forward/%s/model.gguf", RS_TEST_DATA, name);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/forward/%s", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&checkpoint, path, &options, &err), RS_OK);
    if (rs_network_open(&network, checkpoint, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    read_input(&in, inputs);
    int wrong = check_network(name, network, &in.batch, DIRECTIONS, 31);
    ++*compared;
    free(in.ids);
    free(in.images);
    free(in.memory);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    rs_checkpoint_close(inputs);
    return wrong;
}

static void agrees_with_differences(void **state)
{
    (void)state;
    int wrong = 0, compared = 0;
    DIR *folder = opendir(RS_TEST_DATA "/forward");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') wrong += one_family(entry->d_name, &compared);
    closedir(folder);
    assert_true(compared >= 80);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_differences)};
    return cmocka_run_group_tests_name("gradients_families", tests, NULL, NULL);
}
