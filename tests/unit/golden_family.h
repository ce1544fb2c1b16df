/* golden_family.h: a model of tests/golden/forward with what it was fed there. Include behind
 * cmocka.h. */
#ifndef RS_TEST_GOLDEN_FAMILY_H
#define RS_TEST_GOLDEN_FAMILY_H

#include "forward_catch.h"

#include <unistd.h>

typedef struct golden_family {
    rs_checkpoint *checkpoint;
    rs_network *network;
    input in;
} golden_family;

/* name: its folder, up to an '@' behind which a case says more. gguf: of its GGUF file, where it has one
 * beside the others. false: it has no golden numbers, and nothing is open. */
static inline bool open_family(golden_family *f, const char *name, bool gguf)
{
    char path[512];
    int folder = (int)strcspn(name, "@");
    rs_checkpoint *fed;
    rs_checkpoint_options options = {0};
    rs_error err = {0};
    snprintf(path, sizeof path, "%s/forward/%.*s/golden.safetensors", RS_TEST_DATA, folder, name);
    if (rs_checkpoint_open(&fed, path, &options, NULL) != RS_OK) return false;
    snprintf(path, sizeof path, "%s/forward/%.*s/model.gguf", RS_TEST_DATA, folder, name);
    if (!gguf || access(path, R_OK) != 0)
        snprintf(path, sizeof path, "%s/forward/%.*s", RS_TEST_DATA, folder, name);
    if (rs_checkpoint_open(&f->checkpoint, path, &options, &err) != RS_OK ||
        rs_network_open(&f->network, f->checkpoint, &err) != RS_OK)
        fail_msg("%s: %s: %s", name, err.where, err.what);
    read_input(&f->in, fed);
    rs_checkpoint_close(fed);
    return true;
}

static inline void close_family(golden_family *f)
{
    free(f->in.ids);
    free(f->in.images);
    free(f->in.memory);
    rs_network_close(f->network);
    rs_checkpoint_close(f->checkpoint);
}

#endif
