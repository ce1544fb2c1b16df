/* context.h: what every long-running call is given: threads, seed, a progress callback, and a way
 * to be interrupted. */
#ifndef RS_BASE_CONTEXT_H
#define RS_BASE_CONTEXT_H

#include "base/budget.h"
#include "base/error.h"

#include <signal.h>
#include <stdint.h>

/* A callback that is told now and then how far a phase has come: done of total units ("heads",
 * "tensors"). It is called from one thread. */
typedef void rs_progress_fn(void *user, const char *phase, uint64_t done, uint64_t total,
                            const char *unit);

/* What a long-running call is given. */
typedef struct rs_context {
    int threads;              /* OpenMP threads to use, at least 1 */
    uint64_t seed;            /* seed of every random draw */
    rs_progress_fn *progress; /* may be NULL */
    void *progress_user;
    const volatile sig_atomic_t *cancel; /* may be NULL; non-zero means: stop soon */
    rs_memory_bound memory;              /* what the run may take; zero: looked up when needed */
} rs_context;

static inline bool rs_cancelled(const rs_context *context)
{
    return context->cancel && *context->cancel;
}
void rs_progress(const rs_context *context, const char *phase, uint64_t done, uint64_t total,
                 const char *unit);
/* Fails with RS_E_INTERRUPTED once the context is cancelled. */
rs_status rs_check_cancelled(const rs_context *context, rs_error *err);

#endif
