/*
 * tape.h: what a pass keeps for its way back, and what the way back asks of a precision (private to
 * src/engine/).
 *
 * Each branch of each layer has a record. Rooms that its kind keeps lie in the record while a tape
 * is recorded, and in the runner otherwise, so that an op's code is the same for both. With
 * recomputation there are the records of one layer, filled again before its way back.
 */
#ifndef RS_ENGINE_TAPE_H
#define RS_ENGINE_TAPE_H

#include "engine/gradient.h"
#include "engine/ops.h"

/* What a branch X <- after(skip X + scale inside(op(before(X)))) leaves. */
struct rs_record {
    rs_state in;         /* X, of branches behind a layer's first, whose own is the tape's state */
    rs_state out;        /* op(before(X)), where rs_tape_keeps_out */
    rs_state added;      /* inside(out), where there is such a norm */
    rs_state sum;        /* what `after` reads, where there is one */
    rs_norm_kept before; /* of X, where there is such a norm; until the way back has been there */
    uint64_t keeps;      /* bits 1 << room: those that lie here */
    rs_work_buffer kept[RS_ROOMS];
};

struct rs_tape {
    bool recompute;
    bool reruns;   /* a layer runs once more, for its records */
    unsigned hold; /* RS_HOLD_... */
    int32_t layers;
    /* [layers + 1]: what each layer reads, and the last one's output; until the way back reaches the
     * layer, the sum in its place where rs_tape_has_sum */
    rs_state *states;
    rs_state below;     /* that sum, while the state stands in its own place */
    rs_state read;      /* what the read-out gave, where it ran */
    rs_norm_kept final; /* of the state that the final norm reads */
    rs_record *records; /* [layers, RS_BRANCHES_MAX], of one layer with recomputation */
    rs_gradients *into;
    /* the way back: the derivative by the running state, by what a layer's first branch read and by
     * an op's output and input */
    rs_state d, d_joined, d_out, d_in;
    rs_state picked; /* what the branch that picks read, of the picked rows */
    rs_state spread; /* a derivative by all rows, of which those by others than the picked are 0 */
    bool joined;     /* d_joined holds something */
    bool read_back;  /* the way back goes through the read-out */
    rs_work_buffer d_memory; /* [rows of memory, width] double */
    int64_t memory_width;    /* 0: nothing has read the memory yet */
    /* of what is told next: its numbers are to be multiplied by 2^exponent; nothing was subtracted
     * (rs_gradient_view) */
    int64_t exponent;
    bool apart;
    bool drowned;    /* what reaches the layers below is a difference of which rounding is left */
    double out_dot;  /* <d_out, op's output>, as the way back of a kind `without_out` finds it */
    rs_record again; /* of an op that the way back runs once more in another precision */
};

/* The record of a branch, and the state that it read. */
rs_record *rs_tape_record(rs_tape *tape, int32_t layer, int32_t branch);
const rs_state *rs_tape_in(rs_tape *tape, int32_t layer, int32_t branch);

/* Whether the branch that is run records: all do, but with recomputation those of the last layer, whose
 * records stand until the way back begins, and of a layer that runs once more. */
bool rs_tape_records(const rs_runner *run);
/* With recomputation: whether, in place of what a layer reads, the tape keeps the sum that a norm made
 * it of, which the way back through that norm reads. The layer below then runs once more without its
 * last product. */
bool rs_tape_has_sum(const rs_runner *run, int32_t layer);
/* Whether the way back reads what a branch's op gave: the norm that read it does, and the derivative by
 * the branch's scale, where it is wanted and the op's way back does not find it. */
bool rs_tape_keeps_out(const rs_runner *run, const rs_branch *branch);

/* Makes a runner's tape fit the network, and frees it. */
rs_status rs_tape_open(rs_runner *run, const rs_gradient_plan *plan, rs_error *err);
void rs_tape_close(rs_runner *run);

/* d_in = (d op / d in)^T d_out, `in` being what the op read, and tells gradients of the op's own
 * parameters. The record of the branch is run->record. */
typedef rs_status rs_op_back(rs_runner *run, rs_state *d_in, const rs_state *d_out,
                             const rs_state *in, const rs_branch *branch, rs_error *err);

/* One kind's way back. */
typedef struct rs_way_back {
    rs_op_back *run;
    bool takes_picked; /* the derivative by what it gives may be of the picked rows alone */
    /* it sets out_dot of the tape, and the op forms no output for a runner that `spares` it */
    bool without_out;
    uint64_t keeps; /* bits 1 << room: what its op leaves in the record, while one is recorded */
    /* bytes that such a room takes for each row of the batch; NULL: none is kept */
    double (*row_bytes)(const rs_branch *branch, rs_room room, size_t size);
} rs_way_back;

/* The way back of one precision. States are that precision's own, derivatives in a form of theirs that
 * `copy` and `view` of rs_ops take. */
struct rs_back_ops {
    rs_way_back branch[RS_BRANCH_KINDS]; /* run NULL: it has none for that kind */
    /* whose record of one branch at a time it fills again on the way back; NULL: of none */
    const rs_back_ops *again;
    /* d_x = (d norm / d x)^T d_y, and tells the norm's parameters; d_x may be d_y. kept: NULL, or what
     * the norm found of x, if anything. */
    rs_status (*norm)(rs_runner *run, rs_state *d_x, const rs_state *x, const rs_state *d_y,
                      const rs_norm_op *op, const rs_norm_kept *kept, rs_error *err);
    /* *out 2^*exponent = <d, x>, d a derivative */
    rs_status (*dot)(rs_runner *run, double *out, int64_t *exponent, const rs_state *d,
                     const rs_state *x, rs_error *err);
    /* out = factor in; 0 where the factor is; out may be in */
    rs_status (*scaled)(rs_runner *run, rs_state *out, const rs_state *in, double factor,
                        rs_error *err);
    rs_status (*add)(rs_runner *run, rs_state *out, const rs_state *in, rs_error *err);
    /* out: of all rows, those of `in` where they are picked, 0 elsewhere; NULL: as rs_ops.pick */
    rs_status (*spread)(rs_runner *run, rs_state *out, const rs_state *in, rs_error *err);
    /* d, by what the read-out gave, becomes that by the last layer's output as it was read; and d += the
     * same of layer `layer` (from 0). NULL: as rs_ops.read_out */
    rs_status (*read_out)(rs_runner *run, rs_state *d, rs_error *err);
    void (*add_read)(rs_runner *run, rs_state *d, int32_t layer);
    /* d = the loss's derivative by a state of the last layer (RANDOM, SQUARE, LENGTH) */
    rs_status (*seed)(rs_runner *run, double *loss, rs_state *d, const rs_state *x,
                      const rs_loss *wanted, rs_error *err);
    /* The same of the head behind the final state x, and tells its parameters and the taps of logits
     * (TARGETS). */
    rs_status (*head)(rs_runner *run, double *loss, rs_state *d, const rs_state *x,
                      const rs_loss *wanted, rs_error *err);
    /* The same of single outputs of the head, whose other logits are not made (OUTPUT);
     * NULL: this precision explains none, and no lengths either. */
    rs_status (*output)(rs_runner *run, double *loss, rs_state *d, const rs_state *x,
                        const rs_loss *wanted, rs_error *err);
    /* tells the embedding's parameters; d: by what enters the first layer */
    rs_status (*embed)(rs_runner *run, const rs_state *d, rs_error *err);
    /* place += factor times the view's numbers; squares: as rs_gradient_squares */
    rs_status (*accumulate)(const rs_gradient_place *place, const rs_gradient_view *view,
                            double factor, int threads);
    rs_status (*squares)(double *squares, const rs_gradient_view *view, int64_t parts,
                         bool by_input, int threads, rs_error *err);
};

/* rs_back_plain: float64's, as the residual precision has it. */
extern const rs_back_ops rs_back_f32, rs_back_f64, rs_back_plain, rs_back_residual;

/* ---- gradients.c: where ops hand in what they found ---- */

/* The parameter `part` of a member of the network (an rs_dense, an rs_norm_op, an rs_conv_op, a
 * tensor's pointer, a branch's skip or scale): view has form, numbers and shape. */
rs_status rs_gradients_tell(rs_runner *run, const void *member, rs_parameter_part part,
                            rs_gradient_view *view, rs_error *err);
/* Does so of one of the network's own numbers. */
rs_status rs_gradients_tell_number(rs_runner *run, const double *member, rs_parameter_part part,
                                   double number, rs_error *err);
/* Everything of a branch but its skip and scale is 0. */
rs_status rs_gradients_tell_zero(rs_runner *run, const rs_branch *branch, const char *why,
                                 rs_error *err);
/* For a gradient that comes in pieces: *sum is where they are added, [out, in] row by row; when all are
 * there, `added` says so. It is 0 at first where fresh is NULL; else *fresh says that it has no
 * numbers yet, and the first piece is written there. */
rs_status rs_gradients_pieces(rs_runner *run, void **sum, bool *fresh, const void *member,
                              rs_parameter_part part, rs_error *err);
rs_status rs_gradients_added(rs_runner *run, const void *member, rs_parameter_part part,
                             rs_error *err);
rs_status rs_gradients_tell_state(rs_runner *run, int32_t layer, const rs_state *d, rs_error *err);
rs_status rs_gradients_tell_memory(rs_runner *run, rs_error *err);
bool rs_gradients_fit(const rs_gradients *gradients, const rs_network *network,
                      rs_precision precision);
const rs_gradient_plan *rs_gradients_plan(const rs_gradients *gradients);
/* Whether somebody listens to derivatives by states. */
bool rs_gradients_tell_states(const rs_gradients *gradients);

/* backward.c: whether row i of the batch has a target. */
bool rs_row_counts(const rs_loss *wanted, int64_t i);

#endif
