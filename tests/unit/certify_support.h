/* certify_support.h: what the tests of `certify` on whole models share: runs, cells of their
 * tables, a folder of files. Include behind cmocka.h. */
#ifndef RS_TEST_CERTIFY_SUPPORT_H
#define RS_TEST_CERTIFY_SUPPORT_H

#include "base/memory.h"
#include "certify/certify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/rs_certify_XXXXXX";
static char tokens_path[64], arch_path[64];

static inline void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static inline rs_certify_request request_for(const char *path)
{
    rs_certify_request request = {.path = path};
    rs_certify_defaults(&request.options);
    request.options.source.tokens = tokens_path;
    return request;
}

static inline rs_status try(rs_result **result, const rs_certify_request *request, int threads,
                            rs_error *err)
{
    rs_context context = {.threads = threads, .seed = 5};
    *result = rs_result_new("certify");
    if (!*result) return RS_E_NO_MEMORY;
    rs_status status = rs_certify_path(*result, rs_result_files(*result), request, &context, err);
    if (status != RS_OK) {
        rs_result_free(*result);
        *result = NULL;
    }
    return status;
}

static inline rs_result *run(const rs_certify_request *request)
{
    rs_error err = {0};
    rs_result *result;
    if (try(&result, request, 2, &err) != RS_OK)
        fail_msg("%s: %s: %s", request->path, err.where, err.what);
    return result;
}

static inline double cell(const rs_table *table, size_t row, const char *column)
{
    int c = rs_table_find_column(table, column);
    if (c < 0) fail_msg("no column %s", column);
    return rs_table_real(table, row, (size_t)c);
}

static inline const char *text(const rs_table *table, size_t row, const char *column)
{
    return rs_table_text(table, row, (size_t)rs_table_find_column(table, column));
}

static inline int64_t whole(const rs_table *table, size_t row, const char *column)
{
    return rs_table_int(table, row, (size_t)rs_table_find_column(table, column));
}

static inline const rs_finding *finding(const rs_result *result, const char *code)
{
    for (size_t i = 0; i < rs_result_finding_count(result); i++)
        if (strcmp(rs_result_finding_at(result, i)->code, code) == 0)
            return rs_result_finding_at(result, i);
    return NULL;
}

static inline rs_result *theory(const char *arch, bool rigorous)
{
    put(arch_path, arch);
    rs_certify_request request = request_for(arch_path);
    request.options.source = (rs_input_source){.random = 3};
    request.options.rigorous = rigorous;
    return run(&request);
}

static inline int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return 1;
    snprintf(tokens_path, sizeof tokens_path, "%s/tokens.json", folder);
    snprintf(arch_path, sizeof arch_path, "%s/arch.json", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    unlink(tokens_path);
    unlink(arch_path);
    return rmdir(folder);
}

#endif
