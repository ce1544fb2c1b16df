/* optimiser_parts.h: the arithmetic of optimisers a precision; private to optimiser*.c. */
#ifndef RS_TRAIN_OPTIMISER_PARTS_H
#define RS_TRAIN_OPTIMISER_PARTS_H

#include "train/optimiser.h"

/* A step's numbers, the same for all entries of a tensor. */
typedef struct rs_step_numbers {
    rs_optimiser_kind kind;
    double scale; /* of the gradient */
    double lr, decay, beta1, beta2, eps;
    double correction1, correction2_root; /* 1 - beta1^t, sqrt(1 - beta2^t) */
} rs_step_numbers;

typedef struct rs_optimiser_ops {
    size_t size; /* of a number */
    /* Entries [first, first + n) of a tensor and its states. */
    void (*step)(void *weight, const void *gradient, void *first_state, void *second_state,
                 int64_t first, int64_t n, const rs_step_numbers *numbers);
    double (*squares)(const void *numbers, int64_t first, int64_t n);
    /* Sum of (numbers[first + i] - before[i])^2, i < n. */
    double (*moved)(const void *numbers, const void *before, int64_t first, int64_t n);
    double (*effective)(const void *second_state, int64_t n, const rs_step_numbers *numbers);
    /* out [n] += by m / (sqrt(v) + eps) in double, m and v the states' entries from `first` on. */
    void (*direction)(double *out, const void *first_state, const void *second_state, int64_t first,
                      int64_t n, double by, double eps);
    double (*penalty)(const rs_product_factor *a, const rs_product_factor *b, int64_t r, double mu,
                      void *work);
} rs_optimiser_ops;

extern const rs_optimiser_ops rs_optimiser_f32, rs_optimiser_f64;
#if defined(__x86_64__)
extern const rs_optimiser_ops rs_optimiser_f32_avx2, rs_optimiser_f32_avx512; /* the same bits */
#endif
/* The tables of float that this processor can run, [*n]; the widest comes last. */
const rs_optimiser_ops *const *rs_optimiser_f32_tables(size_t *n);

#endif
