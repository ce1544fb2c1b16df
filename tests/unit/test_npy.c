/* test_npy.c: .npy files, good and bad, built from the published description of the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/npy.h"

#include <stdio.h>
#include <string.h>

typedef struct file {
    uint8_t bytes[512];
    size_t length;
} file;

/* A file of version `major` with this header text and `data` bytes of elements behind it. */
static file make(int major, const char *header, const void *data, size_t data_length)
{
    file f = {.bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)major, 0}};
    size_t prefix = major == 1 ? 10 : 12, length = strlen(header);
    f.bytes[8] = (uint8_t)(length & 0xff);
    f.bytes[9] = (uint8_t)(length >> 8);
    memcpy(f.bytes + prefix, header, length);
    if (data_length) memcpy(f.bytes + prefix + length, data, data_length);
    f.length = prefix + length + data_length;
    return f;
}

static void test_types(void **state)
{
    (void)state;
    const int32_t i4[] = {0, 1, 2, 3, 4, -5};
    const int64_t i8[] = {0, 1, 2, 3, 4, -5000000000};
    const float f4[] = {0, 1, 2, 3, 4, -0.5f};
    const double f8[] = {0, 1, 2, 3, 4, 1e300};
    const uint8_t u1[] = {0, 1, 2, 3, 4, 200};
    const struct {
        const char *descr;
        const void *data;
        size_t size;
        rs_npy_type type;
    } cases[] = {{"<i4", i4, 4, RS_NPY_I32},
                 {"<i8", i8, 8, RS_NPY_I64},
                 {"<f4", f4, 4, RS_NPY_F32},
                 {"<f8", f8, 8, RS_NPY_F64},
                 {"|u1", u1, 1, RS_NPY_U8}};
    for (int major = 1; major <= 3; major++)
        for (size_t c = 0; c < 5; c++) {
            char header[128];
            snprintf(header, sizeof header,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }            \n",
                     cases[c].descr);
            file f = make(major, header, cases[c].data, 6 * cases[c].size);
            rs_npy array;
            rs_error err;
            assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, f.length, &err), RS_OK);
            assert_int_equal(array.type, cases[c].type);
            assert_int_equal(array.rank, 2);
            assert_true(array.shape[0] == 2 && array.shape[1] == 3 && array.count == 6);
            double reals[6];
            int64_t integers[2];
            assert_int_equal(rs_npy_is_whole(&array), c < 2 || c == 4);
            if (c == 2 || c == 3) {
                rs_npy_reals(reals, &array, 0, 6);
                assert_true(reals[4] == 4 && reals[5] == (c == 2 ? -0.5 : 1e300));
            } else {
                rs_npy_integers(integers, &array, 4, 2);
                assert_true(integers[0] == 4 && integers[1] == (c == 4   ? 200
                                                                : c == 0 ? -5
                                                                         : -5000000000));
            }
        }
}

static void test_shapes(void **state)
{
    (void)state;
    const struct {
        const char *shape;
        uint32_t rank;
        int64_t count;
    } cases[] = {{"()", 0, 1},     {"(3,)", 1, 3},      {"(3, )", 1, 3},  {"(2, 2)", 2, 4},
                 {"(0, 5)", 2, 0}, {"(1,2,2,1)", 4, 4}, {"(2, 2,)", 2, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char header[128];
        int32_t data[8] = {0};
        rs_npy array;
        rs_error err;
        snprintf(header, sizeof header, "{'shape': %s, \"fortran_order\": False, 'descr': '<i4'}",
                 cases[c].shape);
        file f = make(1, header, data, 4 * (size_t)cases[c].count);
        assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, f.length, &err), RS_OK);
        assert_int_equal(array.rank, cases[c].rank);
        assert_true(array.count == cases[c].count);
    }
}

static void test_bad_headers(void **state)
{
    (void)state;
    const struct {
        const char *header, *what;
    } cases[] = {
        {"", "the header is not"},
        {"{", "the header is not"},
        {"{}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "the header is not"},
        {"{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,)}",
         "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1)}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (-1,)}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,)} trailing", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': Maybe, 'shape': (1,)}", "the header is not"},
        {"{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}",
         "the header is not"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         "the header is not"},
        {"{'descr': '<i4', 'fortran_order': True, 'shape': (1,)}", "Fortran order"},
        {"{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}", "type '>i4'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "type '|O'"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
         "larger than any file"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", "4 bytes follow"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (0,)}", "4 bytes follow"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rs_npy array;
        rs_error err;
        int32_t one = 1;
        file f = make(1, cases[c].header, &one, 4);
        assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, f.length, &err), RS_E_INPUT_FORMAT);
        if (!strstr(err.what, cases[c].what)) fail_msg("case %zu says '%s'", c, err.what);
    }
}

static void test_bad_files(void **state)
{
    (void)state;
    rs_npy array;
    rs_error err;
    int32_t one = 1;
    file f = make(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", &one, 4);
    assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, 0, &err), RS_E_EMPTY_FILE);
    for (size_t length = 1; length < f.length; length++)
        assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, length, &err), RS_E_INPUT_FORMAT);
    assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, f.length, &err), RS_OK);
    f.bytes[6] = 4;
    assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, f.length, &err), RS_E_INPUT_FORMAT);
    f.bytes[6] = 2; /* a header of 2^16 times the length */
    assert_int_equal(rs_npy_parse(&array, "x.npy", f.bytes, f.length, &err), RS_E_INPUT_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
