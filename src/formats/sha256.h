/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4) of a stream. */
#ifndef TW_FORMATS_SHA256_H
#define TW_FORMATS_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct tw_sha256_state {
    uint32_t h[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
} tw_sha256_state;

void tw_sha256_begin(tw_sha256_state *state);
void tw_sha256_add(tw_sha256_state *state, const void *bytes, size_t n_bytes);
void tw_sha256_end(tw_sha256_state *state, char digest[65]);

#endif
