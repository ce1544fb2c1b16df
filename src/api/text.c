/* text.c: results as text. */
#include "api/check.h"
#include "report/result.h"

/* Hands a buffer's bytes to the caller, or frees them. */
static rs_status give(char **text, size_t *length, rs_buffer *bytes, rs_status status,
                      rs_error *err)
{
    *text = NULL;
    if (status == RS_OK && (bytes->failed || !bytes->data))
        status = rs_fail_memory(err, "text of a result", bytes->length);
    if (status != RS_OK) {
        rs_buffer_free(bytes);
        return status;
    }
    if (length) *length = bytes->length;
    *text = bytes->data;
    return RS_OK;
}

rs_status rs_result_text(char **text, size_t *length, const rs_result *result, rs_form form,
                         rs_error *err)
{
    static const rs_terminal plain = {.width = 80};
    if (text) *text = NULL;
    RS_TRY(rs_check_pointer(text, "text", err));
    RS_TRY(rs_check_pointer(result, "result", err));
    const rs_range forms[] = {{"form", (int)form, RS_FORM_JSON, RS_FORM_TERMINAL}};
    RS_TRY(RS_CHECK_RANGES(forms, err));
    rs_buffer bytes = {0};
    rs_status status;
    if (form == RS_FORM_TERMINAL)
        status = rs_write_terminal(&bytes, result, &plain, err);
    else
        status = (form == RS_FORM_HTML ? rs_write_html : rs_write_json)(&bytes, result, err);
    return give(text, length, &bytes, status, err);
}

rs_status rs_result_csv(char **text, size_t *length, const rs_result *result, const char *table,
                        rs_error *err)
{
    if (text) *text = NULL;
    RS_TRY(rs_check_pointer(text, "text", err));
    RS_TRY(rs_check_pointer(result, "result", err));
    RS_TRY(rs_check_pointer(table, "table", err));
    RS_TRY(rs_result_complete(result, err));
    const rs_table *found = rs_result_table(result, table);
    if (!found) return rs_fail(err, RS_E_NOT_FOUND, table, NULL, "the result has no such table");
    rs_buffer bytes = {0};
    rs_status status = rs_write_csv(&bytes, found, err);
    return give(text, length, &bytes, status, err);
}

void rs_text_free(char *text)
{
    rs_free(text);
}

size_t rs_result_count_findings(const rs_result *result, int least_severity)
{
    size_t count = 0;
    for (size_t i = 0; result && i < rs_result_group_count(result); i++)
        count += (int)rs_result_group_at(result, i)->worst->severity >= least_severity;
    return count;
}

int rs_result_severity(const rs_result *result)
{
    const rs_verdict *verdict = rs_result_verdict(result);
    int severity = verdict ? verdict->severity : RS_INFO;
    for (size_t i = 0; result && i < rs_result_group_count(result); i++) {
        int of_group = (int)rs_result_group_at(result, i)->worst->severity;
        if (of_group > severity) severity = of_group;
    }
    return severity;
}
