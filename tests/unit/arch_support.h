/* arch_support.h: networks of architecture files, and what their weights are like. Include behind
 * cmocka.h. */
#ifndef RS_TEST_ARCH_SUPPORT_H
#define RS_TEST_ARCH_SUPPORT_H

#include "base/memory.h"
#include "network/arch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct built {
    rs_init *init;
    rs_network *network;
} built;

static inline rs_status build(built *b, const char *text, const char *law, rs_error *err)
{
    *b = (built){NULL, NULL};
    json_error_t why;
    int64_t failures = rs_memory_failures();
    json_t *json = json_loads(text, JSON_DECODE_ANY, &why);
    if (rs_memory_check(failures, "test", err) != RS_OK) {
        json_decref(json);
        return RS_E_NO_MEMORY;
    }
    if (!json) fail_msg("%s: %s", text, why.text);
    rs_status status = rs_init_open(&b->init, law, 1, err);
    if (status == RS_OK)
        status = rs_network_from_arch(&b->network, json, "ARCH.json", b->init, err);
    json_decref(json);
    return status;
}

static inline void unbuild(built *b)
{
    rs_network_close(b->network);
    rs_init_close(b->init);
}

static inline built good(const char *text)
{
    built b;
    rs_error err;
    rs_status status = build(&b, text, NULL, &err);
    if (status != RS_OK) fail_msg("%s: %s: %s; %s", text, err.where, err.what, err.hint);
    return b;
}

static inline double variance(const rs_tensor *tensor)
{
    const float *x = (const float *)(const void *)tensor->data;
    double sum = 0;
    for (int64_t i = 0; i < tensor->count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)tensor->count;
}

/* Variance within five standard errors of a normal sample's. */
static inline void assert_variance(const rs_tensor *tensor, double expected)
{
    double found = variance(tensor);
    if (!(fabs(found / expected - 1) < 5 * sqrt(2.0 / (double)tensor->count)))
        fail_msg("%s: variance %g, not %g", tensor->name, found, expected);
}

static inline void assert_dense(const rs_dense *dense, int64_t out, int64_t in)
{
    assert_non_null(dense->weight);
    assert_null(dense->bias);
    assert_true(dense->out_is_row);
    assert_int_equal(dense->out, out);
    assert_int_equal(dense->in, in);
    assert_int_equal(dense->rows, out);
    assert_int_equal(dense->cols, in);
    assert_int_equal(dense->first, 0);
    assert_int_equal(dense->run, out);
    assert_int_equal(dense->stride, out);
    assert_int_equal(dense->weight->count, out * in);
}

#endif
