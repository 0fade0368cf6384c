/*
 * Requests of clients for one sandbox. Each asks the table of states first. Then it begins an
 * operation that other sandbox-*.c files continue.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "sandbox/exec.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"
#include "spec/json.h"
#include "spec/spec.h"

enum {
    KILL_AFTER_MS = 5000, /* time for the main process to exit after SIGKILL; then init is killed */
    FREEZE_LIMIT_MS =
        5000, /* limit of a pause: a process in uninterruptible sleep delays the freeze */
    FREEZE_AGAIN_MS = 5, /* first wait between two checks; it doubles each time */
    FREEZE_AGAIN_MOST = 40,
};

/* A start that waits for the end of a run. It fails if a client stops the sandbox meanwhile. */
struct restart {
    struct sandbox *s;
    unsigned stops; /* value of s->restart.stops at the request */
    sandbox_cb cb;
    void *data;
};

static void on_restart_stopped(void *data, int r, const struct err *err)
{
    struct restart *rs = data;
    struct err own = ERR_NONE;

    if (r == 0) {
        r = rs->stops != rs->s->restart.stops
                ? err_set(&own, -ECANCELED, "sandbox %s was stopped before it was started",
                          sandbox_name(rs->s))
                : sandbox_start(rs->s, rs->cb, rs->data, &own);
        err = &own;
    }
    if (r < 0 && rs->cb != NULL)
        rs->cb(rs->data, r, err);
    sandbox_unref(rs->s);
    free(rs);
}

static struct restart *restart_new(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    struct restart *rs = calloc(1, sizeof(*rs));

    if (rs == NULL)
        (void)err_errno(err, -ENOMEM, "restart");
    else
        *rs = (struct restart){.s = s, .stops = s->restart.stops, .cb = cb, .data = data};
    return rs;
}

/*
 * Queues a start behind the end of a run. The main process has exited and its waiters have been
 * answered, so the run ends by itself.
 */
static int start_after_this_run(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    struct restart *rs = restart_new(s, cb, data, err);
    int r = rs == NULL ? -ENOMEM : waiters_add(&s->waiters.stopped, on_restart_stopped, rs, err);

    if (r < 0)
        free(rs);
    else
        sandbox_ref(s);
    return r;
}

int sandbox_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r;

    if (s->end.lingers)
        return sandbox_linger_refuse(s, -EBUSY, err);
    if (s->state == SANDBOX_STOPPING && s->run.main == NULL && s->exit.has && !s->spec->auto_remove)
        return start_after_this_run(s, cb, data, err);
    r = sandbox_check(s, REQ_START, err);
    if (r == 0 && s->spec->argv[0] == NULL && s->state != SANDBOX_STOPPED)
        r = err_set(err, -EINVAL, "sandbox %s has no command to start", sandbox_name(s));
    if (r == 0)
        sandbox_answer_failed(s); /* the new start must not get the old failure */
    if (r == 0)
        r = waiters_add(&s->waiters.started, cb, data, err);
    if (r < 0)
        return r;
    s->restart.user_stopped = false;
    (void)uv_timer_stop(&s->restart.timer); /* this start replaces a restart that is due */
    s->restart.failures = 0;
    s->run.wanted = true;
    if (s->channel != NULL) {
        if (s->start.walk.stage == STAGE_NONE) /* else on_init_ready does it */
            sandbox_start_main(s);
        return 0;
    }
    r = sandbox_launch(s, err);
    if (r < 0) {
        s->run.wanted = false;
        (void)waiters_forget(&s->waiters.started, data);
        if (s->restart.due)
            sandbox_maybe_restart(s);
    }
    return r;
}

/* Kills init: the main process sleeps uninterruptibly, or has too little CPU time to exit. */
static void on_still_there(uv_timer_t *h)
{
    sandbox_end_init(h->data);
}

static void on_stop_deadline(uv_timer_t *h)
{
    struct sandbox *s = h->data;

    const unsigned limit = s->sup->limits.end_ms;

    if (s->run.main != NULL && exec_signal(s->run.main, SIGKILL, true) == 0)
        (void)uv_timer_start(&s->timer, on_still_there,
                             limit < KILL_AFTER_MS ? limit : KILL_AFTER_MS, 0);
    else
        sandbox_end_init(s);
}

static void on_thaw_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    (void)r;
    (void)reply;
    (void)fds;
    (void)err; /* the stop deadline ends a sandbox that stays frozen */
    sandbox_unref(data);
}

/* Fails a start that waits for init: the stop has overtaken it, and no main process follows. */
static void sandbox_answer_overtaken(struct sandbox *s)
{
    struct err err = ERR_NONE;

    sandbox_answer_failed(s);
    (void)err_set(&err, -ECANCELED, "sandbox %s was stopped before it was started",
                  sandbox_name(s));
    waiters_answer(&s->waiters.started, err.code, &err);
}

int sandbox_stop(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data, struct err *err)
{
    return sandbox_stop_by(s, 0, timeout_ms, cb, data, err);
}

static int sandbox_begin_stop(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb,
                              void *data, struct err *err)
{
    int r;

    r = sandbox_check(s, REQ_STOP, err);
    if (r < 0)
        return r;
    s->restart.user_stopped = true;
    s->run.wanted = false;
    sandbox_no_restart(s);
    if (s->end.lingers) {
        sandbox_save_state(s);
        return sandbox_linger_refuse(s, -ETIMEDOUT, err);
    }
    if (s->state == SANDBOX_STOPPED) {
        sandbox_save_state(s);
        sandbox_answer_overtaken(s);
        return sandbox_answer_soon(s, 0, cb, data, err);
    }
    r = waiters_add(&s->waiters.stopped, cb, data, err);
    if (r < 0)
        return r;
    if (timeout_ms == LIMIT_UNSET)
        timeout_ms = s->spec->stop_timeout_ms;
    /* Frozen processes take no signal. */
    if (s->state == SANDBOX_PAUSED)
        (void)sandbox_send_verb(s, LAUNCH_THAW, on_thaw_reply, NULL);
    (void)sandbox_set_state(s, REQ_STOP);
    sandbox_save_state(s); /* a later supervisor continues the stop */
    (void)uv_timer_stop(&s->idle);
    if (s->run.main == NULL || s->init == INIT_ENDING) {
        sandbox_end_init(s);
        return 0;
    }
    if (timeout_ms == 0) {
        on_stop_deadline(&s->timer);
        return 0;
    }
    (void)exec_signal(s->run.main, signo != 0 ? signo : s->spec->stop_signal, false);
    (void)uv_timer_start(&s->timer, on_stop_deadline, (uint64_t)timeout_ms, 0);
    return 0;
}

int sandbox_stop_by(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb, void *data,
                    struct err *err)
{
    int r = sandbox_begin_stop(s, signo, timeout_ms, cb, data, err);

    if (r == 0)
        s->restart.stops++; /* cancels starts that wait for the end of this run */
    return r;
}

int sandbox_restart(struct sandbox *s, int64_t timeout_ms, sandbox_cb cb, void *data,
                    struct err *err)
{
    return sandbox_restart_by(s, 0, timeout_ms, cb, data, err);
}

int sandbox_restart_by(struct sandbox *s, int signo, int64_t timeout_ms, sandbox_cb cb, void *data,
                       struct err *err)
{
    struct restart *rs = restart_new(s, cb, data, err);
    int r;

    if (rs == NULL)
        return -ENOMEM;
    r = sandbox_begin_stop(s, signo, timeout_ms, on_restart_stopped, rs, err);
    if (r < 0)
        free(rs);
    else
        sandbox_ref(s);
    return r;
}

int sandbox_update(struct sandbox *s, struct spec *changed, struct err *err)
{
    int r;

    r = sandbox_check(s, REQ_UPDATE, err);
    if (r == 0)
        r = store_save_spec(s->sup->store, s->id, changed, err);
    if (r < 0)
        return r;
    spec_take_patched(s->spec, changed);
    if (s->spec->inactivity_ms == LIMIT_UNSET)
        (void)uv_timer_stop(&s->idle);
    else
        sandbox_touch(s);
    sandbox_emit(s, "update", NULL);
    return 0;
}

/* A pause or resume in progress. */
struct freeze {
    struct sandbox *s; /* a reference */
    bool freeze, client;
    sandbox_cb cb;
    void *data;
    uv_timer_t again;
    int64_t deadline; /* clock_mono_ms */
    unsigned wait_ms;
};

static void on_freeze_closed(uv_handle_t *h)
{
    free(h->data);
}

static void freeze_done(struct freeze *f, int r, const struct err *err)
{
    struct sandbox *s = f->s;

    if (r == 0 && f->client)
        sandbox_freeze_refs_dropped(s); /* the pause or resume now belongs to this client */
    if (r == 0 && sandbox_set_state(s, f->freeze ? EV_FROZEN : EV_THAWED)) {
        sandbox_save_state(s);
        sandbox_emit(s, f->freeze ? "pause" : "resume", NULL);
    }
    /* The sandbox is being stopped by now; frozen processes would take no signal. */
    if (r == 0 && f->freeze && s->state != SANDBOX_PAUSED)
        (void)sandbox_send_verb(s, LAUNCH_THAW, on_thaw_reply, NULL);
    if (f->cb != NULL)
        f->cb(f->data, r, err);
    sandbox_unref(s);
    uv_close((uv_handle_t *)&f->again, on_freeze_closed);
}

static int freeze_ask(struct freeze *f, struct err *err);

static void on_freeze_again(uv_timer_t *h)
{
    struct freeze *f = h->data;
    struct err err = ERR_NONE;
    int r =
        f->s->sup->stopping ? err_set(&err, -ECANCELED, "the daemon stops") : freeze_ask(f, &err);

    if (r < 0)
        freeze_done(f, r, &err);
}

static void on_freeze_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                            const struct err *err)
{
    struct freeze *f = data;
    struct err own = ERR_NONE;

    (void)reply;
    (void)fds;
    if (r == -EAGAIN && clock_mono_ms() < f->deadline &&
        (!f->freeze || f->s->state == SANDBOX_RUNNING)) {
        (void)uv_timer_start(&f->again, on_freeze_again, f->wait_ms, 0);
        if (f->wait_ms < FREEZE_AGAIN_MOST)
            f->wait_ms *= 2;
        return;
    }
    if (r == -EAGAIN) {
        /* A sandbox that is only partly frozen is thawed again. */
        if (f->freeze && f->s->state != SANDBOX_PAUSED)
            (void)sandbox_send_verb(f->s, LAUNCH_THAW, on_thaw_reply, NULL);
        /*
         * If another request has changed the state, a stop for instance, that state is the reason.
         */
        r = f->freeze ? sandbox_check(f->s, REQ_PAUSE, &own) : 0;
        if (r == 0)
            r = err_set(&own, -ETIMEDOUT, "%s: a process has not followed within %d ms",
                        f->freeze ? "pause" : "resume", FREEZE_LIMIT_MS);
        err = &own;
    }
    freeze_done(f, r, err);
}

static int freeze_ask(struct freeze *f, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, f->freeze ? LAUNCH_FREEZE : LAUNCH_THAW);
    launch_put_string(&b, TAG_ID, f->s->id);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send(f->s->sup->launcher, &b, on_freeze_reply, f, err);
}

static int freeze_begin(struct sandbox *s, bool on, bool client, sandbox_cb cb, void *data,
                        struct err *err)
{
    struct freeze *f = calloc(1, sizeof(*f));
    int r;

    if (f == NULL)
        return err_errno(err, -ENOMEM, "pause");
    *f = (struct freeze){.s = s,
                         .freeze = on,
                         .client = client,
                         .cb = cb,
                         .data = data,
                         .deadline = clock_mono_ms() + FREEZE_LIMIT_MS,
                         .wait_ms = FREEZE_AGAIN_MS};
    r = freeze_ask(f, err);
    if (r < 0) {
        free(f);
        return r;
    }
    (void)uv_timer_init(s->sup->loop, &f->again);
    f->again.data = f;
    sandbox_ref(s);
    return 0;
}

int sandbox_pause(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check(s, REQ_PAUSE, err);

    if (r < 0)
        return r;
    if (s->freeze_ref.readers == 0)
        sandbox_freeze_refs_dropped(s); /* ends the mark of a pause that failed */
    return freeze_begin(s, true, true, cb, data, err);
}

int sandbox_freeze_for_ref(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check(s, REQ_PAUSE, err);

    if (r < 0)
        return r;
    /* Saved before the freeze: after a crash the next daemon thaws the sandbox. */
    s->freeze_ref.phase = FREEZE_REF_KEPT;
    sandbox_save_state(s);
    return freeze_begin(s, true, false, cb, data, err);
}

void sandbox_freeze_refs_dropped(struct sandbox *s)
{
    if (s->freeze_ref.phase == FREEZE_REF_NONE)
        return;
    s->freeze_ref.phase = FREEZE_REF_NONE;
    sandbox_save_state(s);
}

int sandbox_let_go(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check(s, REQ_RESUME, err);

    return r < 0 ? r : freeze_begin(s, false, false, cb, data, err);
}

int sandbox_resume(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check(s, REQ_RESUME, err);

    return r < 0 ? r : freeze_begin(s, false, true, cb, data, err);
}

int sandbox_signal(struct sandbox *s, int signo, struct err *err)
{
    int r;

    r = sandbox_check(s, REQ_SIGNAL, err);
    if (r < 0)
        return r;
    if (s->run.main == NULL)
        return err_set(err, -EBUSY, "sandbox %s has no main process", sandbox_name(s));
    if (s->state == SANDBOX_PAUSED && signo == SIGKILL)
        (void)sandbox_send_verb(s, LAUNCH_THAW, on_thaw_reply, NULL);
    r = exec_signal(s->run.main, signo, false);
    return r < 0 ? err_errno(err, r, "signal sandbox %s", sandbox_name(s)) : 0;
}

static int sandbox_check_there(const struct sandbox *s, struct err *err)
{
    return s->state == SANDBOX_GONE
               ? err_set(err, -ENOENT, "sandbox %s has been removed", sandbox_name(s))
               : 0;
}

int sandbox_wait(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check_there(s, err);

    if (r < 0)
        return r;
    if (s->run.main == NULL && s->exit.has && s->state != SANDBOX_STARTING)
        return sandbox_answer_soon(s, s->exit.code, cb, data, err);
    if (s->state == SANDBOX_STOPPED || s->state == SANDBOX_BROKEN)
        return err_set(err, -EBUSY, "sandbox %s is %s and has not run", sandbox_name(s),
                       sandbox_state_name(s->state));
    return waiters_add(&s->waiters.run_over, cb, data, err);
}

int sandbox_wait_next(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check_there(s, err);

    return r < 0 ? r : waiters_add(&s->waiters.exit, cb, data, err);
}

int sandbox_wait_removed(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = sandbox_check_there(s, err);

    return r < 0 ? r : waiters_add(&s->waiters.removed, cb, data, err);
}

bool sandbox_wait_cancel(struct sandbox *s, void *data)
{
    struct waiter **const lists[] = {&s->waiters.run_over, &s->waiters.exit, &s->waiters.removed};
    bool waited = false;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        waited |= waiters_forget(lists[i], data);
    return waited;
}

/* A request that waits until the run is over, and with auto-remove until the sandbox is removed. */
struct sandbox_over {
    struct sandbox *s;
    sandbox_cb cb;
    void *data;
};

static void over_done(struct sandbox_over *o)
{
    sandbox_cb cb = o->cb;
    void *data = o->data;
    struct sandbox *s = o->s;

    free(o);
    if (cb != NULL)
        cb(data, 0, NULL);
    sandbox_unref(s);
}

static void on_over_removed(void *data, int r, const struct err *err)
{
    (void)r;
    (void)err; /* the failure has been logged; the run is over in any case */
    over_done(data);
}

static void on_over_stopped(void *data, int r, const struct err *err)
{
    struct sandbox_over *o = data;
    bool removing = o->s->spec != NULL && o->s->spec->auto_remove &&
                    o->s->spec->restart == RESTART_NO && !o->s->sup->stopping;

    (void)err;
    if (r < 0 || o->s->state == SANDBOX_GONE || !removing ||
        sandbox_remove(o->s, true, on_over_removed, o, NULL) < 0)
        over_done(o);
}

int sandbox_when_over(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    struct sandbox_over *o = calloc(1, sizeof(*o));
    int r;

    if (o == NULL)
        return err_errno(err, -ENOMEM, "sandbox");
    *o = (struct sandbox_over){.s = s, .cb = cb, .data = data};
    if (s->state != SANDBOX_STOPPING && s->state != SANDBOX_REMOVING)
        r = sandbox_answer_soon(s, 0, on_over_removed, o, err);
    else if (s->state == SANDBOX_REMOVING)
        r = waiters_add(&s->waiters.removed, on_over_removed, o, err);
    else
        r = waiters_add(&s->waiters.stopped, on_over_stopped, o, err);
    if (r < 0) {
        free(o);
        return r;
    }
    sandbox_ref(s);
    return 0;
}

int sandbox_with_init(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r;

    r = sandbox_check(s, REQ_INIT, err);
    if (r == 0 && s->end.lingers)
        r = sandbox_linger_refuse(s, -EBUSY, err);
    if (r < 0)
        return r;
    sandbox_touch(s);
    if (s->channel != NULL && s->init != INIT_ENDING)
        return sandbox_answer_soon(s, 0, cb, data, err);
    r = waiters_add(&s->waiters.init, cb, data, err);
    if (r == 0 && s->state == SANDBOX_STOPPED) {
        r = sandbox_launch(s, err);
        if (r < 0)
            (void)waiters_forget(&s->waiters.init, data);
    }
    return r;
}

struct stats_request {
    struct sandbox *s;
    void (*cb)(void *data, int r, const struct launch_reply *reply, const struct err *err);
    void *data;
};

static void on_stats_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct stats_request *st = data;

    (void)fds;
    st->cb(st->data, r, reply, err);
    sandbox_unref(st->s);
    free(st);
}

int sandbox_stats(struct sandbox *s,
                  void (*cb)(void *, int, const struct launch_reply *, const struct err *),
                  void *data, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    struct stats_request *st;
    int r;

    if (s->channel == NULL)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(s->state));
    st = calloc(1, sizeof(*st));
    if (st == NULL)
        return err_errno(err, -ENOMEM, "stats");
    *st = (struct stats_request){.s = s, .cb = cb, .data = data};
    launch_begin(&b, LAUNCH_STATS);
    launch_put_string(&b, TAG_ID, s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(s->sup->launcher, &b, on_stats_reply, st, err);
    if (r < 0)
        free(st);
    else
        sandbox_ref(s);
    return r;
}

struct processes {
    struct sandbox *s;
    sandbox_processes_cb cb;
    void *data;
};

static void on_processes_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                               const struct err *err)
{
    const size_t max = LAUNCH_PROCESSES_MAX * sizeof(struct launch_process);
    struct processes *p = data;
    auto_free char *list = NULL;
    struct err own = ERR_NONE;
    size_t len = 0;

    (void)reply;
    if (r == 0) {
        r = lseek(fds[0], 0, SEEK_SET) < 0 ? err_errno(&own, -errno, "processes")
                                           : file_read_fd(fds[0], max, &list, &len, &own);
        err = &own;
    }
    p->cb(p->data, r, (const struct launch_process *)(void *)list,
          len / sizeof(struct launch_process), err);
    sandbox_unref(p->s);
    free(p);
}

int sandbox_processes(struct sandbox *s, sandbox_processes_cb cb, void *data, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    struct processes *p;
    int r;

    if (s->channel == NULL)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(s->state));
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_errno(err, -ENOMEM, "processes");
    *p = (struct processes){.s = s, .cb = cb, .data = data};
    launch_begin(&b, LAUNCH_PROCESSES);
    launch_put_string(&b, TAG_ID, s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(s->sup->launcher, &b, on_processes_reply, p, err);
    if (r < 0)
        free(p);
    else
        sandbox_ref(s);
    return r;
}
