/*
 * threads.h: how many threads a run takes, and how BLAS is kept to one of them meanwhile.
 *
 * A run spreads its work over parallel regions of its own, each with the number of threads that its
 * context gives. BLAS must not fork for the products inside and between them: that would cost more
 * than it brings, and the bits of a product would depend on the number of threads. So every call
 * from outside (the functions of rankscope.h that compute, the work of a command) holds BLAS to one
 * thread while it runs; nothing below sets a count.
 *
 * Two numbers are held, and both belong to the caller. OpenBLAS's count is the process's: the first
 * thread that comes in saves it, the last one that leaves puts it back. The number of threads that
 * OpenMP gives is each thread's own, it goes before the other in an OpenBLAS that is built with
 * OpenMP, and openblas_set_num_threads overwrites it: each thread saves and restores its own.
 */
#ifndef RS_LINALG_THREADS_H
#define RS_LINALG_THREADS_H

/* Holds BLAS to one thread until this thread has called rs_threads_release as often. May be called
 * from several threads at once, and from within a hold. */
void rs_threads_hold(void);
void rs_threads_release(void);

/* The number, from 0, of this thread in the team that works here: the one that rooms for each thread
 * are told apart by. Not OpenMP's number for a thread that a host calls from a team of its own. */
int rs_thread_number(void);

/* As many threads as OpenMP gives the calling thread outside a hold, but at most 64: what Debian's
 * OpenBLAS is built to serve at once. */
int rs_default_threads(void);

/* The two numbers. */
typedef struct rs_thread_counts {
    int blas, openmp;
} rs_thread_counts;

/* For measuring BLAS itself: gives it that many threads and returns what it had, for
 * rs_threads_restore. Only while no other thread of the process is inside the library. */
rs_thread_counts rs_threads_lend(int threads);
void rs_threads_restore(rs_thread_counts before);

#endif
