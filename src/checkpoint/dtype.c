/* dtype.c: the table of element types; one row a type. */
#include "checkpoint/dtype.h"

#include <float.h>

#define PLAIN(bits_, decode_) .block = 1, .bits = (bits_), .decode_f32 = (decode_)
#define PLAIN64(bits_, decode_) .block = 1, .bits = (bits_), .decode_f64 = (decode_)
#define QUANT(block_, bytes_, name_)                                                               \
    .block = (block_), .bits = 8 * (bytes_), .quantised = true, .decode_f32 = rs_decode_##name_,   \
    .step_squared = rs_step_##name_
#define OPAQUE(block_, bytes_) .block = (block_), .bits = 8 * (bytes_), .quantised = true

static const rs_dtype_traits table[RS_DTYPE_COUNT] = {
    [RS_DTYPE_UNKNOWN] = {.name = "unknown"},
    [RS_BOOL] = {.name = "BOOL", PLAIN(8, rs_decode_bool)},
    [RS_F4] = {.name = "F4", .block = 2, .bits = 8, .decode_f32 = rs_decode_f4},
    [RS_F6_E2M3] = {.name = "F6_E2M3", .block = 4, .bits = 24, .decode_f32 = rs_decode_f6_e2m3},
    [RS_F6_E3M2] = {.name = "F6_E3M2", .block = 4, .bits = 24, .decode_f32 = rs_decode_f6_e3m2},
    [RS_U8] = {.name = "U8", PLAIN(8, rs_decode_u8)},
    [RS_I8] = {.name = "I8", PLAIN(8, rs_decode_i8)},
    [RS_F8_E5M2] = {.name = "F8_E5M2", PLAIN(8, rs_decode_f8_e5m2)},
    [RS_F8_E4M3] = {.name = "F8_E4M3", PLAIN(8, rs_decode_f8_e4m3)},
    [RS_F8_E8M0] = {.name = "F8_E8M0", PLAIN(8, rs_decode_f8_e8m0)},
    [RS_F8_E4M3FNUZ] = {.name = "F8_E4M3FNUZ", PLAIN(8, rs_decode_f8_e4m3fnuz)},
    [RS_F8_E5M2FNUZ] = {.name = "F8_E5M2FNUZ", PLAIN(8, rs_decode_f8_e5m2fnuz)},
    [RS_I16] = {.name = "I16", PLAIN(16, rs_decode_i16)},
    [RS_U16] = {.name = "U16", PLAIN(16, rs_decode_u16)},
    [RS_F16] = {.name = "F16", PLAIN(16, rs_decode_f16)},
    [RS_BF16] = {.name = "BF16", PLAIN(16, rs_decode_bf16)},
    [RS_I32] = {.name = "I32", PLAIN64(32, rs_decode_i32)},
    [RS_U32] = {.name = "U32", PLAIN64(32, rs_decode_u32)},
    [RS_F32] = {.name = "F32", PLAIN(32, rs_decode_f32), .decode_f64 = rs_decode_f32_f64},
    [RS_C64] = {.name = "C64", .block = 1, .bits = 64},
    [RS_F64] = {.name = "F64", PLAIN64(64, rs_decode_f64)},
    [RS_I64] = {.name = "I64", PLAIN64(64, rs_decode_i64)},
    [RS_U64] = {.name = "U64", PLAIN64(64, rs_decode_u64)},
    [RS_Q4_0] = {.name = "Q4_0", QUANT(32, 18, q4_0)},
    [RS_Q4_1] = {.name = "Q4_1", QUANT(32, 20, q4_1)},
    [RS_Q5_0] = {.name = "Q5_0", QUANT(32, 22, q5_0)},
    [RS_Q5_1] = {.name = "Q5_1", QUANT(32, 24, q5_1)},
    [RS_Q8_0] = {.name = "Q8_0", QUANT(32, 34, q8_0)},
    [RS_Q8_1] = {.name = "Q8_1", OPAQUE(32, 36)},
    [RS_Q2_K] = {.name = "Q2_K", QUANT(256, 84, q2_k)},
    [RS_Q3_K] = {.name = "Q3_K", QUANT(256, 110, q3_k)},
    [RS_Q4_K] = {.name = "Q4_K", QUANT(256, 144, q4_k)},
    [RS_Q5_K] = {.name = "Q5_K", QUANT(256, 176, q5_k)},
    [RS_Q6_K] = {.name = "Q6_K", QUANT(256, 210, q6_k)},
    [RS_Q8_K] = {.name = "Q8_K", OPAQUE(256, 292)},
    [RS_IQ2_XXS] = {.name = "IQ2_XXS", OPAQUE(256, 66)},
    [RS_IQ2_XS] = {.name = "IQ2_XS", OPAQUE(256, 74)},
    [RS_IQ3_XXS] = {.name = "IQ3_XXS", OPAQUE(256, 98)},
    [RS_IQ1_S] = {.name = "IQ1_S", OPAQUE(256, 50)},
    [RS_IQ4_NL] = {.name = "IQ4_NL", QUANT(32, 18, iq4_nl)},
    [RS_IQ3_S] = {.name = "IQ3_S", OPAQUE(256, 110)},
    [RS_IQ2_S] = {.name = "IQ2_S", OPAQUE(256, 82)},
    [RS_IQ4_XS] = {.name = "IQ4_XS", QUANT(256, 136, iq4_xs)},
    [RS_IQ1_M] = {.name = "IQ1_M", OPAQUE(256, 56)},
    [RS_TQ1_0] = {.name = "TQ1_0", OPAQUE(256, 54)},
    [RS_TQ2_0] = {.name = "TQ2_0", OPAQUE(256, 66)},
    [RS_MXFP4] = {.name = "MXFP4", QUANT(32, 17, mxfp4)},
    [RS_NVFP4] = {.name = "NVFP4", OPAQUE(64, 36)},
    [RS_Q1_0] = {.name = "Q1_0", OPAQUE(128, 18)},
    [RS_Q2_0] = {.name = "Q2_0", .quantised = true},
};

const rs_dtype_traits *rs_dtype_info(rs_dtype dtype)
{
    return &table[dtype < RS_DTYPE_COUNT ? dtype : RS_DTYPE_UNKNOWN];
}

bool rs_dtype_decodable(rs_dtype dtype)
{
    const rs_dtype_traits *traits = rs_dtype_info(dtype);
    return traits->decode_f32 || traits->decode_f64;
}

double rs_dtype_epsilon(rs_dtype dtype)
{
    return dtype == RS_F64 ? DBL_EPSILON : FLT_EPSILON;
}
