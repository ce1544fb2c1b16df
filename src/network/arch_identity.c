/*
 * arch_identity.c: the maps of attention that an architecture file leaves out ("wv" and "wo" of
 * "identity"). Every pass, product and bound reads a branch's maps as it finds them, so that an absent
 * one is a map like any other, whose numbers are given.
 */
#include "network/arch_build.h"

static bool is_values(rs_role role)
{
    return role == RS_ROLE_V;
}

bool rs_arch_is_absent(const rs_arch *arch, rs_role role)
{
    if (is_values(role)) return arch->absent_values;
    return arch->absent_output && (role == RS_ROLE_O || role == RS_ROLE_SSM_OUT);
}

/* Values of one stretch a head are the tokens where all stretches together are as wide; whole ones
 * always are. */
static rs_status check(const rs_dense *map, const rs_arch_build *b, bool values)
{
    const rs_arch *arch = b->arch;
    int64_t width = values ? map->out : map->in;
    if (width == arch->d_model || (values && arch->merged_output && width % arch->d_model == 0))
        return RS_OK;
    return rs_fail(b->err, RS_E_ARCH_SCHEMA, arch->path,
                   values ? "give heads whose widths add up to \"d_model\", or another law"
                          : "give heads whose widths add up to \"d_model\", or \"wo\": \"none\"",
                   values
                       ? "\"wv\" is identity: values are the tokens, of \"d_model\" %lld numbers, "
                         "and \"kv_heads\" x \"d_head\" is %lld"
                       : "\"wo\" is identity: what the heads give is the output, of \"d_model\" "
                         "%lld numbers, and they give %lld",
                   (long long)arch->d_model, (long long)width);
}

/* One above the other where the values are whole. */
static rs_status make(const rs_tensor **out, const rs_dense *map, const rs_arch_build *b)
{
    float *numbers;
    const rs_tensor *had = *out;
    if (had && had->shape[0] == map->rows && had->shape[1] == map->cols) return RS_OK;
    RS_TRY(rs_arch_fixed(out, &numbers, b, "identity", map->rows, map->cols));
    for (int64_t i = 0; i < map->rows; i++)
        numbers[i * map->cols + i % map->cols] = 1;
    return RS_OK;
}

rs_status rs_arch_identity(rs_dense *map, const rs_arch_build *b, rs_role role)
{
    bool values = is_values(role);
    RS_TRY(check(map, b, values));
    RS_TRY(make(&b->identity[!values], map, b));
    map->weight = b->identity[!values];
    return RS_OK;
}
