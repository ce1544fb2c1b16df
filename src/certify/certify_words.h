/* certify_words.h: what the files that put certificates into words share. */
#ifndef RS_CERTIFY_CERTIFY_WORDS_H
#define RS_CERTIFY_CERTIFY_WORDS_H

#include "certify/certify_parts.h"

/* Rows that are put into words. */
typedef struct rs_certify_words {
    rs_result *result;
    const rs_certified *c;
    int32_t layers;
    bool *marked; /* [layers] workspace */
    rs_error *err;
} rs_certify_words;

/* certify_findings.c */
const rs_certify_row *rs_words_row(const rs_certify_words *w, int64_t s, int32_t l);
int32_t rs_words_count(const bool *marked, int32_t n); /* of the layers that are marked */
/* Writes "layer 3" or "layers 0-2, 5". */
void rs_words_layers(char *text, size_t size, const bool *marked, int32_t n);
rs_status rs_words_say(rs_certify_words *w, rs_severity severity, const char *code, int64_t layer,
                       double value, const char *message, const char *hint);

/* certify_apart.c: findings apart_summary, certified_collapse and conditional_collapse, and the
 * verdict. */
rs_status rs_words_apart(rs_certify_words *w);
rs_status rs_words_collapse(rs_certify_words *w);
rs_status rs_words_verdict(rs_certify_words *w);

#endif
