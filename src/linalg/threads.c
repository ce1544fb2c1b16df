/* threads.c: one count of the threads inside, under a mutex, and two saved numbers. */
#include "linalg/threads.h"

#include "linalg/blas.h"

#include <omp.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int inside;    /* threads that hold; under the lock, like the next */
static int blas_host; /* OpenBLAS's count before the first of them */

static _Thread_local int depth;       /* holds of this thread that are not released */
static _Thread_local int openmp_host; /* OpenMP's count before the first of them */
static _Thread_local int level_host;  /* parallel regions of the host around the first of them */

void rs_threads_hold(void)
{
    if (depth++ > 0) return;
    openmp_host = omp_get_max_threads();
    level_host = omp_get_level();
    pthread_mutex_lock(&lock);
    if (inside++ == 0) {
        blas_host = openblas_get_num_threads();
        openblas_set_num_threads(1);
    }
    pthread_mutex_unlock(&lock);
    omp_set_num_threads(1);
}

void rs_threads_release(void)
{
    if (--depth > 0) return;
    pthread_mutex_lock(&lock);
    if (--inside == 0) openblas_set_num_threads(blas_host);
    pthread_mutex_unlock(&lock);
    omp_set_num_threads(openmp_host);
    level_host = 0;
}

int rs_thread_number(void)
{
    return omp_get_level() > level_host ? omp_get_thread_num() : 0;
}

int rs_default_threads(void)
{
    int threads = depth > 0 ? openmp_host : omp_get_max_threads();
    return threads < 64 ? threads : 64;
}

rs_thread_counts rs_threads_lend(int threads)
{
    rs_thread_counts before = {openblas_get_num_threads(), omp_get_max_threads()};
    openblas_set_num_threads(threads);
    omp_set_num_threads(threads);
    return before;
}

void rs_threads_restore(rs_thread_counts before)
{
    openblas_set_num_threads(before.blas);
    omp_set_num_threads(before.openmp);
}
