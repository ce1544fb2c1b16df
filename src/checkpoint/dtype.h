/*
 * dtype.h: every element type that a checkpoint can hold, as one table.
 *
 * A type is a block of `block` elements in `bits`/8 bytes (plain types: block 1; F4 and F6 types of
 * safetensors: bits < 8 per element with block 1). Decoders turn whole blocks into float32, or
 * float64 for F64; values of every type but F64, I64, U64, I32 and U32 are exact in float32.
 */
#ifndef RS_CHECKPOINT_DTYPE_H
#define RS_CHECKPOINT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The types, by their names in safetensors and GGUF. */
typedef enum rs_dtype {
    RS_DTYPE_UNKNOWN = 0, /* an unknown number of a GGUF type: listed, never decoded */
    /* those of safetensors */
    RS_BOOL,
    RS_F4,
    RS_F6_E2M3,
    RS_F6_E3M2,
    RS_U8,
    RS_I8,
    RS_F8_E5M2,
    RS_F8_E4M3,
    RS_F8_E8M0,
    RS_F8_E4M3FNUZ,
    RS_F8_E5M2FNUZ,
    RS_I16,
    RS_U16,
    RS_F16,
    RS_BF16,
    RS_I32,
    RS_U32,
    RS_F32,
    RS_C64,
    RS_F64,
    RS_I64,
    RS_U64,
    /* GGUF blocks (the plain GGUF types map to the names above) */
    RS_Q4_0,
    RS_Q4_1,
    RS_Q5_0,
    RS_Q5_1,
    RS_Q8_0,
    RS_Q8_1,
    RS_Q2_K,
    RS_Q3_K,
    RS_Q4_K,
    RS_Q5_K,
    RS_Q6_K,
    RS_Q8_K,
    RS_IQ2_XXS,
    RS_IQ2_XS,
    RS_IQ3_XXS,
    RS_IQ1_S,
    RS_IQ4_NL,
    RS_IQ3_S,
    RS_IQ2_S,
    RS_IQ4_XS,
    RS_IQ1_M,
    RS_TQ1_0,
    RS_TQ2_0,
    RS_MXFP4,
    RS_NVFP4,
    RS_Q1_0,
    RS_Q2_0,
    RS_DTYPE_COUNT
} rs_dtype;

/* What is known of a type. */
typedef struct rs_dtype_traits {
    const char *name; /* "BF16", "Q4_K": as safetensors or GGUF spell it */
    uint32_t block;   /* elements in a block; 0: the size is not known */
    uint32_t bits;    /* bits in a block */
    bool quantised;   /* elements are integer codes with a scale, and so have a step */
    /* Decodes n_blocks whole blocks at `source` (any alignment) to n_blocks*block floats; NULL:
     * decode_f64 does, or nothing. */
    void (*decode_f32)(float *out, const uint8_t *source, size_t n_blocks);
    /* Decodes to doubles: where float32 would lose bits (F64, I64, U64, I32, U32), and F32, which
     * need not be copied first; else NULL, by way of float32. */
    void (*decode_f64)(double *out, const uint8_t *source, size_t n_blocks);
    /* Mean over a block of step², step being the spacing of the codes' values; NULL: no steps. */
    double (*step_squared)(const uint8_t *block);
} rs_dtype_traits;

/* The traits of a type; never NULL for a value of the enumeration. */
const rs_dtype_traits *rs_dtype_info(rs_dtype dtype);

/* True when rs_tensor_decode can read it as numbers. */
bool rs_dtype_decodable(rs_dtype dtype);

/* Machine epsilon that numerical_rank uses (docs/contract.md): that of float64 for F64, of float32
 * for all else. */
double rs_dtype_epsilon(rs_dtype dtype);

/* encode.c: whether rs_dtype_encode can write it: F64, F32, F16 and BF16. It rounds each number to the
 * nearest of the type, ties to even, and returns how many were finite and are not any more. */
bool rs_dtype_encodable(rs_dtype dtype);
int64_t rs_dtype_encode(uint8_t *out, rs_dtype dtype, const double *numbers, int64_t n);

/* decode_float.c: decoders of plain and small float types and of integers. */
void rs_decode_bool(float *out, const uint8_t *source, size_t n);
/* Two elements a byte, the low nibble first. */
void rs_decode_f4(float *out, const uint8_t *source, size_t n_bytes_pairs);
/* Four elements in three bytes. */
void rs_decode_f6_e2m3(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_f6_e3m2(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_u8(float *out, const uint8_t *source, size_t n);
void rs_decode_i8(float *out, const uint8_t *source, size_t n);
void rs_decode_f8_e5m2(float *out, const uint8_t *source, size_t n);
void rs_decode_f8_e4m3(float *out, const uint8_t *source, size_t n);
void rs_decode_f8_e8m0(float *out, const uint8_t *source, size_t n);
void rs_decode_f8_e4m3fnuz(float *out, const uint8_t *source, size_t n);
void rs_decode_f8_e5m2fnuz(float *out, const uint8_t *source, size_t n);
void rs_decode_i16(float *out, const uint8_t *source, size_t n);
void rs_decode_u16(float *out, const uint8_t *source, size_t n);
void rs_decode_f16(float *out, const uint8_t *source, size_t n);
void rs_decode_f16_plain(float *out, const uint8_t *source, size_t n); /* its twin without F16C */
void rs_decode_bf16(float *out, const uint8_t *source, size_t n);
void rs_decode_f32(float *out, const uint8_t *source, size_t n);
void rs_decode_f32_f64(double *out, const uint8_t *source, size_t n);
void rs_decode_i32(double *out, const uint8_t *source, size_t n);
void rs_decode_u32(double *out, const uint8_t *source, size_t n);
void rs_decode_f64(double *out, const uint8_t *source, size_t n);
void rs_decode_i64(double *out, const uint8_t *source, size_t n);
void rs_decode_u64(double *out, const uint8_t *source, size_t n);

/* decode_gguf.c: GGUF blocks (docs/formats.md, 7), bit for bit the reference dequantisers */
void rs_decode_q4_0(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q4_1(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q5_0(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q5_1(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q8_0(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q2_k(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q3_k(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q4_k(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q5_k(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_q6_k(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_iq4_nl(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_iq4_xs(float *out, const uint8_t *source, size_t n_blocks);
void rs_decode_mxfp4(float *out, const uint8_t *source, size_t n_blocks);
double rs_step_q4_0(const uint8_t *block);
double rs_step_q4_1(const uint8_t *block);
double rs_step_q5_0(const uint8_t *block);
double rs_step_q5_1(const uint8_t *block);
double rs_step_q8_0(const uint8_t *block);
double rs_step_q2_k(const uint8_t *block);
double rs_step_q3_k(const uint8_t *block);
double rs_step_q4_k(const uint8_t *block);
double rs_step_q5_k(const uint8_t *block);
double rs_step_q6_k(const uint8_t *block);
double rs_step_iq4_nl(const uint8_t *block);
double rs_step_iq4_xs(const uint8_t *block);
double rs_step_mxfp4(const uint8_t *block);

#endif
