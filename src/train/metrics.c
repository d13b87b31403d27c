/* SPDX-License-Identifier: Apache-2.0 */
#include <tilework/train.h>

#include <math.h>

#include "core/error.h"

/* The place of the largest; -1 with a NaN in the row. */
static int64_t largest(const float *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(row[i])) return -1;
        if (row[i] > row[best]) best = i;
    }
    return best;
}

tw_status tw_metrics_add(tw_metrics *metrics, double mean_loss, int64_t count, int64_t classes,
                         const float *logits, const int64_t *labels)
{
    TW_REQUIRE(metrics && count >= 0, TW_INVALID_ARGUMENT,
               "count is %lld; it must be from 0 on, and metrics not NULL", (long long)count);
    TW_REQUIRE(!logits || (labels && classes > 0), TW_INVALID_ARGUMENT,
               "logits come with labels and one class or more");
    int64_t correct = 0;
    for (int64_t i = 0; logits && i < count; i++) {
        TW_REQUIRE(labels[i] >= 0 && labels[i] < classes, TW_INVALID_ARGUMENT,
                   "labels[%lld] is %lld; it must be 0 to %lld", (long long)i, (long long)labels[i],
                   (long long)classes - 1);
        correct += largest(logits + i * classes, classes) == labels[i];
    }
    metrics->count += count;
    metrics->scored += logits ? count : 0;
    metrics->correct += correct;
    if (count) metrics->loss_sum += mean_loss * (double)count;
    return TW_OK;
}

double tw_metrics_loss(const tw_metrics *metrics)
{
    return metrics->count ? metrics->loss_sum / (double)metrics->count : (double)NAN;
}

double tw_metrics_accuracy(const tw_metrics *metrics)
{
    return metrics->scored ? (double)metrics->correct / (double)metrics->scored : (double)NAN;
}
