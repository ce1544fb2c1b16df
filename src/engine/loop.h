/*
 * loop.h: loops whose turns several threads share. A parallel region costs a call of the system even
 * where it has one thread; a loop of a small step of training is shorter than that. A turn takes no
 * room of its thread (rs_thread_number, linalg/threads.h): without a region its number is that of a
 * region around.
 */
#ifndef RS_ENGINE_LOOP_H
#define RS_ENGINE_LOOP_H

#include <stdint.h>

/* One turn; `job` is the caller's. */
typedef void rs_turn(const void *job, int64_t i);

/* Does turns 0 .. n-1 by at most so many threads, neighbours on the same one; without a region by one. */
static inline void rs_loop(int threads, int64_t n, rs_turn *turn, const void *job)
{
    if (threads <= 1 || n <= 1) {
        for (int64_t i = 0; i < n; i++)
            turn(job, i);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n; i++)
        turn(job, i);
}

#endif
