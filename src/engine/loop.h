/*
 * loop.h: loops whose turns several threads share. A parallel region costs a call of the system even
 * where it has one thread; a loop of a small step of training is shorter than that.
 */
#ifndef RS_ENGINE_LOOP_H
#define RS_ENGINE_LOOP_H

#include "linalg/threads.h"

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

/* The same for turns that are unlike: whichever thread is free takes the next one. */
static inline void rs_share(int threads, int64_t n, rs_turn *turn, const void *job)
{
    if (threads <= 1 || n <= 1) {
        for (int64_t i = 0; i < n; i++)
            turn(job, i);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t i = 0; i < n; i++)
        turn(job, i);
}

/* The room of a turn, of those that the caller has for so many threads. One thread has the first: without a
 * region of its own its number (linalg/threads.h) would be that of a region around. */
static inline int rs_own_room(int threads)
{
    return threads > 1 ? rs_thread_number() : 0;
}

#endif
