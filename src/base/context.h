/* context.h: what every long-running call is given: threads, seed, a progress callback, and a way
 * to be interrupted. */
#ifndef RS_BASE_CONTEXT_H
#define RS_BASE_CONTEXT_H

#include "base/budget.h"
#include "base/error.h"
#include "base/kept_memory.h"

#include <signal.h>
#include <stdint.h>

/* What a long-running call is given. */
typedef struct rs_context {
    int threads;              /* OpenMP threads to use, at least 1 */
    uint64_t seed;            /* seed of every random draw */
    rs_progress_fn *progress; /* may be NULL */
    void *progress_user;
    const volatile sig_atomic_t *cancel; /* may be NULL; non-zero means: stop soon */
    rs_memory_bound memory;              /* what the run may take; zero: looked up when needed */
    rs_kept_memory *kept;                /* memory that a session keeps between calls; NULL: none */
} rs_context;

static inline bool rs_cancelled(const rs_context *context)
{
    /* atomic: what sets the flag may be another thread, not only a signal handler */
    return context->cancel && __atomic_load_n(context->cancel, __ATOMIC_RELAXED);
}
void rs_progress(const rs_context *context, const char *phase, uint64_t done, uint64_t total,
                 const char *unit);
/* Fails with RS_E_INTERRUPTED once the context is cancelled. */
rs_status rs_check_cancelled(const rs_context *context, rs_error *err);

#endif
