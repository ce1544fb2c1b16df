/* fuzz_safetensors.c: any bytes as a safetensors file; what is accepted must decode in bounds. */
#include "../tests/unit/memory_checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_ends(const rs_tensor *tensor)
{
    float narrow[8];
    double wide[8];
    if (tensor->count == 0 || !rs_dtype_decodable(tensor->dtype)) return;
    int64_t n = tensor->count < 8 ? tensor->count : 8;
    rs_tensor_decode_f32(narrow, tensor, 0, n);
    rs_tensor_decode_f64(wide, tensor, tensor->count - n, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int lenient = 0; lenient < 2; lenient++) {
        const rs_checkpoint_options options = {.lenient = lenient};
        memory_checkpoint memory = memory_checkpoint_new(data, size);
        rs_error err;
        if (rs_safetensors_read(memory.checkpoint, 0, &options, &err) == RS_OK)
            for (size_t i = 0; i < memory.checkpoint->n_tensors; i++)
                decode_ends(&memory.checkpoint->tensors[i]);
        memory_checkpoint_free(&memory);
    }
    return 0;
}
