/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: everything that decides a call's plan becomes a few dozen words. */
#include <string.h>

#include "simple/call.h"

static const tw_tensor_desc scalar_f32 = {.dtype = TW_F32}, scalar_i64 = {.dtype = TW_I64};

/* tw_input and tw_output have the same fields; data is not written where it is an input's. */
_Static_assert(sizeof(tw_input) == sizeof(tw_output), "an input can be read as an output");

static tw_output described(const void *call, const tw_call_operand *operand)
{
    tw_output result;
    memcpy(&result, (const char *)call + operand->offset, sizeof result);
    return result;
}

tw_output tw_call_operand_of(const tw_call_kind *kind, const void *call, int32_t i)
{
    const tw_call_operand *operand = &kind->operands[i];
    if (operand->role < TW_ROLE_F32) return described(call, operand);
    union {
        const void *given;
        void *kept;
    } number = {.given = (const char *)call + operand->offset};
    return (tw_output){operand->role == TW_ROLE_F32 ? &scalar_f32 : &scalar_i64, number.kept};
}

static tw_status refuse_desc(const tw_call_kind *kind, const tw_call_operand *operand,
                             const tw_tensor_desc *desc)
{
    const char *call = kind->name, *name = operand->name;
    TW_REQUIRE(desc, TW_INVALID_ARGUMENT, "%s: %s.desc is NULL; describe the tensor", call, name);
    TW_REQUIRE(!(desc->flags & TW_TENSOR_VIRTUAL), TW_INVALID_ARGUMENT,
               "%s: %s.desc->flags has TW_TENSOR_VIRTUAL; the tensors of a call have memory", call,
               name);
    TW_REQUIRE(desc->ragged_offsets == TW_NONE, TW_INVALID_ARGUMENT,
               "%s: %s.desc->ragged_offsets is %d; packed batches need a graph, here it is TW_NONE",
               call, name, (int)desc->ragged_offsets);
    return tw_fail(TW_INVALID_ARGUMENT, "%s: %s.desc->rank is %d; it must be 0 to %d", call, name,
                   (int)desc->rank, TW_MAX_RANK);
}

static tw_status pack_operand(const tw_call_kind *kind, const tw_call_operand *operand,
                              const void *call, tw_call_key *key)
{
    const tw_tensor_desc *desc = described(call, operand).desc;
    int64_t *words = key->words + key->n;
    if (!desc && operand->optional) {
        words[0] = 0;
        key->n++;
        return TW_OK;
    }
    if (!desc || (uint32_t)desc->rank > TW_MAX_RANK || (desc->flags & TW_TENSOR_VIRTUAL) ||
        desc->ragged_offsets != TW_NONE)
        return refuse_desc(kind, operand, desc);
    int32_t rank = desc->rank, at = 2;
    words[0] = 1 | (int64_t)desc->has_strides << 8 | (int64_t)rank << 16 |
               (int64_t)(uint32_t)desc->dtype << 24;
    words[1] = desc->alignment;
    for (int32_t d = 0; d < rank; d++) words[at++] = desc->dims[d];
    for (int32_t d = 0; desc->has_strides && d < rank; d++) words[at++] = desc->strides[d];
    key->n += at;
    return TW_OK;
}

static tw_status pack_block(const tw_call_kind *kind, const tw_call_block *block, const void *call,
                            tw_call_key *key)
{
    const char *fields = call;
    if (block->bytes > 0) {
        memcpy(&fields, (const char *)call + block->offset, sizeof fields);
        key->words[key->n++] = fields != NULL;
        if (!fields) return TW_OK;
        size_t size;
        memcpy(&size, fields, sizeof size);
        TW_REQUIRE(size == 0 || size >= block->bytes, TW_INVALID_ARGUMENT,
                   "%s: %s->size is %zu; it must be 0 or sizeof the struct, %d", kind->name,
                   block->name, size, (int)block->bytes);
    }
    for (int32_t s = 0; s < block->n_spans; s++) {
        const tw_call_span *span = &block->spans[s];
        int64_t n = (span->bytes + 7) / 8;
        key->words[key->n + n - 1] = 0; /* what the last bytes do not fill */
        memcpy(&key->words[key->n], fields + span->offset, span->bytes);
        key->n += n;
    }
    return TW_OK;
}

static tw_status check_options(const tw_call_kind *kind, const tw_call_options *options)
{
    TW_REQUIRE(options->size == 0 || options->size >= sizeof *options, TW_INVALID_ARGUMENT,
               "%s: options->size is %zu; it must be 0 or sizeof the struct, %zu", kind->name,
               options->size, sizeof *options);
    TW_REQUIRE(options->workspace_bytes >= 0, TW_INVALID_ARGUMENT,
               "%s: options->workspace_bytes is %lld; it must be 0 or more", kind->name,
               (long long)options->workspace_bytes);
    TW_REQUIRE(options->workspace || options->workspace_bytes == 0 || options->query ||
                   options->plan,
               TW_INVALID_ARGUMENT,
               "%s: options->workspace is NULL, options->workspace_bytes is %lld; give memory, or "
               "0 bytes",
               kind->name, (long long)options->workspace_bytes);
    return TW_OK;
}

static tw_status pack_head(const tw_call_kind *kind, const tw_call_head *head, tw_call_key *key)
{
    static const tw_call_options none;
    TW_REQUIRE(head, TW_INVALID_ARGUMENT, "%s: call is NULL", kind->name);
    TW_REQUIRE(head->size == 0 || head->size >= kind->bytes, TW_INVALID_ARGUMENT,
               "%s: call->size is %zu; it must be 0 or sizeof the struct, %zu", kind->name,
               head->size, kind->bytes);
    const tw_call_options *options = head->options ? head->options : &none;
    if (head->options) TW_TRY(check_options(kind, options));
    key->words[0] = (int64_t)(intptr_t)kind;
    key->words[1] = options->flags;
    key->words[2] = options->workspace_bytes;
    key->words[3] = options->context ? tw_context_threads(options->context) : 1;
    key->n = 4;
    return TW_OK;
}

tw_status tw_call_pack(const tw_call_kind *kind, const void *call, tw_call_key *key)
{
    TW_TRY(pack_head(kind, call, key));
    for (int32_t i = 0; i < TW_CALL_OPERANDS && kind->operands[i].name; i++)
        if (kind->operands[i].role < TW_ROLE_F32)
            TW_TRY(pack_operand(kind, &kind->operands[i], call, key));
    for (int32_t b = 0; b < TW_CALL_BLOCKS && kind->blocks[b].name; b++)
        TW_TRY(pack_block(kind, &kind->blocks[b], call, key));
    return TW_OK;
}
