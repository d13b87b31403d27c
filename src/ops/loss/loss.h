/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the loss family share. */
#ifndef TW_OPS_LOSS_LOSS_H
#define TW_OPS_LOSS_LOSS_H

#include "ops/kernel.h"
#include "ops/reduce/lines.h"

enum { TW_LOSS_OPS = 3 };
extern const tw_op_info tw_loss_ops[TW_LOSS_OPS];

/* The loss and its gradient from one look at the logits: a training step has both. */
extern const tw_pattern tw_loss_pattern;

tw_status tw_loss_gradient(const tw_gradient *gradient);

static inline int32_t tw_loss_class_dim(int32_t logits_rank) { return logits_rank > 1 ? 1 : 0; }

/* Integer labels hold one class each; real ones a probability for every class. */
bool tw_loss_has_indices(tw_dtype labels);

/* Operands of the lines that both passes run over. DLOSS and DLOGITS belong to the backward pass,
 * LOSS to the forward one; strides of absent ones and of scalars are 0. */
enum {
    TW_LOSS_LOGITS = 0,
    TW_LOSS_LABELS = 1,
    TW_LOSS_LSE = 2,
    TW_LOSS_LOSS = 3,
    TW_LOSS_DLOSS = 3,
    TW_LOSS_DLOGITS = 4
};

typedef struct tw_loss_job {
    tw_lines lines; /* along: the classes */
    tw_dtype types[TW_LINES_OPERANDS];
    void *data[TW_LINES_OPERANDS];
    const tw_cross_entropy_attrs *attrs;
    bool indices; /* labels are class numbers */
    int64_t classes, rows;
    double scale; /* of the sum of losses: 1, or 1/labels that count (MEAN) */
} tw_loss_job;

/* Lays out a launch and checks the labels before anything is written. */
tw_status tw_loss_forward_job(const tw_launch *launch, tw_loss_job *job);
tw_status tw_loss_backward_job(const tw_launch *launch, tw_loss_job *job);
/* Both at once: in is logits, labels, dloss; out is loss, lse (or absent), dlogits. LOSS is the
 * loss; dloss, a scalar, goes to *dloss. */
tw_status tw_loss_both_job(const tw_launch *launch, tw_loss_job *job, double *dloss);

/* The lines alone, for `supports` and `prepare`. */
void tw_loss_lines(const tw_problem *problem, tw_lines *lines);

#endif
