/*
 * Sandboxes whose processes do not end: one of them sleeps uninterruptibly, for a file system
 * (FUSE, NFS, a frozen one) or a device that does not answer. No signal ends that. The sandbox
 * stays in `stopping` or `removing`, its error says what is waited for, and requests that wait for
 * its end are answered; so are later ones, at once. Its end goes on by itself when the process
 * ends.
 *
 * A supervisor that comes meanwhile finds processes without an init: init has closed its lock and
 * its socket, and waits in the kernel for the last process of its namespace. The launcher is asked
 * then, at growing intervals.
 */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "launch/request.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

enum { POLL_MS = 50, POLL_MAX_MS = 2000 };

int sandbox_linger_refuse(const struct sandbox *s, int code, struct err *err)
{
    return err_set(err, code, "sandbox %s is %s and has not ended yet: %s", sandbox_name(s),
                   sandbox_state_name(s->state), s->error);
}

/* The removal of the sandbox whose network it shares waits for it, too. */
static void sandbox_linger_answer_owner(const struct sandbox *s)
{
    struct sandbox *owner = s->spec != NULL && s->spec->net_container != NULL
                                ? sandbox_by_id(s->sup, s->net.owner)
                                : NULL;
    struct err err = ERR_NONE;

    if (owner == NULL || owner == s || owner->state != SANDBOX_REMOVING)
        return;
    (void)err_set(&err, -ETIMEDOUT, "sandbox %s, in its network, has not ended yet: %s",
                  sandbox_name(s), s->error);
    waiters_answer(&owner->waiters.removed, err.code, &err);
}

void sandbox_linger(struct sandbox *s, const char *why)
{
    struct err err = ERR_NONE;

    sandbox_ref(s);
    if (!s->end.lingers)
        log_warn("sandbox", "id=%s has not ended: %s", s->id, why);
    s->end.lingers = true;
    sandbox_answer_failed(s); /* a start that failed; while s->error says of what */
    if (why != s->error)
        (void)snprintf(s->error, sizeof(s->error), "%s", why);
    if (s->run.wanted || s->waiters.init != NULL) {
        (void)sandbox_linger_refuse(s, -EBUSY, &err);
        sandbox_start_failed(s, err.code, &err);
        sandbox_answer_failed(s);
        (void)snprintf(s->error, sizeof(s->error), "%s", why);
    }
    (void)sandbox_linger_refuse(s, -ETIMEDOUT, &err);
    waiters_answer(&s->waiters.stopped, err.code, &err);
    waiters_answer(&s->waiters.removed, err.code, &err);
    sandbox_linger_answer_owner(s);
    sandbox_unref(s);
}

void sandbox_linger_over(struct sandbox *s)
{
    if (!s->end.lingers)
        return;
    s->end.lingers = false;
    s->error[0] = '\0';
    log_info("sandbox", "id=%s has ended after all", s->id);
}

/* ---- after a reattach ---- */

static void on_poll_due(uv_timer_t *h);

/* True until a request for its removal has taken over. */
static bool sandbox_linger_is_polled(const struct sandbox *s)
{
    return s->state == SANDBOX_STOPPING && s->init == INIT_UNKNOWN && s->end.lingers;
}

static void sandbox_linger_poll_later(struct sandbox *s)
{
    (void)uv_timer_start(&s->timer, on_poll_due, s->end.poll_ms, 0);
    if (s->end.poll_ms < POLL_MAX_MS)
        s->end.poll_ms *= 2;
}

/* Its status was not seen: the end of what was killed. */
static void sandbox_linger_ended(struct sandbox *s)
{
    sandbox_set_init(s, INIT_ENDING);
    sandbox_set_init(s, INIT_NONE);
    if (!s->exit.has) {
        s->exit.has = true;
        s->exit.code = 128 + 9;
        waiters_answer(&s->waiters.run_over, s->exit.code, NULL);
        waiters_answer(&s->waiters.exit, s->exit.code, NULL);
    }
    sandbox_stopped(s);
}

static void on_poll_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct sandbox *s = data;

    (void)reply;
    (void)fds;
    (void)err;
    if (r != -ECANCELED && r != -EPIPE && sandbox_linger_is_polled(s)) {
        if (r == -ESRCH)
            sandbox_linger_ended(s);
        else
            sandbox_linger_poll_later(s);
    }
    sandbox_unref(s);
}

static void on_poll_due(uv_timer_t *h)
{
    struct sandbox *s = h->data;

    if (sandbox_linger_is_polled(s) &&
        sandbox_send_verb(s, LAUNCH_REATTACH, on_poll_reply, NULL) < 0)
        sandbox_linger_poll_later(s);
}

void sandbox_linger_adopted(struct sandbox *s, const char *why)
{
    s->end.poll_ms = POLL_MS;
    sandbox_linger(s, why);
    sandbox_linger_poll_later(s);
}
