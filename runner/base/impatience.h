#pragma once

/*
 * Signals that ask a command to end are passed on to it. A command that is process 1 of its
 * sandbox and has no handler never sees them (the kernel drops them), and one that has may not
 * mind: so who asks for the third time without a pause means it. Pure.
 */

#include <signal.h>
#include <stdint.h>

enum {
    IMPATIENCE_TIMES = 3,
    IMPATIENCE_MS =
        3000, /* a longer pause between two begins anew: a shell gets many in its life */
};

struct impatience {
    unsigned times;
    int64_t last_ms;
};

/* Returns how often it has been asked, this one included; 0 for a signal that does not ask that.
 * now_ms: of the monotonic clock. */
static inline unsigned impatience_note(struct impatience *i, int signo, int64_t now_ms)
{
    if (signo != SIGINT && signo != SIGTERM)
        return 0;
    if (i->times == 0 || now_ms - i->last_ms > IMPATIENCE_MS)
        i->times = 0;
    i->last_ms = now_ms;
    return ++i->times;
}
