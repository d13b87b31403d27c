/* SPDX-License-Identifier: Apache-2.0 */
/* The words that tables of calls are written with. */
#ifndef TW_SIMPLE_CALL_TABLE_H
#define TW_SIMPLE_CALL_TABLE_H

#include <stddef.h>

#include "simple/call.h"

#define IN(type, field)                                                                            \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_IN, false                                           \
    }
#define OUT(type, field)                                                                           \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_OUT, false                                          \
    }
#define UPDATE(type, field)                                                                        \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_UPDATE, false                                       \
    }
#define OPTIONAL_IN(type, field)                                                                   \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_IN, true                                            \
    }
#define OPTIONAL_OUT(type, field)                                                                  \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_OUT, true                                           \
    }
#define OPTIONAL_UPDATE(type, field)                                                               \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_UPDATE, true                                        \
    }
#define F32(type, field)                                                                           \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_F32, false                                          \
    }
#define I64(type, field)                                                                           \
    {                                                                                              \
#        field, offsetof(type, field), TW_ROLE_I64, false                                          \
    }

#define SPANS(spans) sizeof(spans) / sizeof(spans)[0], spans
/* An attribute struct that a field of the call points to, or fields of the call itself. */
#define ATTRS(type, field, attrs_type, spans)                                                      \
    {                                                                                              \
#        field, offsetof(type, field), sizeof(attrs_type), SPANS(spans)                            \
    }
#define FIELDS(spans)                                                                              \
    {                                                                                              \
        "call", 0, 0, SPANS(spans)                                                                 \
    }

/* From one field to the end of another, with no padding between; `size` decides nothing. */
#define SPAN(type, first, last)                                                                    \
    {                                                                                              \
        offsetof(type, first),                                                                     \
            offsetof(type, last) + sizeof(((type *)NULL)->last) - offsetof(type, first)            \
    }

bool tw_call_conv_splits(const void *call);
tw_status tw_call_split_conv(const void *call);
bool tw_call_matmul_splits(const void *call);
tw_status tw_call_split_matmul(const void *call);

static const tw_call_span tw_pointwise_spans[] = {SPAN(tw_pointwise_attrs, mode, mode),
                                                  SPAN(tw_pointwise_attrs, alpha, has_beta),
                                                  SPAN(tw_pointwise_attrs, axis, convert)};

#endif
