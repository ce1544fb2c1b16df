/*
 * ops.h: what a precision must offer to run a network (private to src/engine/).
 *
 * forward.c walks the description and calls one row of this table; a row keeps its numbers in
 * rs_state, which only it can read. So a further precision is a file and a row, a further mixer one
 * more entry of `branch`, and neither touches the walk.
 */
#ifndef RS_ENGINE_OPS_H
#define RS_ENGINE_OPS_H

#include "engine/dropout.h"
#include "engine/forward.h"
#include "engine/weights.h"
#include "network/graph.h"

/* Memory that grows and is kept from call to call. */
typedef struct rs_work_buffer {
    void *data;
    size_t bytes;
} rs_work_buffer;

/* A token matrix [rows, cols] in the form that its precision keeps. */
typedef struct rs_state {
    rs_work_buffer store;
    int64_t rows, cols;
} rs_state;

/* Queries and keys of a tile of attention. */
enum { RS_TILE_QUERIES = 128, RS_TILE_KEYS = 256 };

/* Workspaces by purpose; those that are in use at the same time differ. */
typedef enum rs_room {
    RS_ROOM_Q,
    RS_ROOM_K,
    RS_ROOM_V,
    RS_ROOM_MIXED,
    RS_ROOM_HIDDEN,
    RS_ROOM_MEMORY,
    RS_ROOM_RELATIVE,
    RS_ROOM_SINUSOID,
    RS_ROOM_PREFIX,
    RS_ROOM_TASKS,
    RS_ROOM_HEAD,
    RS_ROOM_EMBED,
    RS_ROOM_MIXING,
    RS_ROOM_PAIRS,
    /* of what a tape keeps, beside rooms above */
    RS_ROOM_GATED,
    RS_ROOM_RAW_Q,
    RS_ROOM_RAW_K,
    RS_ROOM_SOFTMAX,
    /* of the way back */
    RS_ROOM_BACK_1,
    RS_ROOM_BACK_2,
    RS_ROOM_BACK_3,
    RS_ROOM_BACK_4,
    RS_ROOM_BACK_5,
    RS_ROOM_BACK_6,
    RS_ROOM_BACK_7,
    RS_ROOM_BACK_8,
    RS_ROOM_BACK_9,
    RS_ROOM_BACK_10,
    RS_ROOM_GAINS,
    RS_ROOM_SCALED,
    RS_ROOM_SUMS,
    RS_ROOM_ROWS,
    RS_ROOM_VALUES,
    RS_ROOM_PICKED,
    RS_ROOM_GATHERED,
    RS_ROOM_READ_WEIGHTS,
    RS_ROOM_READ_SCORES,
    /* of the residual precision */
    RS_ROOM_VIEW,
    RS_ROOM_PAIR_Q,
    RS_ROOM_PAIR_K,
    RS_ROOM_PAIR_V,
    RS_ROOM_GATES,
    RS_ROOM_WIDE,
    RS_ROOM_EXPONENTS,
    RS_ROOM_LEVEL,
    RS_ROOM_OWN,
    RS_ROOM_NEAR,
    RS_ROOM_SHAKEN,
    RS_ROOM_FAR,
    RS_ROOMS
} rs_room;

/* cos and sin of one law of rotation for positions 0 .. n-1: [n, dims/2] each. */
typedef struct rs_rotation {
    rs_rope_op rope;
    int64_t n;     /* positions in the table */
    int64_t law_n; /* length of the texts that the frequencies are for; 0: any */
    rs_work_buffer store;
} rs_rotation;

enum { RS_ROTATIONS = 4 };

enum {
    RS_SCAN_CHUNK = 64, /* tokens that a chunked scan takes at once */
    RS_MIXED_CHANNELS =
        16 /* channels whose mixing matrices are told together, where each has one */
};

typedef struct rs_ops rs_ops;
typedef struct rs_back_ops rs_back_ops;
typedef struct rs_tape rs_tape;
typedef struct rs_record rs_record;

/* The parts of a branch behind its op. Whether they are done at once or one by one, the numbers are
 * the same bit for bit. */
typedef enum rs_combine_step {
    RS_COMBINE_INSIDE = 1, /* y = inside(y) */
    RS_COMBINE_SUM = 2,    /* x = skip x + scale y */
    RS_COMBINE_AFTER = 4,  /* x = after(x) */
    RS_COMBINE_ALL = 7
} rs_combine_step;

/* What a norm found of rows (a kernel's norm_kept); rows: of so many, 0: of none. */
typedef struct rs_norm_kept {
    rs_work_buffer store;
    int64_t rows;
} rs_norm_kept;

/* A runner: the pass over one batch, and what is kept between passes. */
struct rs_runner {
    const rs_ops *ops;
    const rs_network *network;
    rs_weights *weights;
    const rs_context *context;
    int threads;
    /* this pass */
    const rs_batch *batch;
    const rs_tap *const *taps;
    size_t n_taps;
    unsigned moments;      /* that some tap asks for */
    int64_t rows, longest; /* rows of all samples, and of the longest */
    int32_t layer, branch; /* the branch that is being run */
    rs_drop drop;          /* what is dropped */
    /* Behind the last layer's mixer only rows with a target go on, where the loss is at few: `picked`
     * [n_picked] of them, fewer than all; picks: the branch from whose sum on. Otherwise picks is -1. A
     * state that has other rows than the batch has these. */
    const int64_t *picked,
        *picked_begin; /* the latter [samples + 1]: the first one of each sample */
    int64_t n_picked;
    int32_t picks;
    bool reads;        /* the states behind all layers are kept and read together */
    int64_t head_from; /* first row whose logits are wanted */
    int64_t passed;    /* branches of the layers before */
    rs_batch spread;   /* the batch behind the place where points part */
    rs_tape *tape;     /* that is recorded, and the branch that records; NULL: nothing is */
    rs_record *record;
    bool
        spares; /* nobody will read what the op gives, and one whose way back is without it gives none */
    double flops;
    /* kept */
    rs_state x, normed, branch_out, joined, mixed, wide;
    rs_work_buffer spread_begin, picked_store;
    rs_work_buffer
        read; /* what the read-out reads, or derivatives by it, in a form of the precision */
    rs_work_buffer rooms[RS_ROOMS];
    rs_work_buffer *thread_rooms; /* [threads] */
    rs_rotation rotations[RS_ROTATIONS];
    int next_rotation;
    uint64_t changes; /* of the weights, when the rotations were made: some laws read a tensor */
    uint64_t held, peak;
};

typedef rs_status rs_op_run(rs_runner *run, rs_state *out, const rs_state *in,
                            const rs_branch *branch, rs_error *err);

/* The operations of one precision. */
struct rs_ops {
    rs_precision precision;
    size_t size;       /* bytes of an element of a view */
    size_t norm_bytes; /* that a norm keeps of a row, at most */
    double roundoff;
    bool gated_attention; /* it runs attention whose heads have gates */
    rs_status (*embed)(rs_runner *run, rs_state *out, rs_error *err);
    /* kept: NULL, or becomes what the norm finds of in's rows, unless it has it already */
    rs_status (*norm)(rs_runner *run, rs_state *out, const rs_state *in, const rs_norm_op *norm,
                      rs_norm_kept *kept, rs_error *err);
    /* out = op(in), without the branch's norms, scale and skip; of the picked rows alone, or of all,
     * where the branch picks */
    rs_op_run *branch[RS_BRANCH_KINDS];
    /* the same for every kind that `branch` has nothing for, by float64's; NULL: such a network is
     * refused */
    rs_op_run *any;
    /* x = after(skip x + scale inside(y)), or the steps of it that are named (RS_COMBINE_...), which
     * must come in order. y is used up; NULL: x = after(skip x). */
    rs_status (*combine)(rs_runner *run, rs_state *x, rs_state *y, const rs_branch *branch,
                         unsigned steps, rs_error *err);
    rs_status (*copy)(rs_runner *run, rs_state *out, const rs_state *in, rs_error *err);
    /* x = the picked rows of x, one behind the other; NULL: the precision does not pick */
    void (*pick)(rs_runner *run, rs_state *x);
    /* drops numbers of a state, or of a derivative by one; NULL: the precision does not */
    void (*drop)(rs_runner *run, rs_state *x, rs_drop_place place);
    /* keeps x, of all rows or of those that go on, which layer `layer` (from 0) gave; then x = the
     * read-out of all that were kept (rs_read_out_op). NULL: the precision does not */
    rs_status (*keep)(rs_runner *run, const rs_state *x, int32_t layer, rs_error *err);
    rs_status (*read_out)(rs_runner *run, rs_state *x, rs_error *err);
    /* tells the taps the logits of rows head_from .. */
    rs_status (*head)(rs_runner *run, const rs_state *in, rs_error *err);
    /* the state as plain numbers */
    rs_status (*view)(rs_runner *run, rs_state_view *out, const rs_state *in, rs_error *err);
    /* the same of y behind a norm in step INSIDE alone, which may leave it in no form to be told */
    rs_status (*view_added)(rs_runner *run, rs_state_view *out, const rs_state *y, rs_error *err);
    const rs_back_ops *back; /* NULL: the precision has no way back */
};

extern const rs_ops rs_ops_f32, rs_ops_f64, rs_ops_residual;
const rs_ops *rs_ops_of(rs_precision precision);

/* forward_workspace.c: makes a buffer hold n*size bytes; its contents are lost when it grows. */
rs_status rs_run_grow(rs_runner *run, rs_work_buffer *store, size_t n, size_t size,
                      const char *what, rs_error *err);
/* Does the same for every thread's buffer. */
rs_status rs_run_grow_threads(rs_runner *run, size_t n, size_t size, const char *what,
                              rs_error *err);
rs_status rs_run_state(rs_runner *run, rs_state *state, int64_t rows, int64_t cols, rs_error *err);
/* Where a room is: the branch's own on the tape while it records and keeps that room, else the
 * runner's. */
rs_work_buffer *rs_run_room(rs_runner *run, rs_room room);
/* The table of a rotation for n positions of texts of `length` tokens, made if need be. It is valid
 * until the next call. */
rs_status rs_run_rotation(rs_runner *run, const rs_rotation **out, const rs_rope_op *rope,
                          int64_t length, int64_t n, rs_error *err);
void rs_run_release(rs_runner *run);

/* forward.c: whether a tap listens to a sample's mixing matrix of that head in the branch that is
 * being run; how many tokens the longest sample has of which it listens to any; 0: to none. */
bool rs_run_wants_matrix(const rs_runner *run, int32_t sample, int32_t head);
int64_t rs_run_longest_matrix(const rs_runner *run, int32_t heads);
/* Tells a mixing matrix to the taps that listen, from any thread. The op fills in all but layer,
 * branch and thread, which are the runner's. */
rs_status rs_run_tell_matrix(const rs_runner *run, const rs_attention_view *matrix, rs_error *err);

/* forward.c: whether a tap listens to the numbers of the mixing matrices of the branch that is being
 * run; and tells them, `of` being [samples, matrices]. Samples without tokens are not told. */
bool rs_run_wants_mixing(const rs_runner *run);
rs_status rs_run_tell_mixing(const rs_runner *run, const rs_mixing_numbers *of, int32_t matrices,
                             rs_error *err);

/* read_out.c: sets run->reads: where the read-out is wanted, or a tap asks for what is behind it. Fails
 * where it is to run and cannot. */
rs_status rs_run_plan_read_out(rs_runner *run, bool wanted, rs_error *err);
/* Rows that go on behind the last layer, which are those that are read. */
static inline int64_t rs_run_read_rows(const rs_runner *run)
{
    return run->picks >= 0 ? run->n_picked : run->rows;
}

/* forward.c: runs all branches of layer run->layer, telling the taps. */
rs_status rs_run_layer(rs_runner *run, rs_error *err);
/* Whether the branch that is being run is the one from whose sum on only picked rows go on. */
static inline bool rs_run_picks(const rs_runner *run)
{
    return run->picks >= 0 && run->layer == run->network->n_layers - 1 && run->branch == run->picks;
}
/* Row i of a state as a row of the batch. */
static inline int64_t rs_run_row(const rs_runner *run, const rs_state *x, int64_t i)
{
    return x->rows == run->rows ? i : run->picked[i];
}
/* Fails where a file of weights was cut short while they were read. */
rs_status rs_run_check_files(const rs_network *network, rs_error *err);
/* Sets a runner to a checked batch, and back to none. */
rs_status rs_run_begin(rs_runner *run, const rs_batch *batch, const rs_tap *const *taps,
                       size_t n_taps, rs_error *err);
/* All of a pass; with_head: where a tap has `logits`. */
rs_status rs_run_network(rs_runner *run, bool with_head, rs_error *err);
void rs_run_end(rs_runner *run);

/* forward_points.c: `combine` of the running state with what a branch gives (NULL: nothing), of each
 * point with its own skip, where the batch has points. */
rs_status rs_run_combine(rs_runner *run, rs_state *out, const rs_branch *branch, unsigned steps,
                         rs_error *err);
/* Fails where the batch's points cannot be run. */
rs_status rs_points_check(const rs_runner *run, const rs_batch *batch, rs_error *err);

/* mixing_size.c: what the numbers of the mixing matrices of one branch take: `carried` bytes that
 * pass from panel to panel, and `thread` bytes of each thread; size: of a number of the precision.
 * longest: tokens of the longest text. No matrices: the kind has no such numbers. */
typedef struct rs_mixing_size {
    int32_t matrices;
    size_t carried, thread;
} rs_mixing_size;
rs_mixing_size rs_mixing_size_of(const rs_branch *branch, size_t size, int64_t longest);

/* forward_check.c: fails where a description does not fit together, or a batch not the network. */
rs_status rs_network_check(const rs_network *network, rs_error *err);
rs_status rs_batch_check(const rs_network *network, const rs_batch *batch, rs_error *err);

#endif
