#pragma once

/* Escalation of signals that ask a command to end. They are passed on to the command. But the
 * kernel drops them for a process 1 without handler, and a handler may ignore them: so the third
 * signal without a pause ends the command by force. Pure. */

#include <signal.h>
#include <stdint.h>

enum {
    SIGNAL_ESCALATION_TIMES = 3,
    SIGNAL_ESCALATION_MS =
        3000, /* a longer pause resets the count: a shell gets many signals in its life */
};

struct signal_escalation {
    unsigned times;
    int64_t last_ms;
};

/* Returns the count of signals including this one; 0 for other signals. now_ms: of the monotonic
 * clock. */
static inline unsigned signal_escalation_note(struct signal_escalation *i, int signo,
                                              int64_t now_ms)
{
    if (signo != SIGINT && signo != SIGTERM)
        return 0;
    if (i->times == 0 || now_ms - i->last_ms > SIGNAL_ESCALATION_MS)
        i->times = 0;
    i->last_ms = now_ms;
    return ++i->times;
}
