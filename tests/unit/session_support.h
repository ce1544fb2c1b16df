/* session_support.h: golden checkpoints as tensors in memory, and sessions over them. */
#ifndef RS_TEST_SESSION_SUPPORT_H
#define RS_TEST_SESSION_SUPPORT_H

#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tensors of a golden checkpoint as a caller holds them. */
typedef struct held {
    rs_checkpoint *checkpoint;
    char *config;
    rs_tensor_data *tensors;
    uint8_t **copies; /* of the data, so that it can be changed */
    size_t n;
} held;

static inline char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    assert_true(n > 0);
    fclose(file);
    return text;
}

static inline held hold(const char *model)
{
    char path[512];
    rs_error err;
    rs_checkpoint_options how = {0};
    held h = {0};
    snprintf(path, sizeof path, RS_TEST_DATA "/%s", model);
    assert_int_equal(rs_checkpoint_open(&h.checkpoint, path, &how, &err), RS_OK);
    snprintf(path, sizeof path, RS_TEST_DATA "/%s/config.json", model);
    h.config = read_text(path);
    h.n = h.checkpoint->n_tensors;
    h.tensors = calloc(h.n, sizeof *h.tensors);
    h.copies = calloc(h.n, sizeof *h.copies);
    assert_true(h.tensors && h.copies);
    for (size_t i = 0; i < h.n; i++) {
        const rs_tensor *t = &h.checkpoint->tensors[i];
        h.copies[i] = malloc(t->bytes + 1);
        assert_non_null(h.copies[i]);
        memcpy(h.copies[i], t->data, t->bytes);
        h.tensors[i] = (rs_tensor_data){.name = t->name,
                                        .dtype = rs_dtype_info(t->dtype)->name,
                                        .rank = (int)t->rank,
                                        .shape = t->shape,
                                        .data = h.copies[i]};
    }
    return h;
}

static inline void let_go(held *h)
{
    for (size_t i = 0; i < h->n; i++)
        free(h->copies[i]);
    free(h->copies);
    free(h->tensors);
    free(h->config);
    rs_checkpoint_close(h->checkpoint);
}

static inline rs_session *open_session(int threads, const held *h)
{
    rs_session_settings settings;
    rs_session *session;
    rs_error err;
    rs_session_settings_init(&settings, sizeof settings);
    settings.call.threads = threads;
    assert_int_equal(rs_session_open(&session, &settings, &err), RS_OK);
    if (rs_session_tensors(session, h->tensors, h->n, h->config, NULL, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return session;
}

#endif
