/* init_numbers.c: laws of drawn numbers that no formula says: rates and steps of state spaces. */
#include "network/init.h"

#include <math.h>

void rs_init_fill_uniform(const rs_init *init, const rs_tensor *tensor, double bound)
{
    float *numbers = tensor ? rs_init_numbers(init, tensor) : NULL;
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)(bound * (2 * rs_init_uniform(init, tensor, i) - 1));
}

void rs_init_fill(const rs_init *init, const rs_tensor *tensor, double value)
{
    float *numbers = tensor ? rs_init_numbers(init, tensor) : NULL;
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)value;
}

void rs_init_fill_rates(const rs_init *init, const rs_tensor *tensor, int64_t n)
{
    float *numbers = rs_init_numbers(init, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)log((double)(i % n + 1));
}

void rs_init_fill_logs(const rs_init *init, const rs_tensor *tensor, double low, double high)
{
    float *numbers = rs_init_numbers(init, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] =
            (float)log(low + (high - low) * fmax(rs_init_uniform(init, tensor, i), 0x1p-24));
}

void rs_init_fill_steps(const rs_init *init, const rs_tensor *tensor, double low, double high,
                        double least)
{
    float *numbers = rs_init_numbers(init, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++) {
        double u = rs_init_uniform(init, tensor, i);
        double step = fmax(exp(log(low) + u * (log(high) - log(low))), least);
        numbers[i] = (float)(step + log(-expm1(-step)));
    }
}

void rs_init_fill_log_steps(const rs_init *init, const rs_tensor *tensor, double low, double high)
{
    float *numbers = rs_init_numbers(init, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)(log(low) + rs_init_uniform(init, tensor, i) * (log(high) - log(low)));
}

void rs_init_fill_frequencies(const rs_init *init, const rs_tensor *tensor, int64_t n)
{
    float *numbers = rs_init_numbers(init, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)(acos(-1) * (double)(i % n));
}

void rs_init_scale(const rs_init *init, const rs_tensor *tensor, double factor)
{
    float *numbers = rs_init_numbers(init, tensor);
    for (int64_t i = 0; numbers && i < tensor->count; i++)
        numbers[i] = (float)(factor * (double)numbers[i]);
}
