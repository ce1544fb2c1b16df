/* test_budget.c: how much memory a run may take, from files that look like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/budget.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/rs_budget_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

#define MEMINFO "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:    4000000 kB\n"
#define AVAILABLE ((uint64_t)4000000 * 1024)

static void expect(uint64_t bytes, const char *who)
{
    rs_memory_bound bound = rs_memory_bound_under(root);
    if (bound.bytes != bytes) fail_msg("%llu", (unsigned long long)bound.bytes);
    assert_string_equal(bound.who, who);
    assert_false(bound.asked);
}

static const char machine[] = "this machine has", group[] = "this control group may take";

static void the_smaller_of_machine_and_groups(void **state)
{
    (void)state;
    put("/proc/meminfo", MEMINFO);
    expect(AVAILABLE, machine);
    put("/proc/self/cgroup", "0::/\n");
    expect(AVAILABLE, machine);

    /* version 2: the group, one above it, the top */
    put("/proc/self/cgroup", "0::/user.slice/job.scope\n");
    put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
    expect(AVAILABLE, machine);
    put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "9000000000\n");
    expect(AVAILABLE, machine);
    put("/sys/fs/cgroup/user.slice/job.scope/memory.max", "3000000000\n");
    expect(3000000000u, group);
    put("/sys/fs/cgroup/user.slice/memory.max", "2000000000\n");
    expect(2000000000u, group);
    put("/sys/fs/cgroup/memory.max", "1000000000\n");
    expect(1000000000u, group);

    /* version 1, beside version 2's line: a path that a container does not see falls to the top */
    put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/docker/0123\n1:name=systemd:/x\n");
    expect(AVAILABLE, machine);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect(AVAILABLE, machine);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500000000\n");
    expect(500000000u, group);
    put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "400000000\n");
    expect(400000000u, group);
    put("/proc/self/cgroup", "nonsense\n:\n\n7:memoryless:/docker/0123\n");
    expect(AVAILABLE, machine);
}

static void what_was_asked_for_comes_first(void **state)
{
    (void)state;
    rs_memory_bound bound = rs_memory_bound_of(12345);
    assert_int_equal(bound.bytes, 12345);
    assert_true(bound.asked);
    bound = rs_memory_bound_of(0);
    assert_true(bound.bytes > 0);
    assert_false(bound.asked);
}

static void sums_and_what_is_said(void **state)
{
    (void)state;
    rs_error err;
    rs_budget budget = {0};
    const rs_memory_bound bound = {3000, "this test has", false};
    rs_budget_add(&budget, "weights", 1024);
    rs_budget_add(&budget, "states", 900);
    rs_budget_add(&budget, "weights", 1024);
    assert_int_equal(rs_budget_check(&budget, bound, "model", "less", &err), RS_OK);
    rs_budget_add(&budget, "scraps", 8);
    rs_budget_add(&budget, "states", 100);
    assert_int_equal(rs_budget_check(&budget, bound, "model", "less", &err), RS_E_MEMORY_LIMIT);
    assert_int_equal(rs_status_exit_code(RS_E_MEMORY_LIMIT), 2);
    assert_string_equal(err.what, "the weights need 2.0 KiB, the states need 1000 bytes, together "
                                  "3.0 KiB; this test has 2.9 KiB");
    assert_string_equal(err.hint, "less");
    /* beyond every integer, and more parts than there are places for */
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g",
                                        "h", "i", "j", "k", "l", "m", "n"};
    rs_budget many = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rs_budget_add(&many, names[i], 1e300);
    assert_int_equal(rs_budget_check(&many, bound, "model", NULL, NULL), RS_E_MEMORY_LIMIT);
}

static void threads_share_half_of_the_bound(void **state)
{
    (void)state;
    rs_memory_bound bound = {1000, "", true};
    assert_int_equal(rs_budget_threads(0, bound, 8), 8);
    assert_int_equal(rs_budget_threads(62.5, bound, 8), 8);
    assert_int_equal(rs_budget_threads(63, bound, 8), 7);
    assert_int_equal(rs_budget_threads(250, bound, 8), 2);
    assert_int_equal(rs_budget_threads(251, bound, 8), 1);
    assert_int_equal(rs_budget_threads(1e300, bound, 8), 1);
    assert_int_equal(rs_budget_threads(1, (rs_memory_bound){0}, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_smaller_of_machine_and_groups, make_root, remove_root),
        cmocka_unit_test(what_was_asked_for_comes_first),
        cmocka_unit_test(sums_and_what_is_said),
        cmocka_unit_test(threads_share_half_of_the_bound),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
