/* SPDX-License-Identifier: Apache-2.0 */
/* A plan in words: what each step does, which kernel, and why not another. */
#ifndef TW_PLAN_REPORT_H
#define TW_PLAN_REPORT_H

#include "plan/plan.h"

tw_status tw_report_step(tw_plan *plan, tw_step *step); /* fills in text and name */
void tw_report_choice(tw_plan *plan, const tw_step *step, int32_t index, const char *refusals);
void tw_report_attrs(tw_text *text, const tw_op_info *info, const tw_attrs *attrs);
const char *tw_pointwise_name(tw_pointwise_mode mode);

#endif
