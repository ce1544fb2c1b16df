/* clock.h: time that has passed. */
#ifndef RS_BASE_CLOCK_H
#define RS_BASE_CLOCK_H

#include <time.h>

/* The seconds since some fixed moment, which no change of the machine's date moves. */
static inline double rs_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
