/*
 * budget.h: how much memory a run may take, and adding up what it will take before it takes any.
 *
 * The kernel promises memory that it does not have and ends the process that uses it: without a
 * word, after minutes. So whoever knows the sizes adds them up and asks first.
 */
#ifndef RS_BASE_BUDGET_H
#define RS_BASE_BUDGET_H

#include "base/error.h"

/* The bytes that a run may take, and who says so ("this machine has", "--memory gives"). */
typedef struct rs_memory_bound {
    uint64_t bytes; /* 0: nobody has looked yet */
    const char *who;
    bool asked; /* the user said so: it is the same whatever else the machine does */
} rs_memory_bound;

/*
 * The bound is what was asked for (--memory); where that is 0, the smaller of the limit of the
 * control groups that the process is in (v1 and v2, their parents too) and of what the machine has
 * available (Linux: MemAvailable; macOS: free, inactive and purgeable pages; elsewhere all memory).
 */
rs_memory_bound rs_memory_bound_of(uint64_t asked);
/* Finds the same from the files below `root`, "" for the machine's own: tests have folders of their
 * own. */
rs_memory_bound rs_memory_bound_under(const char *root);

/* The memory that a run will hold at once, part by part. Zero-initialise. */
typedef struct rs_budget {
    struct {
        const char *what;
        double bytes;
    } parts[12];
    size_t n;
} rs_budget;

/* Adds a part. Names are literals in the plural ("weights"); sizes are doubles, so that products of
 * any sizes fit. */
void rs_budget_add(rs_budget *budget, const char *what, double bytes);
/* All parts together. */
double rs_budget_sum(const rs_budget *budget);
/* How many of `threads` threads may hold `bytes` each at the same time: as many as find room in
 * half of the bound, at least one. */
int rs_budget_threads(double bytes, rs_memory_bound bound, int threads);
/* Fails with RS_E_MEMORY_LIMIT, the sum and its parts, where the sum is above the bound. */
rs_status rs_budget_check(const rs_budget *budget, rs_memory_bound bound, const char *where,
                          const char *hint, rs_error *err);

#endif
