/*
 * trained.h: the numbers of a network that training changes: its stored tensors, each once, and the
 * skips, residual scales and gains of attention that a task file makes trainable.
 */
#ifndef RS_TRAIN_TRAINED_H
#define RS_TRAIN_TRAINED_H

#include "engine/gradient.h"
#include "train/optimiser.h"
#include "train/settings.h"

/* What one item is in the network. */
typedef struct rs_trained_place {
    rs_tensor *tensor; /* NULL: a number of the network */
    double *number;    /* NULL: a tensor */
    rs_role role;
    int32_t layer;
    rs_parameter_part part; /* of a number (rs_part_is_number) */
} rs_trained_place;

/* An item by the address of its tensor, or of its number. */
typedef struct rs_trained_address {
    uintptr_t at;
    int64_t item;
} rs_trained_address;

typedef struct rs_trained_list rs_trained_list;

/* Where ways back put gradients: each item's as far from the beginning as in the list's own. */
typedef struct rs_trained_sink {
    const rs_trained_list *list;
    char *gradients;
    bool *told; /* [items] since rs_trained_begin */
} rs_trained_sink;

struct rs_trained_list {
    const rs_network *network;
    int64_t n, numbers; /* items, and numbers of all of them */
    rs_trained *items;  /* [n] as the optimiser takes them */
    rs_trained_place *places;
    rs_trained_name *names;
    rs_trained_address *order; /* [n] the items by the addresses of what they are */
    unsigned told;             /* RS_NUMBERS_... that a way back has to tell */
    size_t size;               /* of a number */
    size_t bytes;              /* of values, and of gradients: each item begins a line */
    void *values, *gradients;
    rs_trained_sink sink; /* of the list's own gradients */
    rs_arena *arena;
};

/*
 * Lists what is trained of a network whose tensors all lie in memory of ours or are mapped: from
 * here on every tensor's numbers are `precision`'s, in the list's own memory, and the network reads
 * them there. Groups of the settings are applied. The network must outlive the list and have no
 * runner that has run. Errors: RS_E_NO_MEMORY, those of rs_train_apply_groups.
 */
rs_status rs_trained_open(rs_trained_list *out, rs_network *network, rs_precision precision,
                          const rs_train_settings *settings, rs_error *err);
void rs_trained_close(rs_trained_list *list);

/* The item whose tensor this is; NULL: none. */
rs_trained *rs_trained_find(const rs_trained_list *list, const rs_tensor *tensor);

/* Opens a sink of other gradients, which are 0. */
rs_status rs_trained_sink_open(rs_trained_sink *out, const rs_trained_list *list, rs_error *err);
void rs_trained_sink_close(rs_trained_sink *sink);

/* Has the next gradients replace those that are there (a step's first batch). */
void rs_trained_begin(rs_trained_sink *sink);
/* Takes in one gradient, or adds it to those of the step's batches before: a listener's
 * `parameter`. */
rs_status rs_trained_take(rs_trained_sink *sink, const rs_gradient_view *view, rs_error *err);
/* Which of the network's own numbers a run of these settings trains: RS_NUMBERS_... */
unsigned rs_trained_told(const rs_train_settings *settings);
/* Zeroes the gradients that no pass has told: they are told now. */
void rs_trained_end(rs_trained_sink *sink);

/* Hands the numbers among the items to the network, behind a step. */
void rs_trained_hand_over(const rs_trained_list *list);

#endif
