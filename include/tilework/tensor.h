/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and tensor descriptions. */
#ifndef TILEWORK_TENSOR_H
#define TILEWORK_TENSOR_H

#include <stdbool.h>

#include <tilework/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. Sub-byte types are packed, element 0 in the low bits of byte 0. */
typedef enum tw_dtype {
    TW_AUTO = 0, /* "the usual one": each use says which */
    TW_F64 = 1,
    TW_F32 = 2,
    TW_F16 = 3,
    TW_BF16 = 4,
    TW_E4M3FN = 5,   /* fp8, 4 exponent bits, no infinity, max 448 */
    TW_E5M2 = 6,     /* fp8, 5 exponent bits, infinity, max 57344 */
    TW_E4M3FNUZ = 7, /* fp8, no infinity, no negative zero, max 240 */
    TW_E5M2FNUZ = 8, /* fp8, no infinity, no negative zero, max 57344 */
    TW_E8M0 = 9,     /* a power of two, 2^-127 to 2^127, and NaN: block scales */
    TW_F4E2M1 = 10,  /* 4 bits: 0 0.5 1 1.5 2 3 4 6 and their negatives */
    TW_I64 = 11,
    TW_I32 = 12,
    TW_I16 = 13,
    TW_I8 = 14,
    TW_I4 = 15,
    TW_I2 = 16,
    TW_U64 = 17,
    TW_U32 = 18,
    TW_U16 = 19,
    TW_U8 = 20,
    TW_U4 = 21,
    TW_U2 = 22,
    TW_BOOL = 23, /* one byte, 0 or 1; any other byte reads as true */
    TW_C64 = 24,  /* two f32; layout operations only */
    TW_C128 = 25, /* two f64; layout operations only */
    TW_DTYPE_END = 26
} tw_dtype;

#define TW_MAX_RANK 8

/* A tensor inside a graph: a number, from 1, that only that graph understands. */
typedef int32_t tw_tensor;
#define TW_NONE ((tw_tensor)0)

enum {
    TW_TENSOR_VIRTUAL = 1, /* lives inside a plan only; the caller binds no memory to it */
    TW_TENSOR_WIDE = 2     /* a virtual tensor that need not be rounded to its element type */
};

/* What a tensor looks like. Zero-initialise, or use tw_desc(). */
typedef struct tw_tensor_desc {
    size_t size; /* sizeof(tw_tensor_desc); 0 is read as the first version */
    tw_dtype dtype;
    int32_t rank;                 /* 0 (a scalar) to TW_MAX_RANK */
    int64_t dims[TW_MAX_RANK];    /* logical order, N C spatial… for images; each >= 0 */
    int64_t strides[TW_MAX_RANK]; /* in elements, each >= 0; read only if has_strides */
    bool has_strides;             /* false: row-major for bound tensors, the planner's choice for
                                     virtual ones; `strides` is ignored */
    int64_t alignment;            /* bytes the bound pointer is aligned to; 0: one element's own */
    uint32_t flags;               /* TW_TENSOR_* */
    int64_t uid;                  /* the caller's own id, for binding; 0: the tensor's number */
    tw_tensor ragged_offsets;     /* element offsets [N+1] of a packed batch, or TW_NONE */
    const char *name;             /* optional, copied; appears in messages and reports */
} tw_tensor_desc;

/* A row-major description of `rank` dims; the rest zero. */
TW_API tw_tensor_desc tw_desc(tw_dtype dtype, int32_t rank, const int64_t *dims);

/* The same with channels-last strides: dim 1 is the fastest. Ranks below 3 stay row-major. */
TW_API tw_tensor_desc tw_desc_channels_last(tw_dtype dtype, int32_t rank, const int64_t *dims);

/* Elements of a description, and the bytes from its first to past its last element.
 * -1 when the description is invalid or the figure exceeds int64_t. */
TW_API int64_t tw_desc_elements(const tw_tensor_desc *desc);
TW_API int64_t tw_desc_bytes(const tw_tensor_desc *desc);

/* Names as in problem strings: "f32", "bf16", "e4m3fn", "i4", "bool"… NULL / TW_AUTO if unknown. */
TW_API const char *tw_dtype_name(tw_dtype dtype);
TW_API tw_dtype tw_dtype_from_name(const char *name);
TW_API int tw_dtype_bits(tw_dtype dtype); /* 0 if unknown */

/* How a value becomes a narrower one. Rounding is always to nearest, ties to even. */
enum {
    TW_CONVERT_SATURATE = 1, /* out of range: the largest finite value (integers always saturate) */
    TW_CONVERT_TRUNCATE = 2, /* float to integer: toward zero, as a C cast, instead of to nearest */
    TW_CONVERT_WRAP = 4      /* integer to narrower integer: keep the low bits */
};

/* Converts n contiguous elements. Element types may be any but complex. In place only when both
 * types have the same size. Thread-safe. Without SATURATE, overflow gives an infinity, or NaN in a
 * type without one. NaN becomes 0 in an integer. */
TW_API tw_status tw_convert(tw_dtype dst_type, void *dst, tw_dtype src_type, const void *src,
                            int64_t n, uint32_t flags);

#ifdef __cplusplus
}
#endif
#endif
