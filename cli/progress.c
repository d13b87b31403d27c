/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>

#include "core/file.h"
#include "core/os.h"

enum { BAR = 24 };

void progress_start(progress *p, const char *what, const char *unit, int64_t total)
{
    *p = (progress){.what = what,
                    .unit = unit,
                    .total = total,
                    .start = tw_os_nanoseconds(),
                    .terminal = tw_is_terminal(stderr)};
}

void progress_set(progress *p, int64_t done, const char *note)
{
    int64_t now = tw_os_nanoseconds();
    p->done = done;
    if (!p->terminal || (p->shown && now - p->last < 100000000 && done < p->total)) return;
    p->shown = true;
    p->last = now;
    double seconds = (double)(now - p->start) * 1e-9;
    double rate = seconds > 0 ? (double)done / seconds : 0;
    double left = rate > 0 ? (double)(p->total - done) / rate : 0;
    int filled = p->total > 0 ? (int)(done * BAR / p->total) : 0;
    char bar[BAR + 1];
    for (int i = 0; i < BAR; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r%s [%s] %3.0f%%  %.0f %s/s  %d:%02d left  %s\033[K", p->what, bar,
            p->total > 0 ? 100.0 * (double)done / (double)p->total : 0.0, rate, p->unit,
            (int)(left / 60), (int)left % 60, note ? note : "");
    fflush(stderr);
}

void progress_end(progress *p)
{
    if (p->shown) fprintf(stderr, "\r\033[K");
    p->shown = false;
}

bool progress_of_download(void *user, const tw_progress *p)
{
    progress *bar = user;
    if (p->total > 0 && bar->total != p->total) progress_start(bar, p->what, "bytes", p->total);
    if (p->total > 0) progress_set(bar, p->bytes, NULL);
    return true;
}
