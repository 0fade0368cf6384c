/*
 * The end of a run. The supervisor kills init, and with it every process in the sandbox. It waits
 * for the exit here and not in the launcher, which must stay free for other sandboxes. Then the
 * launcher syncs the files and releases what the run held. The sandbox is then stopped, and can be
 * started again or removed.
 *
 * A process may sleep uninterruptibly, for a file system or a device that does not answer. Then
 * requests are answered after endTimeoutMs, as linger.c says, and the wait goes on.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "sandbox/channel.h"
#include "sandbox/exec.h"
#include "sandbox/launcher-client.h"
#include "sandbox/pidfd-wait.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"

enum {
    END_AGAIN_MS = 50,      /* delay before the request to the launcher is repeated */
    LINGER_AGAIN_MS = 1000, /* the same once the sandbox lingers */
};

/* ---- stopped ---- */

void sandbox_answer_failed(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (s->start.failure == 0)
        return;
    (void)err_set(&err, s->start.failure, "%s", s->error);
    s->start.failure = 0;
    waiters_answer(&s->waiters.started, err.code, &err);
}

/* Fails the waiters for a run when no run follows. */
static void sandbox_answer_not_run(struct sandbox *s)
{
    struct err err = ERR_NONE;

    sandbox_answer_failed(s);
    (void)err_set(&err, -ECANCELED, "sandbox %s was stopped before it was started",
                  sandbox_name(s));
    waiters_answer(&s->waiters.started, err.code, &err);
    if (s->exit.has) { /* an earlier run has ended; a later request gets the same answer */
        waiters_answer(&s->waiters.run_over, s->exit.code, NULL);
        return;
    }
    (void)err_set(&err, -EBUSY, "sandbox %s was stopped and has not run", sandbox_name(s));
    waiters_answer(&s->waiters.run_over, err.code, &err);
    waiters_answer(&s->waiters.exit, err.code, &err);
}

void sandbox_stopped(struct sandbox *s)
{
    bool restart = false;

    if (s->state != SANDBOX_REMOVING) /* that lingers until its files are gone */
        sandbox_linger_over(s);
    if (sandbox_set_state(s, EV_ENDED)) {
        sandbox_save_state(s);
        sandbox_emit(s, "stop", NULL);
        restart = !s->start.refused;
    }
    if (s->restart.due && uv_is_active((uv_handle_t *)&s->restart.timer) == 0)
        restart = true; /* a failed restart whose end is complete */
    s->start.refused = false;
    if (s->state == SANDBOX_REMOVING) {
        sandbox_begin_removal(s);
        return;
    }
    if (s->state == SANDBOX_STOPPED && !s->run.wanted)
        sandbox_answer_not_run(s);
    if (s->state == SANDBOX_STOPPED && !s->run.wanted)
        sandbox_parts_tell(s, PART_NO_RUN);
    sandbox_dependent_settled(s);
    waiters_answer(&s->waiters.stopped, 0, NULL);
    if (s->state != SANDBOX_STOPPED)
        return;
    if (s->run.wanted || s->waiters.init != NULL) {
        struct err err = ERR_NONE;

        if (sandbox_launch(s, &err) < 0)
            sandbox_start_failed(s, err.code, &err);
    } else if (restart) {
        sandbox_maybe_restart(s);
    }
}

/* ---- the death of init, and what the launcher does after it ---- */

/* Continues a wait that has reached its limit; false if that is not possible. */
static bool sandbox_wait_on(struct sandbox *s)
{
    struct pidfd_wait *late = s->end.pidfd_wait;

    s->end.pidfd_wait = NULL;
    return pidfd_wait_again(late, &s->end.pidfd_wait) == 0;
}

/* The launcher has synced the files; the sandbox can be started again. */
static void on_settled(void *data, bool late)
{
    struct sandbox *s = data;

    if (late && sandbox_wait_on(s)) {
        sandbox_linger(s, "its files are being written, and their disk has not answered");
        return;
    }
    s->end.pidfd_wait = NULL;
    s->end.syncing = false;
    sandbox_set_init(s, INIT_NONE);
    sandbox_stopped(s);
    sandbox_unref(s);
}

static void sandbox_after_death(struct sandbox *s, bool dead);

/*
 * Repeats a request that could not be sent or answered now (no fd, a full queue), because the
 * sandbox must end in any case. After the launcher has died there is no retry: the next supervisor
 * finds the sandbox.
 */
static void sandbox_end_again(struct sandbox *s, uv_timer_cb again, int r)
{
    sandbox_set_init(s, r != -EPIPE && !s->sup->stopping ? INIT_ENDING : INIT_NONE);
    if (s->init == INIT_ENDING)
        (void)uv_timer_start(&s->timer, again, s->end.lingers ? LINGER_AGAIN_MS : END_AGAIN_MS, 0);
}

static void on_stop_again(uv_timer_t *h)
{
    sandbox_after_death(h->data, false);
}

static void on_stop_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct sandbox *s = data;

    if (r == -EBUSY) { /* init was killed, but its exit has not been seen */
        if (s->end.tries > 0)
            s->end.tries--;
        else
            sandbox_linger(s, err->msg);
        sandbox_end_again(s, on_stop_again, r);
        sandbox_unref(s);
        return;
    }
    if (s->channel == NULL)
        exec_all_lost(s);
    if (r < 0 && r != -ECANCELED && r != -ENOENT)
        log_warn("sandbox", "id=%s stop: %s", s->id, err->msg);
    if (reply != NULL && reply->oom_kills > 0) {
        s->exit.oom_killed = true;
        sandbox_emit(s, "oom", NULL);
    }
    if (r == 0 && fds[0] >= 0 &&
        pidfd_wait_start(s->sup->loop, fds[0], s->sup->limits.end_ms, on_settled, s,
                         &s->end.pidfd_wait) == 0) {
        s->end.syncing = true;
        return; /* pidfd_wait takes over the reference */
    }
    sandbox_set_init(s, INIT_NONE);
    if (r != -ECANCELED && r != -EPIPE)
        sandbox_stopped(s);
    sandbox_unref(s);
}

static void sandbox_after_death(struct sandbox *s, bool dead)
{
    struct err err = ERR_NONE;

    /* Only now the processes have ended, and whatever waits for them may hear of it. */
    if (dead)
        exec_all_lost(s);
    if (s->state == SANDBOX_REMOVING && dead) {
        /* A sandbox that is being removed never starts again, so no sync is needed. */
        sandbox_set_init(s, INIT_NONE);
        sandbox_begin_removal(s);
    } else {
        int r = sandbox_send_verb(s, LAUNCH_STOP, on_stop_reply, &err);

        if (r < 0)
            sandbox_end_again(s, on_stop_again, r);
    }
}

static void on_end_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                         const struct err *err)
{
    struct sandbox *s = data;

    (void)reply;
    (void)fds;
    if (r < 0 && r != -ENOENT && r != -ECANCELED)
        log_warn("sandbox", "id=%s end: %s", s->id, err->msg);
    sandbox_unref(s); /* the exit of init continues the end */
}

/*
 * The reply to a LAUNCH_STOP that came too early, in order to hear what has not ended. If it has
 * ended meanwhile, this was the stop that follows.
 */
static void on_why_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                         const struct err *err)
{
    struct sandbox *s = data;
    const bool died = s->end.died;

    s->end.asking = s->end.died = false;
    if (r == -ECANCELED || r == -EPIPE) {
        sandbox_unref(s);
        return;
    }
    if (r == -EBUSY) {
        if (died)
            sandbox_after_death(s, true);
        else
            sandbox_linger(s, err->msg);
        sandbox_unref(s);
        return;
    }
    if (s->end.pidfd_wait != NULL) {
        pidfd_wait_close(take(s->end.pidfd_wait));
        sandbox_unref(s);
    }
    on_stop_reply(data, r, reply, fds, err);
}

/* The end takes long. init's exit is waited for without a limit from here on. */
static void sandbox_ask_why(struct sandbox *s)
{
    if (!s->end.asking)
        s->end.asking = sandbox_send_verb(s, LAUNCH_STOP, on_why_reply, NULL) == 0;
    if (!s->end.asking)
        sandbox_linger(s, "its processes have not ended");
}

static void on_dead(void *data, bool late)
{
    struct sandbox *s = data;

    if (late && sandbox_wait_on(s)) {
        sandbox_ask_why(s);
        return;
    }
    s->end.pidfd_wait = NULL;
    if (s->end.asking)
        s->end.died = true; /* the reply continues the end */
    else
        sandbox_after_death(s, !late);
    sandbox_unref(s);
}

/* The launcher sends the pidfd, which this process never got, or could not watch. */
static void on_kill_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct sandbox *s = data;

    (void)reply;
    if (r == 0)
        r = pidfd_wait_start(s->sup->loop, fds[0], s->sup->limits.end_ms, on_dead, s,
                             &s->end.pidfd_wait);
    if (r == 0)
        return; /* pidfd_wait takes over the reference */
    if (r != -ENOENT && r != -ECANCELED)
        log_warn("sandbox", "id=%s kill: %s", s->id,
                 err != NULL && err->code < 0 ? err->msg : strerror(-r));
    s->end.tries = s->sup->limits.end_ms / END_AGAIN_MS;
    sandbox_after_death(s, false);
    sandbox_unref(s);
}

int sandbox_send_kill(struct sandbox *s, struct err *err)
{
    int r = sandbox_send_verb(s, LAUNCH_KILL, on_kill_reply, err);

    if (r == 0)
        sandbox_set_init(s, INIT_ENDING);
    return r;
}

/* Waits for init's exit here: the launcher could not serve other sandboxes while it waited. */
static int sandbox_send_end(struct sandbox *s, int pidfd, struct err *err)
{
    int r;

    if (pidfd < 0 || pidfd_wait_start(s->sup->loop, pidfd, s->sup->limits.end_ms, on_dead, s,
                                      &s->end.pidfd_wait) < 0)
        return sandbox_send_kill(s, err);
    r = sandbox_send_verb(s, LAUNCH_END, on_end_reply, err);
    if (r < 0)
        pidfd_wait_close(take(s->end.pidfd_wait));
    else
        sandbox_ref(s); /* held by pidfd_wait */
    return r;
}

static void on_kill_again(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    int r = sandbox_send_kill(s, NULL);

    if (r < 0)
        sandbox_end_again(s, on_kill_again, r);
}

void sandbox_end_init(struct sandbox *s)
{
    struct err err = ERR_NONE;
    struct channel *c;
    int r;

    if (s->init == INIT_ENDING)
        return;
    sandbox_set_init(s, INIT_ENDING); /* first: ends of execs below call this again */
    (void)sandbox_set_state(s, EV_INIT_ENDS);
    s->end.tries = 0;
    (void)uv_timer_stop(&s->timer);
    sandbox_parts_tell(s, PART_CLOSE);
    c = take(s->channel); /* execs have ended when init has: sandbox_after_death */
    r = sandbox_send_end(s, c != NULL ? channel_pidfd(c) : FD_NONE, &err);
    if (r < 0) {
        log_error("sandbox", "id=%s end: %s", s->id, err.msg);
        sandbox_end_again(s, on_kill_again, r);
    }
    channel_close(c);
}
