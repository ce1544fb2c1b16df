/* random.h: counter-based random numbers (Philox4x32-10 of Random123): draw i of stream s under a
 * seed is the same whatever the number of threads or the order of asking. */
#ifndef RS_BASE_RANDOM_H
#define RS_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* A place in a stream of random numbers. */
typedef struct rs_random {
    uint64_t seed, stream, counter;
    double spare; /* the second normal of a Box-Muller pair */
    int has_spare;
} rs_random;

rs_random rs_random_new(uint64_t seed, uint64_t stream);
double rs_random_uniform(rs_random *random); /* in (0, 1), 53 bits */
double rs_random_normal(rs_random *random);  /* N(0, 1) */
/* The next n of rs_random_normal into out, bit for bit. */
void rs_random_normals(rs_random *random, double *out, size_t n);
/* The square root of a chi-squared variable with `dof` > 0 degrees of freedom (by Marsaglia and
 * Tsang's gamma). */
double rs_random_chi(rs_random *random, double dof);

#endif
