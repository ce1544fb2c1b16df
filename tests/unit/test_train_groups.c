/* test_train_groups.c: which tensors words and expressions choose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "train/groups.h"

#include <string.h>

static void test_roles(void **state)
{
    (void)state;
    static const struct {
        rs_role role;
        bool gain, bias;
        unsigned words;
    } cases[] = {
        {RS_ROLE_Q, false, false, RS_GROUP_ATTENTION | RS_GROUP_MIXER},
        {RS_ROLE_O, false, true, RS_GROUP_ATTENTION | RS_GROUP_MIXER | RS_GROUP_BIAS},
        {RS_ROLE_Q_BIAS, false, false, RS_GROUP_ATTENTION | RS_GROUP_MIXER | RS_GROUP_BIAS},
        {RS_ROLE_Q_GATE, false, false, RS_GROUP_ATTENTION | RS_GROUP_MIXER},
        {RS_ROLE_Q_NORM, true, false, RS_GROUP_NORM},
        {RS_ROLE_NORM_MIXER, false, false, RS_GROUP_NORM},
        {RS_ROLE_NORM_MLP_BIAS, false, true, RS_GROUP_NORM},
        {RS_ROLE_UNKNOWN, true, false, RS_GROUP_NORM},
        {RS_ROLE_MLP_UP, false, false, RS_GROUP_MLP},
        {RS_ROLE_MOE_EXPERT, false, false, RS_GROUP_MLP},
        {RS_ROLE_EMBED_POSITION, false, false, RS_GROUP_EMBEDDING},
        {RS_ROLE_LM_HEAD, false, false, RS_GROUP_HEAD},
        {RS_ROLE_HEAD_BIAS, false, false, RS_GROUP_HEAD | RS_GROUP_BIAS},
        {RS_ROLE_HEAD_FUSION, false, false, RS_GROUP_HEAD},
        {RS_ROLE_SSM_IN, false, false, RS_GROUP_MIXER},
        {RS_ROLE_SSM_B_NORM, false, false, RS_GROUP_NORM},
        {RS_ROLE_DELTA_Q, false, false, RS_GROUP_MIXER},
        {RS_ROLE_UNKNOWN, false, false, RS_GROUP_STRENGTH},
        {RS_ROLE_LAYER_SCALE, false, false, RS_GROUP_STRENGTH},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        assert_int_equal(rs_group_words_of(cases[c].role, cases[c].gain, cases[c].bias),
                         cases[c].words);
}

static double find(rs_groups *groups, const char *name, unsigned words)
{
    double value = 0;
    rs_error err;
    assert_int_equal(rs_groups_find(&value, groups, name, words, -1, &err), RS_OK);
    return value;
}

static void test_values(void **state)
{
    (void)state;
    static const rs_group_value values[] = {{"^layers\\.0\\.", 0.5}, {"default", 0.1},
                                            {"attention", 0.3},      {"norm", 0},
                                            {"bias", 0.01},          {"wq$", 0.7}};
    rs_groups *groups = NULL;
    rs_error err;
    assert_int_equal(rs_groups_new(&groups, values, 6, "t.json", "weight_decay", &err), RS_OK);
    unsigned attention = RS_GROUP_ATTENTION | RS_GROUP_MIXER;
    assert_true(find(groups, "layers.1.wk", attention) == 0.3);
    assert_true(find(groups, "layers.1.w1", RS_GROUP_MLP) == 0.1);
    assert_true(find(groups, "layers.1.w1.bias", RS_GROUP_MLP | RS_GROUP_BIAS) == 0.01);
    assert_true(find(groups, "layers.1.bk", attention | RS_GROUP_BIAS) == 0.01); /* the later */
    assert_true(find(groups, "layers.1.wq", attention) == 0.7);
    assert_int_equal(rs_groups_check(groups, &err), RS_E_TASK_SCHEMA); /* the first, not yet */
    assert_true(find(groups, "layers.0.norm", RS_GROUP_NORM) == 0.5);  /* before words */
    assert_true(find(groups, "layers.0.wq", attention) == 0.7);
    assert_true(find(groups, "layers.10.norm", RS_GROUP_NORM) == 0);
    assert_int_equal(rs_groups_check(groups, &err), RS_OK);
    rs_groups_free(groups);
    assert_int_equal(rs_groups_new(&groups, values, 0, "t.json", "lr_factor", &err), RS_OK);
    assert_true(find(groups, "x", 0) == -1);
    rs_groups_free(groups);
}

static void test_refusals(void **state)
{
    (void)state;
    rs_groups *groups = NULL;
    rs_error err;
    const rs_group_value broken = {"a(", 1}, typo = {"atention", 1};
    assert_int_equal(rs_groups_new(&groups, &broken, 1, "t.json", "weight_decay", &err),
                     RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.what, "\"weight_decay\" has \"a(\""));
    assert_int_equal(rs_groups_new(&groups, &typo, 1, "t.json", "weight_decay", &err), RS_OK);
    assert_true(find(groups, "layers.0.attention.wq", RS_GROUP_ATTENTION) == -1);
    assert_int_equal(rs_groups_check(groups, &err), RS_E_TASK_SCHEMA);
    assert_non_null(strstr(err.hint, "\"attention\""));
    rs_groups_free(groups);
}

static void test_memory(void **state)
{
    (void)state;
    static const rs_group_value values[] = {{"attention", 1}, {"wq$", 2}};
    int64_t blocks = rs_memory_blocks();
    rs_status status = RS_E_NO_MEMORY;
    for (int64_t n = 1; status != RS_OK; n++) {
        rs_groups *groups = NULL;
        rs_error err;
        double value;
        rs_memory_fail_at(n);
        status = rs_groups_new(&groups, values, 2, "t", "f", &err);
        if (status == RS_OK) status = rs_groups_find(&value, groups, "layers.0.wq", 0, 0, &err);
        rs_memory_fail_at(0);
        rs_groups_free(groups);
        assert_int_equal(rs_memory_blocks(), blocks);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
