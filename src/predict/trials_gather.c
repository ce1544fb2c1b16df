/* trials_gather.c: which cells run together, and whose states they have. */
#include "predict/trials_batch.h"

/* Derivatives of so many lanes are kept between layers. */
enum { LANES_BACK = 2048 };

static int64_t padded(int64_t n)
{
    return (n + RS_TRIALS_PAD - 1) / RS_TRIALS_PAD * RS_TRIALS_PAD;
}

int32_t rs_trials_chains_most(int64_t n)
{
    int64_t np = padded(n);
    return np >= RS_TRIALS_BLOCK ? 1 : (int32_t)(RS_TRIALS_BLOCK / np);
}

static int32_t cells_most(int64_t n, int32_t chains)
{
    int64_t cells = LANES_BACK / padded(n);
    if (cells > RS_TRIALS_CELLS) cells = RS_TRIALS_CELLS;
    return cells > chains ? (int32_t)cells : chains;
}

/* Cells of plans that the batch may take. */
typedef struct offer {
    const rs_trials_plan *const *plans;
    const bool *taken;
    int32_t count;
} offer;

static bool is_left(const offer *from, int32_t i)
{
    return from->plans[i] && !from->taken[i];
}

/* The deepest of the cells that share draws with the first that is left; -1: none is. */
static int32_t deepest(const offer *from)
{
    int32_t first = 0, best;
    while (first < from->count && !is_left(from, first))
        first++;
    if (first == from->count) return -1;
    best = first;
    for (int32_t i = first + 1; i < from->count; i++)
        if (is_left(from, i) && from->plans[i]->n_layers > from->plans[best]->n_layers &&
            rs_trials_plans_share(from->plans[first], from->plans[i]))
            best = i;
    return best;
}

/* The chain whose states a cell has, one of its own where it may; -1: there is none. */
static int32_t chain_of(rs_trials_batch *batch, const offer *from, int32_t i, int32_t chains)
{
    const rs_trials_plan *plan = from->plans[i];
    for (int32_t c = 0; c < batch->n_chains; c++)
        if (rs_trials_plan_begins(from->plans[batch->chains[c]], plan)) return c;
    if (batch->n_chains == chains) return -1;
    batch->chains[batch->n_chains] = i;
    return batch->n_chains++;
}

/* A cell behind those of its chain. */
static void put(rs_trials_batch *batch, int32_t of[RS_TRIALS_CELLS], int32_t i, int32_t chain)
{
    int32_t at = batch->n_cells++;
    for (; at > 0 && of[at - 1] > chain; at--) {
        of[at] = of[at - 1];
        batch->place[at] = batch->place[at - 1];
    }
    of[at] = chain;
    batch->place[at] = i;
}

/* The deepest of those that are left, at most `below` layers deep, and what comes next; -1: none. */
static int32_t depth_left(const offer *from, int32_t below)
{
    int32_t most = -1;
    for (int32_t i = 0; i < from->count; i++)
        if (is_left(from, i) && from->plans[i]->n_layers < below && from->plans[i]->n_layers > most)
            most = from->plans[i]->n_layers;
    return most;
}

/* Deepest first; of: each cell's chain. */
static void take(rs_trials_batch *batch, int32_t of[RS_TRIALS_CELLS], const offer *from,
                 const rs_trials_plan *root, int32_t chains)
{
    int32_t most = cells_most(batch->n, chains);
    for (int32_t depth = root->n_layers; depth >= 0; depth = depth_left(from, depth))
        for (int32_t i = 0; i < from->count && batch->n_cells < most; i++) {
            if (!is_left(from, i) || from->plans[i]->n_layers != depth ||
                !rs_trials_plans_share(root, from->plans[i]))
                continue;
            int32_t chain = chain_of(batch, from, i, chains);
            if (chain >= 0) put(batch, of, i, chain);
        }
}

static void add_fan(rs_trials_batch *batch, int32_t first, int32_t count, int32_t chain,
                    bool shared)
{
    const rs_trials_fan *last = batch->n_fans ? &batch->fans[batch->n_fans - 1] : NULL;
    bool opens = !last || last->chain != chain;
    batch->fans[batch->n_fans++] = (rs_trials_fan){first, count, chain, shared, opens};
}

/* Cells of one chain side by side; where each has its own, all of them. */
static void make_fans(rs_trials_batch *batch, const int32_t of[RS_TRIALS_CELLS])
{
    int32_t wide = rs_trials_chains_most(batch->n);
    if (batch->n_chains == batch->n_cells) {
        if (batch->n_cells) add_fan(batch, 0, batch->n_cells, 0, false);
        return;
    }
    for (int32_t first = 0, end; first < batch->n_cells; first = end) {
        for (end = first; end < batch->n_cells && of[end] == of[first]; end++)
            if (end == first + wide) break;
        add_fan(batch, first, end - first, of[first], true);
    }
}

void rs_trials_gather(rs_trials_batch *batch, const rs_trials_plan *const *plans, const bool *taken,
                      int32_t count, int32_t chains)
{
    const offer from = {plans, taken, count};
    int32_t of[RS_TRIALS_CELLS], root = deepest(&from);
    batch->n = batch->request->input.n;
    batch->np = padded(batch->n);
    batch->n_cells = batch->n_chains = batch->n_fans = 0;
    if (root < 0) return;
    take(batch, of, &from, plans[root], chains);
    for (int32_t i = 0; i < batch->n_cells; i++)
        batch->cells[i] = plans[batch->place[i]];
    for (int32_t i = batch->n_cells - 1; i >= 0; i--)
        batch->chains[of[i]] = i; /* in the batch's order */
    make_fans(batch, of);
    /* places of its record are its own: the plan of a cell is no other batch's */
    batch->plan = (rs_trials_plan *)(uintptr_t)batch->cells[0];
}
