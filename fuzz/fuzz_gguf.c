/* fuzz_gguf.c: libFuzzer on the GGUF reader: one input is one file, and the first tensors are
 * decoded. Seeds: fuzz/corpus/gguf.tar.gz, made by tests/oracle/make_gguf_seeds.py. Run as
 *
 *     fuzz_gguf -dict=fuzz/gguf.dict -max_len=8192 FOLDER SEEDS */
#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { DECODED_TENSORS = 8, MAX_BLOCKS = 64 };

static volatile double sink; /* keeps the decoded values from being optimised away */

static void decode(const rs_tensor *tensor)
{
    const rs_dtype_traits *traits = rs_dtype_info(tensor->dtype);
    if (!rs_dtype_decodable(tensor->dtype)) return;
    size_t blocks = (size_t)(tensor->count / traits->block);
    if (blocks > MAX_BLOCKS) blocks = MAX_BLOCKS;
    double *values = malloc((blocks * traits->block + 1) * sizeof *values);
    if (!values) return;
    if (traits->decode_f64)
        traits->decode_f64(values, tensor->data, blocks);
    else
        traits->decode_f32((float *)values, tensor->data, blocks);
    if (blocks) sink = *(const float *)values;
    for (size_t b = 0; traits->step_squared && b < blocks; b++)
        sink = traits->step_squared(tensor->data + b * (traits->bits / 8));
    free(values);
}

/* Every byte that a tensor claims must be inside the file. */
static void touch(const rs_tensor *tensor)
{
    if (tensor->bytes) sink = (double)tensor->data[0] + (double)tensor->data[tensor->bytes - 1];
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] < 0) abort();
}

static rs_checkpoint *wrap(const uint8_t *data, size_t size)
{
    rs_checkpoint *checkpoint = rs_checkpoint_new(RS_FORMAT_GGUF, "input");
    checkpoint->files = rs_calloc(1, sizeof *checkpoint->files);
    checkpoint->n_files = 1;
    checkpoint->files[0].name = rs_strdup("input");
    checkpoint->files[0].mapping = rs_malloc(1, sizeof(rs_mapping));
    *checkpoint->files[0].mapping =
        (rs_mapping){.data = data, .size = size, .path = rs_strdup("input"), .slot = -1};
    return checkpoint;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rs_checkpoint *checkpoint = wrap(data, size);
    rs_error err;
    if (rs_gguf_read(checkpoint, 0, &err) == RS_OK) {
        for (size_t i = 0; i < checkpoint->n_tensors; i++) {
            touch(&checkpoint->tensors[i]);
            if (i < DECODED_TENSORS) decode(&checkpoint->tensors[i]);
        }
        char *text = json_dumps(checkpoint->config, 0); /* what is stored must be valid JSON */
        if (!text) abort();
        free(text);
    } else if (err.status == RS_OK || !err.what[0]) {
        abort(); /* a failure without a reason */
    }
    checkpoint->files[0].mapping->size = 0; /* not ours to unmap */
    rs_checkpoint_close(checkpoint);
    return 0;
}
