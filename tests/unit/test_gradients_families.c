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

#include "golden_family.h"
#include "gradient_support.h"

#include <dirent.h>

enum { DIRECTIONS = 8 };

/* The number of faults of one folder of tests/golden/forward; *compared counts models. */
static int one_family(const char *name, int *compared)
{
    golden_family f;
    if (!open_family(&f, name, true)) return 0;
    int wrong = check_network(name, f.network, &f.in.batch, DIRECTIONS, 31);
    ++*compared;
    close_family(&f);
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
