/* context.h: what every long-running call is given: threads, seed, a progress callback, and a way
 * to be interrupted. */
#ifndef RS_BASE_CONTEXT_H
#define RS_BASE_CONTEXT_H

#include "base/budget.h"
#include "base/error.h"

#include <signal.h>
#include <stdint.h>

/* Told now and then how far a phase has come: done of total units ("heads", "tensors"). Called from
 * one thread. */
typedef void rs_progress_fn(void *user, const char *phase, uint64_t done, uint64_t total,
                            const char *unit);

typedef struct rs_context {
    int threads;              /* OpenMP threads to use, at least 1 */
    uint64_t seed;            /* of every random draw */
    rs_progress_fn *progress; /* may be NULL */
    void *progress_user;
    const volatile sig_atomic_t *cancel; /* may be NULL; non-zero means: stop soon */
    rs_memory_bound memory;              /* what the run may take; zeroed: looked up when needed */
} rs_context;

static inline bool rs_cancelled(const rs_context *context)
{
    return context->cancel && *context->cancel;
}
void rs_progress(const rs_context *context, const char *phase, uint64_t done, uint64_t total,
                 const char *unit);
/* RS_OK or RS_E_INTERRUPTED. */
rs_status rs_check_cancelled(const rs_context *context, rs_error *err);

#endif
