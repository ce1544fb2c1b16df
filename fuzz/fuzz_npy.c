/* fuzz_npy.c: any bytes as an .npy file; every element of what is accepted can be read. */
#include "checkpoint/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rs_npy array;
    rs_error err;
    if (rs_npy_parse(&array, "memory", data, size, &err) != RS_OK) return 0;
    int64_t integer;
    double real;
    if (array.count < 0 || (size_t)array.count > size) abort();
    for (int64_t i = 0; i < array.count; i++)
        if (rs_npy_is_whole(&array))
            rs_npy_integers(&integer, &array, i, 1);
        else
            rs_npy_reals(&real, &array, i, 1);
    return 0;
}
