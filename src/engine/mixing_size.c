/* mixing_size.c: the memory that telling the numbers of mixing matrices takes beside a pass. */
#include "engine/ops.h"

#include "base/memory.h"
#include "engine/kernels.h"
#include "network/op_traits.h"

/* Numbers of one kind: doubles and numbers of the precision, carried from panel to panel and of each
 * thread; `longest` is the number of tokens of the longest text. */
typedef struct mixing_counts {
    double carried_doubles, carried_reals, doubles, reals;
} mixing_counts;

typedef mixing_counts count_numbers(const rs_branch *branch, double longest);

/* Of a chunked scan whose queries and keys have `state` numbers. */
static mixing_counts of_pairs(double heads, double state)
{
    double chunk = RS_SCAN_CHUNK;
    return (mixing_counts){.carried_doubles = heads * state * (state + 1),
                           .doubles = state * (state + 1) + 6 * chunk,
                           .reals = chunk * state + state * state + chunk * chunk + chunk + state};
}

static mixing_counts of_ssd(const rs_branch *branch, double longest)
{
    (void)longest;
    return of_pairs(branch->ssd.heads, (double)branch->ssd.state);
}

static mixing_counts of_linear(const rs_branch *branch, double longest)
{
    const rs_linear_op *op = &branch->linear;
    mixing_counts counts = of_pairs(op->causal ? op->heads : 0, (double)op->head_dim);
    if (!op->causal) counts.doubles += 2 * longest; /* sums of rows and of squares */
    return counts;
}

static mixing_counts of_s6(const rs_branch *branch, double longest)
{
    const rs_s6_op *op = &branch->s6;
    double state = (double)op->state, some = RS_MIXED_CHANNELS, tokens = RS_PAIR_TOKENS;
    double blocks = (double)((op->inner + RS_MIXED_CHANNELS - 1) / RS_MIXED_CHANNELS);
    (void)longest;
    return (mixing_counts){.carried_reals = blocks * some * (state * (state + 1) / 2 + state),
                           .reals =
                               tokens * state * some + 5 * some + (double)RS_PAIR_WORK * state};
}

static mixing_counts of_s4d(const rs_branch *branch, double longest)
{
    (void)longest;
    return (mixing_counts){.doubles = (double)((2 * branch->s4d.pairs + 4) * RS_MIXED_CHANNELS)};
}

static mixing_counts of_recurrence(const rs_branch *branch, double longest)
{
    (void)longest;
    return (mixing_counts){.carried_doubles = 2 * (double)branch->recurrence.inner};
}

static mixing_counts of_delta(const rs_branch *branch, double longest)
{
    double dim = (double)branch->delta.key_dim;
    (void)longest;
    return (mixing_counts){.carried_reals = branch->delta.heads * dim * (dim + 1),
                           .reals = dim * (dim + 1) + 5 * dim};
}

static mixing_counts of_short_conv(const rs_branch *branch, double longest)
{
    const rs_conv_op *conv = &branch->short_conv.conv;
    (void)longest;
    return (mixing_counts){.carried_reals = (double)conv->width * (double)conv->channels};
}

static mixing_counts of_graph(const rs_branch *branch, double longest)
{
    (void)branch, (void)longest;
    return (mixing_counts){0};
}

/* NULL: the kind has no numbers to tell. */
static count_numbers *const counts_of[RS_BRANCH_KINDS] = {
    [RS_BRANCH_SSD] = of_ssd,
    [RS_BRANCH_S6] = of_s6,
    [RS_BRANCH_LINEAR] = of_linear,
    [RS_BRANCH_S4D] = of_s4d,
    [RS_BRANCH_RECURRENCE] = of_recurrence,
    [RS_BRANCH_DELTA] = of_delta,
    [RS_BRANCH_SHORT_CONV] = of_short_conv,
    [RS_BRANCH_GRAPH] = of_graph,
};

/* Whole bytes, with room for the alignment of doubles between two arrays. */
static size_t bytes_of(double doubles, double reals, size_t size)
{
    double bytes = doubles * (double)sizeof(double) + reals * (double)size + sizeof(double);
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX;
}

rs_mixing_size rs_mixing_size_of(const rs_branch *branch, size_t size, int64_t longest)
{
    if (!counts_of[branch->kind]) return (rs_mixing_size){0};
    mixing_counts counts = counts_of[branch->kind](branch, (double)longest);
    return (rs_mixing_size){.matrices = rs_branch_traits(branch)->matrices(branch),
                            .carried = bytes_of(counts.carried_doubles, counts.carried_reals, size),
                            .thread = bytes_of(counts.doubles, counts.reals, size)};
}

double rs_mixing_bytes(const rs_network *network, rs_precision precision, int64_t samples,
                       int64_t longest, int threads)
{
    double matrices = 0, carried = 0, thread = 0;
    size_t real = precision == RS_PRECISION_F32 ? sizeof(float) : sizeof(double);
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (branch->scale == 0) continue;
            rs_mixing_size size = rs_mixing_size_of(branch, real, longest);
            if (size.matrices > matrices) matrices = size.matrices;
            if ((double)size.carried > carried) carried = (double)size.carried;
            if ((double)size.thread > thread) thread = (double)size.thread;
        }
    return matrices * (double)samples * (double)sizeof(rs_mixing_numbers) + carried +
           thread * (threads > 0 ? threads : 1);
}
