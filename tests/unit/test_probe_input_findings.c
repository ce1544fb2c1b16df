/* test_probe_input_findings.c: what probe says of inputs that the model was not made for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/probe_path.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char tokens_path[] = "/tmp/rs_probe_ids_XXXXXX";

static rs_result *probe(const char *name, const char *ids, int64_t generate)
{
    char path[512];
    rs_error err = {0};
    rs_context context = {.threads = 1};
    snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", name);
    FILE *file = fopen(tokens_path, "wb");
    assert_non_null(file);
    fputs(ids, file);
    fclose(file);
    rs_probe_request request = {.path = path};
    rs_probe_defaults(&request.options);
    request.options.source.tokens = tokens_path;
    request.options.generate = generate;
    rs_result *result = rs_result_new("probe");
    if (rs_probe_path(result, rs_result_files(result), &request, &context, &err) != RS_OK)
        fail_msg("%s: %s: %s", name, err.where, err.what);
    return result;
}

static const rs_finding *finding_with(const rs_result *result, const char *code)
{
    for (size_t i = 0; i < rs_result_finding_count(result); i++)
        if (strcmp(rs_result_finding_at(result, i)->code, code) == 0)
            return rs_result_finding_at(result, i);
    return NULL;
}

/* The configuration of the case is for 32 positions; rotary positions have no end. */
static void texts_beyond_the_trained_length(void **state)
{
    (void)state;
    char ids[3 * 40 + 8] = "[[1";
    for (int i = 1; i < 32; i++)
        strcat(ids, ",1");
    char longer[sizeof ids + 8];
    snprintf(longer, sizeof longer, "%s,2]]", ids);
    strcat(ids, "]]");
    rs_result *result = probe("llama", ids, 0);
    assert_null(finding_with(result, "beyond_trained_length"));
    rs_result_free(result);
    result = probe("llama", longer, 0);
    const rs_finding *f = finding_with(result, "beyond_trained_length");
    assert_non_null(f);
    assert_int_equal(f->severity, RS_WARN);
    assert_true(f->value == 33 && f->threshold == 32);
    assert_non_null(strstr(f->message, "33 tokens"));
    assert_non_null(strstr(f->message, "is for 32"));
    rs_result_free(result);
    result = probe("llama", ids, 2); /* what is generated counts, too */
    f = finding_with(result, "beyond_trained_length");
    assert_non_null(f);
    assert_true(f->value == 34);
    rs_result_free(result);
}

/* RoBERTa's positions go by the ids that are not pad_token_id (1 here):
 * ids given are counted all. */
static void ids_that_look_like_padding(void **state)
{
    (void)state;
    rs_result *result = probe("roberta", "[[2, 3, 1, 1], [4, 1], [5, 6]]", 0);
    const rs_finding *f = finding_with(result, "padding_id");
    assert_non_null(f);
    assert_int_equal(f->severity, RS_INFO);
    assert_true(f->value == 3 && isnan(f->threshold));
    assert_non_null(strstr(f->message, "3 of the ids given, in 2 samples, are 1,"));
    assert_non_null(strstr(f->hint, "ragged"));
    rs_result_free(result);
    result = probe("roberta", "[[2, 3, 0], [4, 5]]", 0);
    assert_null(finding_with(result, "padding_id"));
    rs_result_free(result);
    /* BERT counts all positions: its pad_token_id is no special id of the pass */
    result = probe("bert", "[[0, 3, 0], [4, 0]]", 0);
    assert_null(finding_with(result, "padding_id"));
    rs_result_free(result);
}

static int open_file(void **state)
{
    (void)state;
    int file = mkstemp(tokens_path);
    if (file < 0) return 1;
    return close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(tokens_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_beyond_the_trained_length),
        cmocka_unit_test(ids_that_look_like_padding),
    };
    return cmocka_run_group_tests_name("probe_input_findings", tests, open_file, remove_file);
}
