/* fuzz_config.c: any bytes as config.json; what is accepted is an object that can be written. */
#include "checkpoint/checkpoint.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *config;
    rs_error err;
    if (rs_config_parse(&config, "memory", (const char *)data, size, &err) != RS_OK) return 0;
    char *text = json_dumps(config, JSON_COMPACT);
    if (!json_is_object(config) || !text) abort();
    free(text);
    json_decref(config);
    return 0;
}
