/* SPDX-License-Identifier: Apache-2.0 */
/* A 64-bit hash for caches (not for security). */
#ifndef TW_CORE_HASH_H
#define TW_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t tw_hash(uint64_t seed, const void *bytes, size_t n_bytes);

#endif
