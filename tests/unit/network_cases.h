/* network_cases.h: the small models of tests/golden/forward as checkpoints, and trials of changed
 * configurations. Include behind cmocka.h. */
#ifndef RS_TEST_NETWORK_CASES_H
#define RS_TEST_NETWORK_CASES_H

#include "network/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline rs_checkpoint *open_case(const char *name)
{
    char path[512];
    rs_checkpoint *checkpoint;
    rs_checkpoint_options options = {0};
    rs_error err = {0};
    snprintf(path, sizeof path, "%s/forward/%s%s", RS_TEST_DATA, name,
             strstr(name, "_gguf") ? "/model.gguf" : "");
    if (rs_checkpoint_open(&checkpoint, path, &options, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return checkpoint;
}

typedef struct trial {
    const char *name;   /* of a case in tests/golden/forward */
    const char *change; /* JSON object laid over its configuration */
    rs_status status;
    const char *says; /* part of where, what or hint */
} trial;

static inline void overlay(json_t *config, const char *change)
{
    json_t *object = json_loads(change, 0, NULL);
    assert_non_null(object);
    assert_int_equal(json_object_update(config, object), 0);
    json_decref(object);
}

static inline void check_status(const trial *t, rs_status status, const rs_error *err)
{
    if (status != t->status)
        fail_msg("%s %s: %s instead of %s: %s", t->name, t->change, rs_status_name(status),
                 rs_status_name(t->status), err->what);
    if (t->says && !strstr(err->what, t->says) && !strstr(err->where, t->says) &&
        !strstr(err->hint, t->says))
        fail_msg("%s %s: nothing of \"%s\" in %s: %s; %s", t->name, t->change, t->says, err->where,
                 err->what, err->hint);
}

#endif
