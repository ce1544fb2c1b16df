/* fuzz_index.c: any bytes as model.safetensors.index.json; what is accepted names plain files. */
#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *map, *value;
    const char *name;
    rs_error err;
    if (rs_index_parse(&map, "memory", (const char *)data, size, &err) != RS_OK) return 0;
    json_object_foreach(map, name, value)
    {
        const char *shard = json_string_value(value);
        if (!shard || !*shard || strpbrk(shard, "/\\") || strstr(shard, "..")) abort();
    }
    json_decref(map);
    return 0;
}
