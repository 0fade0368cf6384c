/*
 * The removal of a sandbox. First its processes end, then the sandboxes in its network. Then the
 * launcher and the store delete its files.
 */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "launch/request.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

enum {
    RELEASE_AGAIN_MS = 50,
    RELEASE_LATE_MS = 2000, /* the same once the sandbox lingers */
};

/*
 * Fails every waiter except those for the removal: their events cannot happen any more. err says
 * why.
 */
static void sandbox_answer_all(struct sandbox *s, int r, const struct err *err)
{
    struct waiter **const lists[] = {&s->waiters.init, &s->waiters.started, &s->waiters.stopped,
                                     &s->waiters.run_over, &s->waiters.exit};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        waiters_answer(lists[i], r, err);
}

static void sandbox_answer_gone(struct sandbox *s)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, -ENOENT, "sandbox %s has been removed", sandbox_name(s));
    sandbox_answer_all(s, err.code, &err);
}

/* Fails the waiters for the removal, too; the sandbox's processes have ended nevertheless. */
static void sandbox_answer_not_removed(struct sandbox *s, int r, const struct err *err)
{
    sandbox_ref(s);
    sandbox_answer_all(s, r, err);
    waiters_answer(&s->waiters.removed, r, err);
    sandbox_unref(s);
}

/*
 * Repeats LAUNCH_RELEASE, because processes of an init without reattach may still be exiting. One
 * that is being swept may still be in the sandbox's network, too (-EBUSY).
 */
static void on_release_again(uv_timer_t *h)
{
    sandbox_begin_removal(h->data);
}

static void on_release_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                             const struct err *err)
{
    struct sandbox *s = data;
    const unsigned tries_max = s->sup->limits.end_ms / RELEASE_AGAIN_MS;

    (void)reply;
    (void)fds;
    s->end.releasing = false;
    if (s->handles > 0 && (r == -EAGAIN || (r == -EBUSY && s->end.release_tries < tries_max))) {
        if (s->end.release_tries++ >= tries_max)
            sandbox_linger(s, err->msg);
        (void)uv_timer_start(&s->timer, on_release_again,
                             s->end.lingers ? RELEASE_LATE_MS : RELEASE_AGAIN_MS, 0);
        sandbox_unref(s);
        return;
    }
    sandbox_linger_over(s);
    if (r < 0 && r != -ENOENT) {
        log_error("sandbox", "id=%s remove: %s", s->id, err->msg);
        /*
         * Some files are deleted already, so only another removal is allowed, also under the next
         * supervisor.
         */
        if (r != -ECANCELED && r != -EPIPE) {
            (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
            (void)sandbox_set_state(s, EV_RELEASE_FAILED);
            sandbox_set_init(s, INIT_UNKNOWN);
        }
        sandbox_answer_not_removed(s, r, err);
        sandbox_unref(s);
        return;
    }
    (void)store_remove(s->sup->store, s->id, NULL); /* the next start sweeps remaining files */
    sandbox_emit(s, "destroy", NULL);
    sandbox_ref(s);
    sandbox_forget(s);
    sandbox_parts_tell(s, PART_REMOVED);
    sandbox_dependent_settled(s);
    sandbox_parts_tell(s, PART_NO_RUN);
    sandbox_answer_gone(s);
    waiters_answer(&s->waiters.removed, 0, NULL);
    sandbox_unref(s);
    sandbox_unref(s);
}

static void on_taken_up(void *data, int r, const struct launch_reply *reply, int fds[2],
                        const struct err *err)
{
    (void)r; /* only the reply to LAUNCH_KILL counts */
    (void)reply;
    (void)fds;
    (void)err;
    sandbox_unref(data);
}

/*
 * Kills the init that a broken sandbox may have. The launcher kills only inits that it knows, so it
 * has to reattach first.
 */
static bool sandbox_end_unknown(struct sandbox *s)
{
    (void)sandbox_send_verb(s, LAUNCH_REATTACH, on_taken_up, NULL);
    return sandbox_send_kill(s, NULL) == 0;
}

void sandbox_begin_removal(struct sandbox *s)
{
    struct err err = ERR_NONE;

    (void)uv_timer_stop(&s->idle);
    if (s->channel != NULL || s->init == INIT_ENDING) {
        sandbox_end_init(s); /* this function is called again after that */
        return;
    }
    (void)uv_timer_stop(&s->timer);
    if (sandbox_end_dependents(s))
        return; /* sandbox_dependent_settled calls this again */
    if (s->init == INIT_UNKNOWN && sandbox_end_unknown(s))
        return; /* this function is called again after that */
    if (s->end.releasing)
        return;
    s->end.releasing = sandbox_send_verb(s, LAUNCH_RELEASE, on_release_reply, &err) == 0;
    if (!s->end.releasing) {
        (void)sandbox_set_state(s,
                                s->init == INIT_UNKNOWN ? EV_RELEASE_FAILED : EV_RELEASE_NOT_SENT);
        sandbox_answer_not_removed(s, err.code, &err);
    }
}

int sandbox_remove(struct sandbox *s, bool force, sandbox_cb cb, void *data, struct err *err)
{
    /*
     * The main process has ended, and waiters know its status. The rest of the run ends by itself.
     */
    bool over = s->state == SANDBOX_STOPPING && s->run.main == NULL && s->exit.has;
    const enum sandbox_event request = force || over ? REQ_REMOVE_FORCE : REQ_REMOVE;
    int r;

    r = sandbox_check(s, request, err);
    if (r == 0 && !force)
        r = sandbox_check_dependents(s, err);
    if (r == 0)
        r = waiters_add(&s->waiters.removed, cb, data, err);
    if (r < 0)
        return r;
    s->run.wanted = false;
    s->restart.user_stopped = true;
    sandbox_no_restart(s);
    s->end.release_tries = 0;
    (void)sandbox_set_state(s, request);
    sandbox_save_state(s); /* a later supervisor continues the removal */
    if (s->end.lingers) {  /* the removal follows the end */
        (void)waiters_forget(&s->waiters.removed, data);
        r = sandbox_linger_refuse(s, -ETIMEDOUT, err);
        sandbox_begin_removal(s);
        return r;
    }
    if (!init_phase_is_busy(s->init) || s->init == INIT_ENDING)
        sandbox_begin_removal(s);
    else /* the pending reply continues the removal */
        sandbox_parts_tell(s, PART_CANCEL);
    return 0;
}
