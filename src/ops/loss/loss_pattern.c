/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the gradient that belongs to a loss. */
#include <string.h>

#include "ops/loss/loss.h"

static bool same_attrs(const tw_cross_entropy_attrs *a, const tw_cross_entropy_attrs *b)
{
    return a->reduction == b->reduction && a->smoothing == b->smoothing &&
           a->has_ignore == b->has_ignore && a->ignore == b->ignore;
}

static bool belongs(const tw_matcher *matcher, const tw_match_op *loss, const tw_match_op *other)
{
    return other->kind == TW_OP_CROSS_ENTROPY_BACKWARD && other->in[0] == loss->in[0] &&
           other->in[1] == loss->in[1] &&
           (other->in[2] == TW_NONE || other->in[2] == loss->out[1]) &&
           same_attrs(&other->attrs->loss, &loss->attrs->loss) &&
           matcher->available(matcher, other->in[3]);
}

static bool match(const tw_matcher *matcher, int32_t root, tw_match *match)
{
    tw_match_op loss = matcher->op(matcher, root);
    if (loss.attrs->loss.reduction == TW_LOSS_NONE) return false;
    int32_t reader;
    for (int32_t n = 0; (reader = matcher->reader(matcher, loss.in[0], n)) >= 0; n++) {
        tw_match_op other = matcher->op(matcher, reader);
        if (!belongs(matcher, &loss, &other)) continue;
        *match = (tw_match){.n_ops = 2,
                            .ops = {root, reader},
                            .attrs = *loss.attrs,
                            .n_in = 3,
                            .n_out = 3,
                            .in = {loss.in[0], loss.in[1], other.in[3]},
                            .out = {loss.out[0], loss.out[1], other.out[0]}};
        bool wants_lse =
            loss.out[1] != TW_NONE && matcher->needed(matcher, loss.out[1], 2, match->ops);
        if (!wants_lse) match->out[1] = TW_NONE;
        return true;
    }
    return false;
}

const tw_pattern tw_loss_pattern = {.name = "loss and gradient",
                                    .root = TW_OP_CROSS_ENTROPY,
                                    .kind = TW_OP_CROSS_ENTROPY_BOTH,
                                    .match = match};
