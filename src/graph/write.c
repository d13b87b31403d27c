/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as text, a line for each tensor and operation:
 *
 *     tensor 3 f32 flags=1 dims=64,32 strides=32,1 align=0 uid=3 ragged=0 donor=0 reserve=-1 name=w
 *     scalar 4 f32 0x3ff0000000000000
 *     op conv in=1,2 out=5 stride=1,1,1 dilation=1,1,1
 */
#include <string.h>

#include "core/dtype.h"
#include "graph/graph.h"

static void write_list(tw_text *text, const char *name, int32_t n, const int64_t *values)
{
    tw_text_add(text, " %s=", name);
    for (int32_t i = 0; i < n; i++) tw_text_add(text, i ? ",%lld" : "%lld", (long long)values[i]);
}

/* Names may hold any byte: all but plain ones are written as %XX. */
static void write_name(tw_text *text, const char *name)
{
    tw_text_add(text, " name=");
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        tw_text_add(text, *c > ' ' && *c < 127 && *c != '%' ? "%c" : "%%%02X", *c);
}

static void write_tensor(tw_text *text, const tw_graph *graph, int64_t t)
{
    const tw_tensor_node *node = &graph->tensors[t];
    const tw_tensor_desc *desc = &node->desc;
    if (node->scalar) {
        tw_text_add(text, "scalar %lld %s", (long long)t, tw_dtype_name(desc->dtype));
        tw_text_add(text, " 0x");
        for (int i = 7; i >= 0; i--)
            tw_text_add(text, "%02x", ((const unsigned char *)node->data)[i]);
        tw_text_add(text, "\n");
        return;
    }
    tw_text_add(text, "%s %lld %s flags=%u", node->constant ? "constant" : "tensor", (long long)t,
                tw_dtype_name(desc->dtype), (unsigned)desc->flags);
    write_list(text, "dims", desc->rank, desc->dims);
    if (desc->has_strides) write_list(text, "strides", desc->rank, desc->strides);
    if (desc->alignment) tw_text_add(text, " align=%lld", (long long)desc->alignment);
    if (desc->uid != t) tw_text_add(text, " uid=%lld", (long long)desc->uid);
    if (desc->ragged_offsets) tw_text_add(text, " ragged=%d", (int)desc->ragged_offsets);
    if (node->donor) tw_text_add(text, " donor=%d", (int)node->donor);
    if (node->reserved) tw_text_add(text, " reserve=%lld", (long long)node->reserve_offset);
    if (desc->name) write_name(text, desc->name);
    tw_text_add(text, "\n");
}

static void write_field(tw_text *text, const tw_field *field, const char *at)
{
    int64_t wide = 0;
    double real;
    tw_text_add(text, " %s=", field->name);
    for (int i = 0; i < field->count; i++) {
        int32_t narrow;
        if (i) tw_text_add(text, ",");
        switch (field->type) {
        case TW_FIELD_I64: memcpy(&wide, at + 8 * i, 8); break;
        case TW_FIELD_I32:
            memcpy(&narrow, at + 4 * i, 4);
            wide = narrow;
            break;
        case TW_FIELD_BOOL: wide = at[i] != 0; break;
        case TW_FIELD_F64:
            memcpy(&real, at + 8 * i, 8);
            tw_text_add(text, "%a", real);
            continue;
        }
        tw_text_add(text, "%lld", (long long)wide);
    }
}

static void write_op(tw_text *text, const tw_op *op)
{
    tw_text_add(text, "op %s in=", op->info->name);
    for (int32_t i = 0; i < op->n_in; i++) tw_text_add(text, i ? ",%d" : "%d", (int)op->in[i]);
    tw_text_add(text, " out=");
    for (int32_t i = 0; i < op->n_out; i++) tw_text_add(text, i ? ",%d" : "%d", (int)op->out[i]);
    for (const tw_field *field = op->info->fields; field && field->name; field++)
        write_field(text, field, (const char *)&op->attrs + field->offset);
    tw_text_add(text, "\n");
}

void tw_graph_write(const tw_graph *graph, tw_text *text)
{
    tw_text_add(text, "graph tensors=%lld ops=%lld cut=%lld reserve=%d\n",
                (long long)graph->n_tensors - 1, (long long)graph->n_ops, (long long)graph->cut,
                (int)graph->reserve);
    for (int64_t t = 1; t < graph->n_tensors; t++) write_tensor(text, graph, t);
    for (int64_t o = 0; o < graph->n_ops; o++) write_op(text, &graph->ops[o]);
}
