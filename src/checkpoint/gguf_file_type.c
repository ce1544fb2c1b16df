/* gguf_file_type.c: the names behind general.file_type, as llama.cpp numbers them (llama.h,
 * llama_ftype; gguf-py, LlamaFileType). */
#include "checkpoint/checkpoint.h"

enum { GUESSED = 1024 }; /* a flag: the writer did not know, and chose by most tensors */

static const char *const names[] = {
    [0] = "F32",      [1] = "F16",      [2] = "Q4_0",       [3] = "Q4_1",    [7] = "Q8_0",
    [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",      [11] = "Q3_K_S", [12] = "Q3_K_M",
    [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M",    [16] = "Q5_K_S", [17] = "Q5_K_M",
    [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS",    [21] = "Q2_K_S", [22] = "IQ3_XS",
    [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL",    [26] = "IQ3_S",  [27] = "IQ3_M",
    [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS",    [31] = "IQ1_M",  [32] = "BF16",
    [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4_MOE", [39] = "NVFP4",  [40] = "Q1_0",
};

const char *rs_gguf_file_type(const rs_checkpoint *checkpoint)
{
    if (checkpoint->format != RS_FORMAT_GGUF) return NULL;
    const json_t *value = json_object_get(checkpoint->config, "general.file_type");
    json_int_t code = json_is_integer(value) ? json_integer_value(value) : -1;
    if (code >= GUESSED) code -= GUESSED;
    return code >= 0 && code < (json_int_t)(sizeof names / sizeof *names) ? names[code] : NULL;
}
