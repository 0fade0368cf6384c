#include "sandbox/freeze-ref.h"

#include <errno.h>

#include "base/err.h"
#include "sandbox/sandbox-internal.h"

static void hold_count(struct freeze_ref *h)
{
    h->counted = true;
    h->s->freeze_ref.readers++;
}

int freeze_ref_get(struct freeze_ref *h, struct sandbox *s, sandbox_cb cb, void *data,
                   struct err *err)
{
    *h = (struct freeze_ref){.s = s};
    if (s->state == SANDBOX_GONE)
        return 1;
    if (s->state == SANDBOX_RUNNING)
        return sandbox_freeze_for_ref(s, cb, data, err);
    if (s->state == SANDBOX_PAUSED && s->freeze_ref.phase == FREEZE_REF_THAWING)
        return err_set(err, -EBUSY, "sandbox %s is about to go on after a snapshot",
                       sandbox_name(s));
    if (s->state == SANDBOX_PAUSED && s->freeze_ref.readers > 0)
        hold_count(h);
    return 1;
}

void freeze_ref_frozen(struct freeze_ref *h)
{
    hold_count(h);
}

bool freeze_ref_put(struct freeze_ref *h, sandbox_cb cb, void *data)
{
    if (!h->counted)
        return false;
    h->counted = false;
    if (--h->s->freeze_ref.readers > 0)
        return false;
    /* If the launcher has died, the sandbox stays frozen, and the next daemon thaws it. */
    if (h->s->state != SANDBOX_PAUSED || h->s->freeze_ref.phase == FREEZE_REF_NONE ||
        sandbox_let_go(h->s, cb, data, NULL) < 0)
        return false;
    h->s->freeze_ref.phase = FREEZE_REF_THAWING;
    return true;
}

void freeze_ref_thawed(struct freeze_ref *h, int r)
{
    if (r == 0)
        sandbox_freeze_refs_dropped(h->s);
    else if (h->s->freeze_ref.phase == FREEZE_REF_THAWING)
        h->s->freeze_ref.phase = FREEZE_REF_KEPT;
}
