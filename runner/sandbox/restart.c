/* Restart policies: decide when a sandbox runs again after an exit or a failed restart. */
#include "base/err.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

enum {
    RESTART_FIRST_MS = 100, /* the backoff doubles each time, as Docker's does */
    RESTART_LONGEST_MS = 60000,
};

static void on_restart(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    /* Meanwhile a client may have stopped, changed or started the sandbox. */
    if (s->state != SANDBOX_STOPPED || s->restart.user_stopped || s->spec->restart == RESTART_NO ||
        s->sup->stopping || s->sup->ending) {
        s->restart.due = false;
        return;
    }
    s->restart.count++;
    s->run.wanted = true;
    sandbox_emit(s, "restart", NULL);
    if (s->channel != NULL && s->start.walk.stage != STAGE_NONE)
        return; /* on_init_ready starts the main process when the parts are ready */
    if (s->channel != NULL)
        sandbox_start_main(s);
    else if (sandbox_launch(s, &err) < 0)
        sandbox_start_failed(s, err.code, &err);
}

bool sandbox_wants_restart(const struct sandbox *s)
{
    bool wanted = false;

    switch (s->spec->restart) {
    case RESTART_ALWAYS:
    case RESTART_UNLESS_STOPPED:
        wanted = true;
        break;
    case RESTART_ON_FAILURE:
        wanted = s->exit.code != 0 && (s->spec->restart_max == LIMIT_UNSET ||
                                       (int64_t)s->restart.count < s->spec->restart_max);
        break;
    case RESTART_NO:
    case RESTART_MAX:
    default:
        break;
    }
    return wanted && !s->restart.user_stopped && s->exit.has && !s->sup->stopping &&
           !s->sup->ending;
}

void sandbox_maybe_restart(struct sandbox *s)
{
    uint64_t wait = RESTART_FIRST_MS;

    if (!sandbox_wants_restart(s)) {
        s->restart.due = false;
        if (s->spec->auto_remove && s->exit.has && !s->sup->stopping)
            (void)sandbox_remove(s, true, NULL, NULL, NULL);
        return;
    }
    for (unsigned i = 0; i < s->restart.failures && wait < RESTART_LONGEST_MS; i++)
        wait *= 2;
    s->restart.failures++;
    s->restart.due = true;
    (void)uv_timer_start(&s->restart.timer, on_restart,
                         wait < RESTART_LONGEST_MS ? wait : RESTART_LONGEST_MS, 0);
}

void sandbox_no_restart(struct sandbox *s)
{
    s->restart.due = false;
    (void)uv_timer_stop(&s->restart.timer);
}
