/* SPDX-License-Identifier: Apache-2.0 */
/* Element types by their safetensors names, for reader and writer. */
#ifndef TW_FORMATS_SAFETENSORS_H
#define TW_FORMATS_SAFETENSORS_H

#include <tilework/tensor.h>

/* NULL / TW_AUTO for what the format does not have. */
const char *tw_safetensors_type(tw_dtype dtype);
tw_dtype tw_safetensors_dtype(const char *name);

#define TW_SAFETENSORS_METADATA "__metadata__"

/* The head of a file, JSON. Real ones stay far below; the bounds keep a hostile one from turning
 * into gigabytes of parsed nodes. */
#define TW_SAFETENSORS_HEAD_LIMIT ((uint64_t)16 << 20)
#define TW_SAFETENSORS_NODE_LIMIT 1000000

#endif
