/* decode.c: any stretch of a tensor as float32 or float64, through the type's block decoder. */
#include "checkpoint/checkpoint.h"

#include <string.h>

enum {
    LARGEST_BLOCK = 256, /* elements, of the K-quants */
    STRETCH = 1024       /* elements held on the stack while widening or narrowing; whole blocks */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* [first, first+count) of one block, through a small buffer. */
static void decode_part(float *out, const rs_dtype_traits *traits, const uint8_t *block,
                        int64_t first, int64_t count)
{
    float buffer[LARGEST_BLOCK];
    traits->decode_f32(buffer, block, 1);
    memcpy(out, buffer + first, (size_t)count * sizeof *out);
}

static void decode_blocks(float *out, const rs_dtype_traits *traits, const uint8_t *data,
                          int64_t first, int64_t count)
{
    int64_t block = traits->block, bytes = traits->bits / 8;
    const uint8_t *source = data + first / block * bytes;
    int64_t skip = first % block;
    if (skip) {
        int64_t n = least(block - skip, count);
        decode_part(out, traits, source, skip, n);
        out += n, count -= n, source += bytes;
    }
    int64_t whole = count / block;
    if (whole) traits->decode_f32(out, source, (size_t)whole);
    if (count % block)
        decode_part(out + whole * block, traits, source + whole * bytes, 0, count % block);
}

void rs_tensor_decode_f32(float *out, const rs_tensor *tensor, int64_t first, int64_t count)
{
    const rs_dtype_traits *traits = rs_dtype_info(tensor->dtype);
    if (count <= 0) return;
    if (traits->decode_f32) {
        decode_blocks(out, traits, tensor->data, first, count);
        return;
    }
    /* types wider than float32: block 1 */
    double wide[STRETCH];
    const uint8_t *source = tensor->data + first * (traits->bits / 8);
    for (int64_t done = 0; done < count; done += STRETCH) {
        int64_t n = least(count - done, STRETCH);
        traits->decode_f64(wide, source + done * (traits->bits / 8), (size_t)n);
        for (int64_t i = 0; i < n; i++)
            out[done + i] = (float)wide[i];
    }
}

void rs_tensor_decode_f64(double *out, const rs_tensor *tensor, int64_t first, int64_t count)
{
    const rs_dtype_traits *traits = rs_dtype_info(tensor->dtype);
    if (count <= 0) return;
    if (traits->decode_f64) {
        traits->decode_f64(out, tensor->data + first * (traits->bits / 8), (size_t)count);
        return;
    }
    float narrow[STRETCH];
    for (int64_t done = 0; done < count;) {
        /* after the first stretch every one begins at a block */
        int64_t n = least(count - done, STRETCH - (first + done) % traits->block);
        decode_blocks(narrow, traits, tensor->data, first + done, n);
        for (int64_t i = 0; i < n; i++)
            out[done + i] = (double)narrow[i];
        done += n;
    }
}

void rs_tensor_expect(const rs_tensor *tensor, int64_t first, int64_t count)
{
    enum { LINE = 64 };
    const rs_dtype_traits *traits = rs_dtype_info(tensor->dtype);
    int64_t bytes = traits->bits / 8;
    const uint8_t *next = tensor->data + first / traits->block * bytes,
                  *end = tensor->data + (first + count - 1) / traits->block * bytes;
    for (; next <= end; next += LINE)
        __builtin_prefetch(next);
}
