/* test_safetensors.c: the reader of safetensors headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "case_files.h"
#include "checkpoint/open.h"
#include "checkpoint/safetensors_scan.h"
#include "memory_checkpoint.h"
#include "property.h"

#include <math.h>

static const rs_checkpoint_options strict = {.lenient = false}, lenient = {.lenient = true};

/* ---- golden cases ---- */

static void header_case(void **state)
{
    const case_file *test = *state;
    size_t size;
    char *bytes = read_whole(test->path, &size);
    memory_checkpoint memory = memory_checkpoint_new(bytes, size);
    free(bytes);
    rs_error err = {0};
    rs_status status = rs_safetensors_read(memory.checkpoint, 0, &strict, &err);
    assert_case(test, status, &err);
    const rs_checkpoint *checkpoint = memory.checkpoint;
    for (size_t i = 0; status == RS_OK && i < checkpoint->n_tensors; i++) {
        const rs_tensor *tensor = &checkpoint->tensors[i];
        assert_ptr_equal(rs_checkpoint_find(checkpoint, tensor->name), tensor);
        assert_true(tensor->data >= memory.bytes + 8);
        assert_true(tensor->data + tensor->bytes <= memory.bytes + size);
        if (i > 0) assert_ptr_equal(tensor->data, tensor[-1].data + tensor[-1].bytes);
    }
    memory_checkpoint_free(&memory);
}

/* ---- bytes made here ---- */

/* "N, header" then `data` bytes counting up. */
static memory_checkpoint make(const char *header, size_t data)
{
    uint64_t length = strlen(header);
    uint8_t *bytes = malloc(8 + length + data);
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[8 + length + i] = (uint8_t)(i + 1);
    memory_checkpoint memory = memory_checkpoint_new(bytes, 8 + length + data);
    free(bytes);
    return memory;
}

static void trailing_bytes_are_a_note_when_lenient(void **state)
{
    (void)state;
    memory_checkpoint memory =
        make("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 6);
    rs_error err = {0};
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, &lenient, &err), RS_OK);
    assert_int_equal(memory.checkpoint->notes.n, 1);
    assert_string_equal(memory.checkpoint->notes.items[0].code, "trailing_bytes");
    assert_int_equal(memory.checkpoint->notes.items[0].severity, RS_WARN);
    assert_non_null(strstr(memory.checkpoint->notes.items[0].message, "4 bytes"));
    memory_checkpoint_free(&memory);
}

/* --lenient forgives trailing bytes and nothing else. */
static void lenient_forgives_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        rs_status status;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, RS_E_ST_INCOMPLETE},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, RS_E_ST_OFFSETS},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, RS_E_ST_SIZE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memory_checkpoint memory = make(rows[i].header, rows[i].data);
        assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, &lenient, NULL), rows[i].status);
        memory_checkpoint_free(&memory);
    }
}

static void tensors_are_in_the_order_of_their_data(void **state)
{
    (void)state;
    memory_checkpoint memory =
        make("{\"c\":{\"dtype\":\"U8\",\"shape\":[1,2],\"data_offsets\":[3,5]},"
             "\"z2\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
             "\"z1\":{\"dtype\":\"F64\",\"shape\":[7,0],\"data_offsets\":[1,1]},"
             "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[1,3]},"
             "\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
             5);
    const rs_checkpoint *checkpoint = memory.checkpoint;
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, NULL, NULL), RS_OK);
    static const char *const names[] = {"a", "z2", "z1", "b", "c"};
    assert_int_equal(checkpoint->n_tensors, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(checkpoint->tensors[i].name, names[i]);
    const rs_tensor *b = rs_checkpoint_find(checkpoint, "b");
    assert_int_equal(b->rank, 0);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->bytes, 2);
    assert_int_equal(b->type_id, -1);
    const rs_tensor *c = rs_checkpoint_find(checkpoint, "c");
    assert_int_equal(c->shape[0], 1);
    assert_int_equal(c->shape[1], 2);
    assert_int_equal(c->data[0], 4);
    assert_int_equal(rs_checkpoint_find(checkpoint, "z1")->count, 0);
    assert_null(rs_checkpoint_find(checkpoint, "d"));
    memory_checkpoint_free(&memory);
}

static void escaped_names_are_decoded(void **state)
{
    (void)state;
    memory_checkpoint memory =
        make("{\"\\u0061\\ud83d\\ude00\\u00E9\\u20ac\\\"\\\\\\/\\b\\f\\n\\r\\t\":"
             "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
             0);
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, NULL, NULL), RS_OK);
    assert_string_equal(memory.checkpoint->tensors[0].name,
                        "a\xF0\x9F\x98\x80\xC3\xA9\xE2\x82\xAC\"\\/\b\f\n\r\t");
    memory_checkpoint_free(&memory);
}

static void messages_name_what_is_wrong(void **state)
{
    (void)state;
    rs_error err;
    memory_checkpoint memory =
        make("{\"h.0.w\":{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, NULL, &err), RS_E_ST_DTYPE);
    assert_non_null(strstr(err.what, "'F99'"));
    assert_non_null(strstr(err.what, "'h.0.w'"));
    memory_checkpoint_free(&memory);
    memory = make("{\"h.0.w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,11]}}", 11);
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, NULL, &err), RS_E_ST_SIZE);
    assert_non_null(strstr(err.what, "needs 12 bytes"));
    assert_non_null(strstr(err.what, "hold 11"));
    memory_checkpoint_free(&memory);
}

static void too_many_tensors_are_refused(void **state)
{
    (void)state;
    memory_checkpoint memory =
        make("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0);
    memory.checkpoint->n_tensors = RS_MAX_TENSORS; /* as if other parts had brought them */
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, NULL, NULL), RS_E_TOO_MANY_TENSORS);
    memory.checkpoint->n_tensors = 0;
    memory_checkpoint_free(&memory);
}

/* A million tensors in reverse order: must end, sorted, and within the test's patience. */
static void a_million_tensors(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *header = malloc((size_t)N * 96);
    assert_non_null(header);
    size_t used = 0;
    for (int i = N - 1; i >= 0; i--)
        used += (size_t)sprintf(header + used,
                                "%c\"t.%d\":{\"dtype\":\"U8\",\"shape\":[1],"
                                "\"data_offsets\":[%d,%d]}",
                                i == N - 1 ? '{' : ',', i, i, i + 1);
    strcpy(header + used, "}");
    memory_checkpoint memory = make(header, N);
    free(header);
    rs_error err = {0};
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, &strict, &err), RS_OK);
    assert_int_equal(memory.checkpoint->n_tensors, N);
    for (size_t i = 0; i < N; i += 997) {
        char name[16];
        snprintf(name, sizeof name, "t.%zu", i);
        assert_string_equal(memory.checkpoint->tensors[i].name, name);
        assert_int_equal(memory.checkpoint->tensors[i].data[0], (uint8_t)(i + 1));
    }
    memory_checkpoint_free(&memory);
}

/* Keys of the metadata are remembered only to find one that repeats: their number is bounded. */
static void too_many_metadata_keys_are_refused(void **state)
{
    (void)state;
    enum { N = RS_JSON_SCAN_KEYS + 1 };
    char *header = malloc((size_t)N * 16 + 64);
    assert_non_null(header);
    size_t used = (size_t)sprintf(header, "{\"__metadata__\":{\"0\":\"\"");
    for (int i = 1; i < N; i++)
        used += (size_t)sprintf(header + used, ",\"%x\":\"\"", (unsigned)i);
    strcpy(header + used, "}}");
    memory_checkpoint memory = make(header, 0);
    free(header);
    rs_error err;
    assert_int_equal(rs_safetensors_read(memory.checkpoint, 0, &strict, &err), RS_E_ST_HEADER_JSON);
    assert_non_null(strstr(err.what, "more than 1000000 keys"));
    memory_checkpoint_free(&memory);
}

/* ---- property: what was laid out at random is found again ---- */

typedef struct laid {
    char name[32];
    rs_dtype dtype;
    unsigned rank;
    int64_t shape[4];
    size_t begin, end;
} laid;

static unsigned below(rs_random *random, unsigned n)
{
    return (unsigned)(rs_random_uniform(random) * n);
}

/* Fills in everything but the offsets; sizes such that sub-byte types end at a byte. */
static size_t lay_out(laid *tensor, int i, rs_random *random)
{
    tensor->dtype = RS_BOOL + below(random, RS_U64 - RS_BOOL + 1);
    const rs_dtype_traits *traits = rs_dtype_info(tensor->dtype);
    snprintf(tensor->name, sizeof tensor->name, "t%d.%s", i, traits->name);
    size_t blocks = 1;
    tensor->rank = below(random, 4);
    for (unsigned k = 0; k < tensor->rank; k++) {
        tensor->shape[k] = below(random, 5);
        blocks *= (size_t)tensor->shape[k];
    }
    if (traits->block > 1) tensor->shape[tensor->rank++] = traits->block;
    return blocks * traits->bits / 8;
}

static void write_entry(char *text, const laid *tensor)
{
    text += sprintf(text, "\"%s\":{\"dtype\":\"%s\",\"shape\":[", tensor->name,
                    rs_dtype_info(tensor->dtype)->name);
    for (unsigned k = 0; k < tensor->rank; k++)
        text += sprintf(text, "%s%lld", k ? "," : "", (long long)tensor->shape[k]);
    sprintf(text, "],\"data_offsets\":[%zu,%zu]}", tensor->begin, tensor->end);
}

static void check_laid(const memory_checkpoint *memory, const laid *tensor, size_t data_begin)
{
    const rs_tensor *found = rs_checkpoint_find(memory->checkpoint, tensor->name);
    assert_non_null(found);
    assert_int_equal(found->dtype, tensor->dtype);
    assert_int_equal(found->rank, tensor->rank);
    assert_memory_equal(found->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    assert_ptr_equal(found->data, memory->bytes + data_begin + tensor->begin);
    assert_int_equal(found->bytes, tensor->end - tensor->begin);
}

static void random_layouts_are_read_back(void **state)
{
    (void)state;
    enum { MOST = 12 };
    for (int trial = property_start(300, 11000000); property_next(&trial);) {
        rs_random random = property_random();
        laid tensors[MOST];
        char header[MOST * 200] = "{", one[200];
        int n = (int)below(&random, MOST + 1), order[MOST];
        size_t end = 0;
        for (int i = 0; i < n; i++) {
            size_t size = lay_out(&tensors[i], i, &random);
            tensors[i].begin = end;
            tensors[i].end = end += size;
            int j = (int)below(&random, (unsigned)i + 1); /* Fisher-Yates, inside out */
            order[i] = order[j];
            order[j] = i;
        }
        for (int i = 0; i < n; i++) {
            write_entry(one, &tensors[order[i]]);
            if (i > 0) strcat(header, ",");
            strcat(header, one);
        }
        strcat(header, "}");
        memory_checkpoint memory = make(header, end);
        rs_error err = {0};
        if (rs_safetensors_read(memory.checkpoint, 0, &strict, &err) != RS_OK)
            fail_msg("%s: %s", header, err.what);
        assert_int_equal(memory.checkpoint->n_tensors, n);
        for (int i = 0; i < n; i++)
            check_laid(&memory, &tensors[i], 8 + strlen(header));
        memory_checkpoint_free(&memory);
    }
}

/* ---- files of the safetensors package (tests/oracle/make_dtype_golden.py) ---- */

static void check_line(const rs_checkpoint *checkpoint, char *line)
{
    char *save, *name = strtok_r(line, " ", &save), *dtype = strtok_r(NULL, " ", &save);
    const rs_tensor *tensor = rs_checkpoint_find(checkpoint, name);
    assert_non_null(tensor);
    assert_string_equal(rs_dtype_info(tensor->dtype)->name, dtype);
    assert_int_equal(tensor->rank, atoi(strtok_r(NULL, " ", &save)));
    for (uint32_t k = 0; k < tensor->rank; k++)
        assert_int_equal(tensor->shape[k], atoll(strtok_r(NULL, " ", &save)));
    for (int64_t i = 0; i < tensor->count; i++) {
        double expected = strtod(strtok_r(NULL, " ", &save), NULL), found;
        rs_tensor_decode_f64(&found, tensor, i, 1);
        if (!(found == expected && signbit(found) == signbit(expected)) &&
            !(isnan(found) && isnan(expected)))
            fail_msg("%s[%lld]: %.17g instead of %.17g", name, (long long)i, found, expected);
    }
    assert_null(strtok_r(NULL, " ", &save));
}

static void check_package_file(const char *name)
{
    char path[512];
    size_t size, lines = 0;
    snprintf(path, sizeof path, "%s/safetensors/%s.safetensors", RS_TEST_DATA, name);
    rs_checkpoint *checkpoint;
    rs_error err = {0};
    assert_int_equal(rs_checkpoint_open(&checkpoint, path, &strict, &err), RS_OK);
    snprintf(path, sizeof path, "%s/safetensors/%s.txt", RS_TEST_DATA, name);
    char *text = read_whole(path, &size), *save;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        check_line(checkpoint, line);
        lines++;
    }
    assert_int_equal(lines, checkpoint->n_tensors);
    free(text);
    rs_checkpoint_close(checkpoint);
}

static void files_of_the_package(void **state)
{
    (void)state;
    check_package_file("torch");
    check_package_file("numpy");
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    rs_status status;
    int64_t n = 0;
    do {
        memory_checkpoint memory =
            make("{\"__metadata__\":{\"\\u0061\":\"b\",\"c\":\"d\"},"
                 "\"\\u0062\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2],\"x\":[]},"
                 "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 3);
        rs_memory_fail_at(++n);
        status = rs_safetensors_read(memory.checkpoint, 0, &lenient, NULL);
        rs_memory_fail_at(0);
        assert_true(status == RS_OK || status == RS_E_NO_MEMORY);
        memory_checkpoint_free(&memory);
    } while (status != RS_OK);
    assert_true(n > 8);
}

int main(void)
{
    static case_file cases[200];
    static struct CMUnitTest tests[220];
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(trailing_bytes_are_a_note_when_lenient),
        cmocka_unit_test(lenient_forgives_nothing_else),
        cmocka_unit_test(tensors_are_in_the_order_of_their_data),
        cmocka_unit_test(escaped_names_are_decoded),
        cmocka_unit_test(messages_name_what_is_wrong),
        cmocka_unit_test(too_many_tensors_are_refused),
        cmocka_unit_test(a_million_tensors),
        cmocka_unit_test(too_many_metadata_keys_are_refused),
        cmocka_unit_test(random_layouts_are_read_back),
        cmocka_unit_test(files_of_the_package),
        cmocka_unit_test(survives_lack_of_memory),
    };
    size_t n = add_case_tests(tests, cases, read_cases(cases, 200, "safetensors"), header_case);
    if (n < 130) return 1;
    memcpy(tests + n, others, sizeof others);
    n += sizeof others / sizeof *others;
    return _cmocka_run_group_tests("safetensors", tests, n, NULL, NULL);
}
