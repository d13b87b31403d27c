/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/error.h"

enum { MAX_WORD = 4096, MAX_OPERANDS = 65536 };

tw_status tw_read_fail(const tw_reader *reader, const char *what)
{
    return tw_fail(TW_BAD_FILE, "byte %lld of the saved text: %s",
                   (long long)(reader->at - reader->start), what);
}

bool tw_read_line(tw_reader *reader)
{
    if (reader->line_end)
        reader->at = reader->line_end < reader->end ? reader->line_end + 1 : reader->end;
    if (reader->at >= reader->end) return false;
    const char *stop = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    reader->line_end = stop ? stop : reader->end;
    return true;
}

bool tw_read_word(tw_reader *reader, char *word, size_t room)
{
    while (reader->at < reader->line_end && *reader->at == ' ') reader->at++;
    size_t n = 0;
    while (reader->at < reader->line_end && *reader->at != ' ') {
        if (n + 1 >= room || !*reader->at) return false;
        word[n++] = *reader->at++;
    }
    word[n] = '\0';
    return n > 0;
}

bool tw_parse_i64(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && *text != ' ' && !*end && errno == 0;
}

int32_t tw_parse_list(const char *text, int64_t *values, int32_t room)
{
    int32_t n = 0;
    while (*text) {
        char *end;
        errno = 0;
        if (n == room || *text == ' ') return -1;
        values[n++] = strtoll(text, &end, 10);
        if (end == text || errno != 0 || (*end && *end != ',')) return -1;
        text = *end ? end + 1 : end;
    }
    return n;
}

const char *tw_key_value(const char *word, const char *name)
{
    size_t n = strlen(name);
    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

typedef struct tensor_line {
    tw_tensor_desc desc;
    char name[MAX_WORD];
    tw_tensor donor;
    bool reserved;
    int64_t reserve_offset;
} tensor_line;

static bool decode_name(const char *text, char *name)
{
    for (; *text; text++) {
        if (*text != '%') {
            *name++ = *text;
            continue;
        }
        char digits[3] = {text[1], text[1] ? text[2] : '\0', '\0'}, *end;
        long c = strtol(digits, &end, 16);
        if (end != digits + 2 || c == 0) return false;
        *name++ = (char)c;
        text += 2;
    }
    *name = '\0';
    return true;
}

static bool take_number(const char *word, const char *key, int64_t lo, int64_t hi, int64_t *value)
{
    const char *text = tw_key_value(word, key);
    int64_t number;
    if (!text || !tw_parse_i64(text, &number) || number < lo || number > hi) return false;
    *value = number;
    return true;
}

static bool take_tensor_word(const char *word, tensor_line *line)
{
    const char *value;
    int64_t number = 0;
    tw_tensor_desc *desc = &line->desc;
    if ((value = tw_key_value(word, "dims"))) {
        desc->rank = tw_parse_list(value, desc->dims, TW_MAX_RANK);
        return desc->rank >= 0;
    }
    if ((value = tw_key_value(word, "strides"))) {
        desc->has_strides = true;
        return tw_parse_list(value, desc->strides, TW_MAX_RANK) == desc->rank;
    }
    if ((value = tw_key_value(word, "name"))) {
        desc->name = line->name;
        return decode_name(value, line->name);
    }
    if (take_number(word, "flags", 0, 3, &number))
        desc->flags = (uint32_t)number;
    else if (take_number(word, "ragged", 1, INT32_MAX, &number))
        desc->ragged_offsets = (tw_tensor)number;
    else if (take_number(word, "donor", 1, INT32_MAX, &number))
        line->donor = (tw_tensor)number;
    else if (take_number(word, "reserve", 0, INT64_MAX, &line->reserve_offset))
        line->reserved = true;
    else
        return take_number(word, "align", 0, INT64_MAX, &desc->alignment) ||
               take_number(word, "uid", 1, INT64_MAX, &desc->uid);
    return true;
}

static tw_status find_constant(const tw_reader *reader, int64_t uid, const void **data)
{
    for (int32_t i = 0; i < reader->n_constants; i++)
        if (reader->constants[i].uid == uid) {
            *data = reader->constants[i].data;
            return TW_OK;
        }
    return tw_fail(TW_NOT_FOUND, "constants has no data for the constant with uid %lld",
                   (long long)uid);
}

static tw_status read_scalar(tw_reader *reader, tw_graph *graph, tw_dtype dtype)
{
    char word[64];
    unsigned char bytes[8];
    if (!tw_read_word(reader, word, sizeof word) || strlen(word) != 18 ||
        strncmp(word, "0x", 2) != 0)
        return tw_read_fail(reader, "a scalar needs 0x and 16 hexadecimal digits");
    for (int i = 0; i < 8; i++) {
        char digits[3] = {word[2 + 2 * i], word[3 + 2 * i], '\0'}, *end;
        bytes[7 - i] = (unsigned char)strtol(digits, &end, 16);
        if (*end) return tw_read_fail(reader, "a scalar needs 0x and 16 hexadecimal digits");
    }
    tw_tensor made;
    TW_TRY(tw_graph_scalar(graph, dtype, 0, &made));
    union {
        const void *given;
        void *kept;
    } place = {.given = graph->tensors[made].data};
    memcpy(place.kept, bytes, sizeof bytes);
    return TW_OK;
}

static tw_status read_tensor(tw_reader *reader, tw_graph *graph, const char *kind,
                             tensor_line *line)
{
    char word[MAX_WORD];
    int64_t number;
    memset(line, 0, sizeof *line);
    if (!tw_read_word(reader, word, sizeof word) || !tw_parse_i64(word, &number) ||
        number != graph->n_tensors)
        return tw_read_fail(reader, "tensor numbers must follow each other from 1");
    if (!tw_read_word(reader, word, sizeof word) ||
        (line->desc.dtype = tw_dtype_from_name(word)) == TW_AUTO)
        return tw_read_fail(reader, "an element type is expected after the tensor's number");
    if (strcmp(kind, "scalar") == 0) return read_scalar(reader, graph, line->desc.dtype);
    while (tw_read_word(reader, word, sizeof word))
        if (!take_tensor_word(word, line))
            return tw_read_fail(reader, "an unknown or bad key of a tensor");
    tw_tensor made;
    if (strcmp(kind, "tensor") == 0) return tw_graph_tensor(graph, &line->desc, &made);
    const void *data;
    TW_TRY(find_constant(reader, line->desc.uid ? line->desc.uid : number, &data));
    return tw_graph_constant(graph, &line->desc, data, &made);
}

/* ---- Operations ----------------------------------------------------------------------------- */

static const tw_op_info *op_by_name(const char *name)
{
    for (int kind = 1; kind < TW_OP_END; kind++) {
        const tw_op_info *info = tw_op_info_of((tw_op_kind)kind);
        if (info && strcmp(info->name, name) == 0) return info;
    }
    return NULL;
}

static bool parse_field(const tw_field *field, const char *text, char *at)
{
    for (int i = 0; i < field->count; i++) {
        char *end;
        errno = 0;
        if (field->type == TW_FIELD_F64) {
            double real = strtod(text, &end);
            memcpy(at + 8 * i, &real, 8);
        } else {
            int64_t wide = strtoll(text, &end, 10);
            int32_t narrow = (int32_t)wide;
            bool flag = wide != 0;
            if (field->type == TW_FIELD_I64)
                memcpy(at + 8 * i, &wide, 8);
            else if (field->type == TW_FIELD_I32)
                memcpy(at + 4 * i, &narrow, 4);
            else
                memcpy(at + i, &flag, 1);
            if (field->type == TW_FIELD_I32 && narrow != wide) return false;
            if (field->type == TW_FIELD_BOOL && wide != 0 && wide != 1) return false;
        }
        if (end == text || errno == EINVAL) return false;
        text = end;
        if (i + 1 < field->count && *text++ != ',') return false;
    }
    return !*text;
}

static bool take_attribute(const tw_op_info *info, const char *word, tw_attrs *attrs)
{
    for (const tw_field *field = info->fields; field && field->name; field++) {
        const char *value = tw_key_value(word, field->name);
        if (value) return parse_field(field, value, (char *)attrs + field->offset);
    }
    return false;
}

static tw_status add_op(tw_graph *graph, const tw_op_info *info, const tw_attrs *attrs,
                        int32_t n_in, int64_t *numbers, int32_t n_out)
{
    void *memory;
    tw_tensor out[4];
    TW_TRY(tw_calloc(n_in, sizeof(tw_tensor), &memory));
    tw_tensor *in = memory;
    bool good = true;
    for (int32_t i = 0; i < n_in + n_out; i++)
        good = good && numbers[i] >= 0 && numbers[i] < graph->n_tensors;
    for (int32_t i = 0; good && i < n_in; i++) in[i] = (tw_tensor)numbers[i];
    for (int32_t i = 0; good && i < n_out; i++)
        out[i] = numbers[n_in + i] ? (tw_tensor)numbers[n_in + i] : TW_UNWANTED;
    tw_status status = !good ? tw_fail(TW_BAD_FILE, "an operand is no tensor of the graph")
                             : tw_graph_add(graph, info->kind, attrs, n_in, in, n_out, out);
    tw_free(memory);
    return status;
}

static tw_status read_op(tw_reader *reader, tw_graph *graph, int64_t *numbers)
{
    char word[MAX_WORD];
    tw_attrs attrs = {0};
    int32_t n_in = 0, n_out = 0;
    const tw_op_info *info = tw_read_word(reader, word, sizeof word) ? op_by_name(word) : NULL;
    if (!info) return tw_read_fail(reader, "an operation's name is expected");
    while (tw_read_word(reader, word, sizeof word)) {
        const char *value = tw_key_value(word, "in");
        if (value && n_out == 0)
            n_in = tw_parse_list(value, numbers, MAX_OPERANDS);
        else if ((value = tw_key_value(word, "out")))
            n_out = tw_parse_list(value, numbers + n_in, 4);
        else if (!take_attribute(info, word, &attrs))
            n_in = -1;
        if (n_in < 0 || n_out < 0)
            return tw_read_fail(reader, "a bad key or value of an operation");
    }
    if (n_out != info->n_out) return tw_read_fail(reader, "the number of outputs is wrong");
    return add_op(graph, info, &attrs, n_in, numbers, n_out);
}

/* ---- Graphs --------------------------------------------------------------------------------- */

typedef struct graph_line {
    int64_t tensors, ops, cut, reserve;
} graph_line;

static tw_status read_header(tw_reader *reader, graph_line *header)
{
    char word[128];
    bool good = tw_read_line(reader) && tw_read_word(reader, word, sizeof word) &&
                strcmp(word, "graph") == 0;
    int64_t most = reader->end - reader->at; /* every tensor and operation takes a line */
    good = good && tw_read_word(reader, word, sizeof word) &&
           take_number(word, "tensors", 0, most, &header->tensors) &&
           tw_read_word(reader, word, sizeof word) &&
           take_number(word, "ops", 0, most, &header->ops) &&
           tw_read_word(reader, word, sizeof word) &&
           take_number(word, "cut", -1, header->ops, &header->cut) &&
           tw_read_word(reader, word, sizeof word) &&
           take_number(word, "reserve", 0, header->tensors, &header->reserve);
    return good ? TW_OK
                : tw_read_fail(reader, "'graph tensors=… ops=… cut=… reserve=…' is expected");
}

static tw_status read_tensors(tw_reader *reader, tw_graph *graph, int64_t n, tensor_line *line)
{
    char kind[64];
    for (int64_t t = 1; t <= n; t++) {
        if (!tw_read_line(reader) || !tw_read_word(reader, kind, sizeof kind) ||
            (strcmp(kind, "tensor") != 0 && strcmp(kind, "scalar") != 0 &&
             strcmp(kind, "constant") != 0))
            return tw_read_fail(reader, "a line of a tensor is expected");
        TW_TRY(read_tensor(reader, graph, kind, line));
        graph->tensors[t].donor = line->donor; /* turned into a donation when all is there */
        graph->tensors[t].reserved = line->reserved;
        graph->tensors[t].reserve_offset = line->reserve_offset;
    }
    return TW_OK;
}

static tw_status restore_donations(tw_graph *graph)
{
    for (int64_t t = 1; t < graph->n_tensors; t++) {
        tw_tensor donor = graph->tensors[t].donor;
        graph->tensors[t].donor = TW_NONE;
        if (donor != TW_NONE) TW_TRY(tw_graph_donate(graph, (tw_tensor)t, donor));
    }
    return TW_OK;
}

static tw_status restore_cut(tw_reader *reader, tw_graph *graph, const graph_line *header)
{
    graph->cut = header->cut;
    graph->reserve = (tw_tensor)header->reserve;
    if (header->cut >= 0 && header->reserve == 0)
        return tw_read_fail(reader, "a graph with a cut needs a reserve");
    int64_t room = header->reserve ? tw_desc_bytes(&graph->tensors[header->reserve].desc) : 0;
    for (int64_t t = 1; t < graph->n_tensors; t++) {
        const tw_tensor_node *node = &graph->tensors[t];
        if (!node->reserved) continue;
        int64_t bytes = tw_dtype_bytes(node->desc.dtype, tw_desc_elements(&node->desc));
        bool good = header->cut >= 0 && node->producer >= 0 && node->producer < header->cut &&
                    (node->desc.flags & TW_TENSOR_VIRTUAL) && node->reserve_offset % 64 == 0 &&
                    node->reserve_offset <= room && bytes <= room - node->reserve_offset;
        if (!good) return tw_read_fail(reader, "a reserved tensor does not fit into the reserve");
    }
    return TW_OK;
}

static tw_status read_graph(tw_reader *reader, tw_graph *graph)
{
    graph_line header = {0};
    char kind[64];
    void *line, *numbers;
    tw_arena scratch = {0};
    tw_status status;
    TW_TRY_OUT(read_header(reader, &header));
    TW_TRY_OUT(tw_arena_alloc(&scratch, 1, sizeof(tensor_line), &line));
    TW_TRY_OUT(tw_arena_alloc(&scratch, MAX_OPERANDS + 4, sizeof(int64_t), &numbers));
    TW_TRY_OUT(read_tensors(reader, graph, header.tensors, line));
    for (int64_t o = 0; o < header.ops; o++) {
        if (!tw_read_line(reader) || !tw_read_word(reader, kind, sizeof kind) ||
            strcmp(kind, "op") != 0) {
            status = tw_read_fail(reader, "a line of an operation is expected");
            goto out;
        }
        TW_TRY_OUT(read_op(reader, graph, numbers));
    }
    TW_TRY_OUT(restore_donations(graph));
    status = restore_cut(reader, graph, &header);
out:
    tw_arena_free(&scratch);
    return status;
}

tw_status tw_graph_read(tw_reader *reader, tw_graph **graph)
{
    tw_graph *made;
    TW_TRY(tw_graph_create(&made));
    tw_status status = read_graph(reader, made);
    if (status != TW_OK) {
        tw_graph_free(made);
        return status;
    }
    *graph = made;
    return TW_OK;
}
