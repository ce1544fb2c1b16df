/*
 * groups.h: which tensors a setting is for: a word, or a regular expression over their names
 * (docs/train.md, Groups).
 */
#ifndef RS_TRAIN_GROUPS_H
#define RS_TRAIN_GROUPS_H

#include "base/error.h"
#include "recognise/model.h"

/* The words, as bits: a tensor has one of the first six, perhaps RS_GROUP_MIXER and RS_GROUP_BIAS
 * beside it. */
enum {
    RS_GROUP_ATTENTION = 1,
    RS_GROUP_MLP = 2,
    RS_GROUP_NORM = 4,      /* gains and biases of norms */
    RS_GROUP_EMBEDDING = 8, /* of tokens, of positions, of what enters */
    RS_GROUP_HEAD = 16,     /* what turns states into outputs */
    RS_GROUP_STRENGTH = 32, /* numbers of the network: skips, residual scales, shaped gains */
    RS_GROUP_MIXER = 64,    /* of any kind, attention among them */
    RS_GROUP_BIAS = 128     /* additive, of any map */
};
extern const char *const rs_group_words[]; /* in the order of the bits; then NULL */

/* The words of a tensor by its role; gain and bias as in rs_parameter_part. What has no role is a
 * norm's (gain) or a strength. */
unsigned rs_group_words_of(rs_role role, bool gain, bool bias);

/* One setting, as a file says it: {"attention": 0.1, "layers\\.0\\.": 0}. */
typedef struct rs_group_value {
    const char *select; /* "default", a word, or an expression that is looked for in names */
    double value;
} rs_group_value;

typedef struct rs_groups rs_groups;

/* Reads the values [n], which are copied; `field` is for messages. Errors: RS_E_TASK_SCHEMA (an
 * expression that cannot be compiled, "default" twice), RS_E_NO_MEMORY. */
rs_status rs_groups_new(rs_groups **out, const rs_group_value *values, int64_t n, const char *where,
                        const char *field, rs_error *err);
void rs_groups_free(rs_groups *groups); /* NULL is fine */

/* The value of a tensor: expressions go before words, words before "default", and of two of a kind
 * the later one counts; `fallback` where none is for it. */
rs_status rs_groups_find(double *value, rs_groups *groups, const char *name, unsigned words,
                         double fallback, rs_error *err);
/* Behind all tensors: an expression that was looked for and never found is RS_E_TASK_SCHEMA, with
 * the nearest word. */
rs_status rs_groups_check(const rs_groups *groups, rs_error *err);

#endif
