/* SPDX-License-Identifier: Apache-2.0 */
/* The loss family: its manifest and its problem strings. */
#define TW_MANIFEST "ops/loss/loss.def"
#include "ops/manifest.h"

#include "core/error.h"
#include "ops/loss/loss.h"

static const tw_problem_key keys[] = {
    {"n", "256", "rows"},
    {"c", "1000", "classes"},
    {"space", "scalar", "dims after the class dim, joined by x; scalar: none"},
    {"labels", "i64", "integer type of class numbers, or floating-point type of probabilities"},
    {"smoothing", "0", "label smoothing, 0 to 1"},
    {"reduction", "mean", "mean, sum or none"},
    {"ignore", "none", "label that does not count"},
    {"lse", "1", "1: the log-sum-exp is an output (fwd) or an input (bwd)"},
    {"pass", "fwd", "fwd, bwd, or both at once"},
    {"dtype", "f32", "element type of logits"},
    {NULL, NULL, NULL},
};

static const char *const pass_names[] = {"fwd", "bwd", "both", NULL};
enum { FORWARD, BACKWARD, BOTH };
static const char *const reduction_names[] = {"mean", "sum", "none", NULL};

typedef struct parsed {
    tw_attrs attrs;
    tw_tensor_desc logits, labels, rows;
    int32_t pass;
    bool lse;
} parsed;

static tw_status parse(const tw_problem_args *args, parsed *p)
{
    int64_t space[TW_MAX_RANK] = {0};
    int32_t rank = 0, reduction = 0;
    tw_dtype logits = TW_AUTO, labels = TW_AUTO;
    TW_TRY(tw_parse_dims("space", tw_arg_text(args, "space"), &rank, space));
    TW_REQUIRE(rank + 2 <= TW_MAX_RANK, TW_INVALID_ARGUMENT,
               "space has %d dims; at most %d are accepted", rank, TW_MAX_RANK - 2);
    TW_TRY(tw_arg_dtype(args, "dtype", &logits));
    TW_TRY(tw_arg_dtype(args, "labels", &labels));
    TW_TRY(tw_arg_choice(args, "pass", pass_names, &p->pass));
    TW_TRY(tw_arg_choice(args, "reduction", reduction_names, &reduction));
    int64_t all[TW_MAX_RANK] = {tw_arg_int(args, "n"), tw_arg_int(args, "c")};
    int64_t rows[TW_MAX_RANK] = {all[0]};
    for (int32_t d = 0; d < rank; d++) all[d + 2] = rows[d + 1] = space[d];
    p->logits = tw_desc(logits, rank + 2, all);
    p->labels = tw_loss_has_indices(labels) ? tw_desc(labels, rank + 1, rows)
                                            : tw_desc(labels, rank + 2, all);
    p->rows = tw_desc(logits == TW_F64 ? TW_F64 : TW_F32, rank + 1, rows);
    p->lse = tw_arg_int(args, "lse") != 0;
    p->attrs.loss = (tw_cross_entropy_attrs){.reduction = (tw_reduction)reduction,
                                             .smoothing = tw_arg_real(args, "smoothing"),
                                             .has_ignore = tw_arg_given(args, "ignore")};
    if (p->attrs.loss.has_ignore) p->attrs.loss.ignore = tw_arg_int(args, "ignore");
    return TW_OK;
}

static tw_status problem(const tw_problem_args *args, const tw_builder *b)
{
    parsed p = {.pass = 0};
    tw_tensor in[4] = {TW_NONE, TW_NONE, TW_NONE, TW_NONE}, out[2] = {TW_NONE, TW_NONE};
    TW_TRY(parse(args, &p));
    tw_tensor_desc loss = p.rows;
    if (p.attrs.loss.reduction != TW_LOSS_NONE) loss.rank = 0;
    TW_TRY(b->tensor(b->graph, &p.logits, &in[0]));
    TW_TRY(b->tensor(b->graph, &p.labels, &in[1]));
    if (p.pass != BACKWARD) {
        TW_TRY(b->tensor(b->graph, &loss, &out[0]));
        if (p.lse)
            TW_TRY(b->tensor(b->graph, &p.rows, &out[1]));
        else
            out[1] = TW_UNWANTED;
        TW_TRY(b->add(b->graph, TW_OP_CROSS_ENTROPY, &p.attrs, 2, in, 2, out));
        if (p.pass == FORWARD) return TW_OK;
        in[2] = p.lse ? out[1] : TW_NONE;
    } else if (p.lse)
        TW_TRY(b->tensor(b->graph, &p.rows, &in[2]));
    TW_TRY(b->tensor(b->graph, &loss, &in[3]));
    TW_TRY(b->tensor(b->graph, &p.logits, &out[0]));
    return b->add(b->graph, TW_OP_CROSS_ENTROPY_BACKWARD, &p.attrs, 4, in, 1, out);
}

extern const tw_family tw_family_loss;
const tw_family tw_family_loss = {
    .name = "loss",
    .ops = tw_loss_ops,
    .n_ops = TW_LOSS_OPS,
    .kernels = manifest_rows,
    .n_kernels = (int32_t)(sizeof manifest_rows / sizeof manifest_rows[0]),
    .patterns = &tw_loss_pattern,
    .n_patterns = 1,
    .keys = keys,
    .problem = problem,
};
