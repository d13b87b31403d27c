/* SPDX-License-Identifier: Apache-2.0 */
/* The list of families, and the look-up from kind to record. */
#include "ops/kernel.h"

#define TW_FAMILY(name) extern const tw_family tw_family_##name;
#include "ops/families.def"
#undef TW_FAMILY

#define TW_FAMILY(name) &tw_family_##name,
const tw_family *const tw_families[] = {
#include "ops/families.def"
};
#undef TW_FAMILY

const int32_t tw_n_families = (int32_t)(sizeof tw_families / sizeof tw_families[0]);

const tw_op_info *tw_op_info_of(tw_op_kind kind)
{
    for (int32_t f = 0; f < tw_n_families; f++)
        for (int32_t i = 0; i < tw_families[f]->n_ops; i++)
            if (tw_families[f]->ops[i].kind == kind) return &tw_families[f]->ops[i];
    return NULL;
}

const tw_family *tw_family_of(tw_op_kind kind)
{
    for (int32_t f = 0; f < tw_n_families; f++)
        for (int32_t i = 0; i < tw_families[f]->n_ops; i++)
            if (tw_families[f]->ops[i].kind == kind) return tw_families[f];
    return NULL;
}
