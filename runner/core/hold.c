#include "core/hold.h"

#include <errno.h>

#include "base/err.h"
#include "core/sandbox_internal.h"

static void hold_count(struct hold *h)
{
    h->counted = true;
    h->s->hold.readers++;
}

int hold_begin(struct hold *h, struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    *h = (struct hold){.s = s};
    if (s->state == SANDBOX_GONE)
        return 1;
    if (s->state == SANDBOX_RUNNING)
        return sandbox_hold(s, cb, data, err);
    if (s->state == SANDBOX_PAUSED && s->hold.phase == HOLD_THAWING)
        return err_set(err, -EBUSY, "sandbox %s is about to go on after a snapshot",
                       sandbox_name(s));
    if (s->state == SANDBOX_PAUSED && s->hold.readers > 0)
        hold_count(h);
    return 1;
}

void hold_paused(struct hold *h)
{
    hold_count(h);
}

bool hold_end(struct hold *h, sandbox_cb cb, void *data)
{
    if (!h->counted)
        return false;
    h->counted = false;
    if (--h->s->hold.readers > 0)
        return false;
    /* Where it fails, because the launcher has died, it stays held: the next daemon tries again. */
    if (h->s->state != SANDBOX_PAUSED || h->s->hold.phase == HOLD_NONE ||
        sandbox_let_go(h->s, cb, data, NULL) < 0)
        return false;
    h->s->hold.phase = HOLD_THAWING;
    return true;
}

void hold_gone_on(struct hold *h, int r)
{
    if (r == 0)
        sandbox_unheld(h->s);
    else if (h->s->hold.phase == HOLD_THAWING)
        h->s->hold.phase = HOLD_KEPT;
}
