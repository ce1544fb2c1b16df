/* fuzz_states.c: any bytes as a file of --states; what is accepted is finite rows of two numbers. */
#include "base/memory.h"
#include "observe/inputs_parts.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { WIDTH = 2 };
    static const rs_network network = {.family = "none", .d_model = WIDTH};
    static const rs_input_source source = {.states = "memory",
                                           .memory = {.bytes = 1 << 24, .who = "fuzzing has"}};
    rs_error err;
    rs_inputs *in = rs_calloc(1, sizeof *in);
    if (!in) return 0;
    if (rs_input_states_read(in, data, size, WIDTH, &source, &network, &err) == RS_OK)
        for (int64_t i = 0; i < in->begin[in->samples] * WIDTH; i++)
            if (!isfinite(in->states[i])) abort();
    rs_inputs_close(in);
    return 0;
}
