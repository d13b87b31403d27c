/* SPDX-License-Identifier: Apache-2.0 */
/* See peak.h. Twelve independent chains: enough for two pipes of five cycles' latency. */
#include "arch/cpu/vec.h"
#include "core/os.h"
#include "tile/cpu/peak.h"

enum { PEAK_CHAINS = 12, PEAK_STEPS = 20000, PEAK_ROUNDS = 20, PEAK_SPAN_NS = 20000000 };

#define PEAK_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static float peak_round(float scale, float offset)
{
    const vf x = vf_set(scale), y = vf_set(offset);
#define PEAK_START(i) vf v##i = vf_set(scale * (float)i);
#define PEAK_STEP(i) v##i = vf_fma(v##i, x, y);
#define PEAK_SUM(i) +vf_sum(v##i)
    PEAK_EACH(PEAK_START)
    for (int step = 0; step < PEAK_STEPS; step++) {
        PEAK_EACH(PEAK_STEP)
    }
    return 0.0f PEAK_EACH(PEAK_SUM);
#undef PEAK_START
#undef PEAK_STEP
#undef PEAK_SUM
}

double TW_SYMBOL(tw_peak_flops)(void)
{
    /* Values the compiler cannot know, and a result it must not drop. */
    volatile float scale = 0.5f, offset = 0.25f, sink;
    double best = 0.0;
    const int64_t begin = tw_os_nanoseconds();
    for (int round = 0; round < PEAK_ROUNDS || tw_os_nanoseconds() - begin < PEAK_SPAN_NS;
         round++) {
        const int64_t start = tw_os_nanoseconds();
        sink = peak_round(scale, offset);
        const double seconds = (double)(tw_os_nanoseconds() - start) * 1e-9;
        const double flops = 2.0 * VLANES * PEAK_CHAINS * PEAK_STEPS;
        if (seconds > 0.0 && flops / seconds > best) best = flops / seconds;
    }
    (void)sink;
    return best;
}
