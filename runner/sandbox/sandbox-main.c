/* The main process of a sandbox with a running init: its start, its time limits and its end. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "sandbox/exec.h"
#include "sandbox/logs.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"

enum {
    RESTART_HEALTHY_MS = 10000, /* a run this long resets the backoff */
    STRAGGLERS_MS = 1000,       /* for other processes to end after the main process */
};

static void on_main_exited(void *data, struct exec *e);

/* ---- time limits ---- */

static void on_hard_timeout(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    s->exit.timed_out = true;
    sandbox_emit(s, "timeout", NULL);
    (void)sandbox_stop(s, 0, NULL, NULL, &err);
}

static void on_inactive(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    if (exec_any_counts(s) || (s->run.main != NULL && exec_is_attached(s->run.main))) {
        sandbox_touch(s); /* a running exec or an attached client is activity */
        return;
    }
    sandbox_emit(s, "inactive", NULL);
    (void)sandbox_stop(s, LIMIT_UNSET, NULL, NULL, &err);
}

void sandbox_touch(struct sandbox *s)
{
    if (s->spec != NULL && s->spec->inactivity_ms != LIMIT_UNSET && s->handles > 0 &&
        (s->state == SANDBOX_RUNNING || s->state == SANDBOX_CREATED))
        (void)uv_timer_start(&s->idle, on_inactive, (uint64_t)s->spec->inactivity_ms, 0);
    sandbox_helper_used(s);
}

/*
 * Sets the timer of the hard timeout. init itself keeps the exact time, even if this supervisor
 * dies, but a paused sandbox has to be thawed from here. After a reattach the timer starts with the
 * full time again, because the time that is left is unknown.
 */
static void sandbox_arm_hard_timeout(struct sandbox *s)
{
    if (s->spec->timeout_ms != LIMIT_UNSET)
        (void)uv_timer_start(&s->timer, on_hard_timeout,
                             (uint64_t)s->spec->timeout_ms + EXEC_TIMEOUT_SPARE_MS, 0);
}

void sandbox_goes_on(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (s->adoption.stop_again && sandbox_stop(s, LIMIT_UNSET, NULL, NULL, &err) < 0)
        log_warn("sandbox", "id=%s stop again: %s", s->id, err.msg);
    if (s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED)
        sandbox_arm_hard_timeout(s);
    sandbox_touch(s);
}

/* ---- events of the exec ---- */

static void on_main_started(void *data, struct exec *e)
{
    struct sandbox *s = data;

    s->run.started_ms = clock_wall_ms();
    s->run.began = clock_mono_ms();
    s->exit.has = s->exit.timed_out = s->exit.oom_killed = s->restart.due = false;
    s->error[0] = '\0';
    if (s->waiters.started != NULL)
        s->restart.count = 0; /* a client's start gives the restart policy all its tries again */
    (void)sandbox_set_state(s, EV_MAIN_RUNS);
    sandbox_save_state(s);
    sandbox_emit_volumes(s, "volume_mount");
    sandbox_emit(s, "start", NULL);
    sandbox_arm_hard_timeout(s);
    sandbox_touch(s);
    sandbox_parts_main_runs(s, e, false);
    waiters_answer(&s->waiters.started, 0, NULL);
}

static void sandbox_answer_exit(struct sandbox *s)
{
    waiters_answer(&s->waiters.run_over, s->exit.code, NULL);
    waiters_answer(&s->waiters.exit, s->exit.code, NULL);
}

/*
 * A command that cannot be executed leaves the sandbox stopped with status 126 or 127, as in
 * Docker.
 */
static void on_main_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct sandbox *s = data;

    exec_unref(e);
    s->run.main = NULL;
    s->exit.has = true;
    s->exit.code = exit_code;
    s->exit.finished_ms = clock_wall_ms();
    (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
    s->run.wanted = false;
    s->restart.due = false;
    s->start.failure = err->code; /* waiters are answered when it is stopped */
    (void)sandbox_set_state(s, EV_MAIN_FAILED);
    sandbox_save_state(s);
    sandbox_answer_exit(s);
    sandbox_parts_tell(s, PART_NO_RUN);
    sandbox_end_init(s); /* the inner PID 1 has exited */
}

static void on_stragglers(uv_timer_t *h)
{
    sandbox_end_init(h->data);
}

static void on_main_exited(void *data, struct exec *e)
{
    struct sandbox *s = data;
    char detail[64];

    s->exit.has = true;
    s->exit.code = exec_exit_code(e);
    s->exit.finished_ms = clock_wall_ms();
    s->run.main = NULL;
    if (exec_timed_out(e) && !s->restart.user_stopped) {
        s->restart.user_stopped = true; /* by init, perhaps while no supervisor ran */
        sandbox_emit(s, "timeout", NULL);
    }
    s->exit.timed_out |= exec_timed_out(e);
    if (clock_mono_ms() - s->run.began >= RESTART_HEALTHY_MS)
        s->restart.failures = 0;
    (void)snprintf(detail, sizeof(detail), "{\"exitCode\":%d}", s->exit.code);
    sandbox_emit(s, "exit", detail);
    sandbox_emit_volumes(s, "volume_unmount");
    (void)uv_timer_stop(&s->timer);
    (void)uv_timer_stop(&s->idle);
    (void)sandbox_set_state(s, EV_MAIN_EXITED);
    sandbox_save_state(s);
    sandbox_parts_tell(s, PART_MAIN_ENDED);
    sandbox_answer_exit(s);
    exec_unref(e);
    /*
     * The end of its PID 1 ends the inner pid namespace. init still has to report the exits of the
     * other execs, so it is not killed at once.
     */
    if (exec_any_alive(s) && s->init != INIT_ENDING)
        (void)uv_timer_start(&s->timer, on_stragglers, STRAGGLERS_MS, 0);
    else
        sandbox_end_init(s);
}

const struct exec_events sandbox_main_events = {
    .started = on_main_started, .failed = on_main_failed, .exited = on_main_exited};

void sandbox_exec_ended(struct sandbox *s)
{
    if (s->state == SANDBOX_STOPPING && s->run.main == NULL && s->exit.has && s->channel != NULL &&
        !exec_any_alive(s))
        sandbox_end_init(s);
}

/* ---- starting the main process ---- */

static void sandbox_main_not_started(struct sandbox *s, int r, const struct err *err)
{
    sandbox_end_init(s);
    sandbox_start_failed(s, r, err);
}

/* A sandbox without a command returns to CREATED: init runs and serves execs. */
static void sandbox_created_again(struct sandbox *s)
{
    (void)uv_timer_stop(&s->timer);
    s->error[0] = '\0';
    (void)sandbox_set_state(s, EV_NO_COMMAND);
    sandbox_save_state(s);
    sandbox_emit(s, "start", NULL);
    sandbox_touch(s);
    waiters_answer(&s->waiters.started, 0, NULL);
}

/* Sends the EXEC of the main process. The sandbox is in STARTING, and its ports are open. */
static void sandbox_exec_main(struct sandbox *s)
{
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;
    struct exec *e = NULL;
    int logs[4], r;

    if (s->spec->argv[0] == NULL) {
        sandbox_created_again(s);
        return;
    }
    o.argv = s->spec->argv;
    o.main = true;
    o.keep = true;
    o.timeout_ms = s->spec->timeout_ms;
    if (sandbox_is_attachable(s)) {
        o.tty = s->spec->tty;
        o.with_stdin = s->spec->interactive;
        o.rows = s->run.rows;
        o.cols = s->run.cols;
        r = exec_start(s, &o, &sandbox_main_events, s, &e, &err);
    } else if ((r = logs_begin_main(s, logs, &err)) == 0) {
        o.log_fds = logs;
        o.log_size = (uint32_t)(s->sup->limits.log_bytes / 2);
        r = exec_start(s, &o, &sandbox_main_events, s, &e, &err);
        for (int i = 0; i < 4; i++)
            (void)close(logs[i]);
    }
    if (r < 0) {
        sandbox_main_not_started(s, r, &err);
        return;
    }
    s->run.main = e;
}

static void on_main_ready(struct sandbox *s, int r, const struct err *err)
{
    if (s->state == SANDBOX_STARTING && s->init == INIT_RUNNING && r == 0)
        sandbox_exec_main(s);
    else if (s->state == SANDBOX_STARTING && s->init != INIT_ENDING)
        sandbox_main_not_started(s, r, err);
    else
        waiters_answer(&s->waiters.started, -ECANCELED, err); /* stopped meanwhile */
}

void sandbox_start_main(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r;

    s->run.wanted = false;
    if (s->run.main != NULL)
        return;
    (void)uv_timer_stop(&s->timer);
    (void)sandbox_set_state(s, EV_MAIN_BEGINS);
    r = sandbox_parts_walk(s, STAGE_MAIN, on_main_ready, &err);
    if (r > 0)
        sandbox_exec_main(s);
    else if (r < 0)
        sandbox_main_not_started(s, r, &err);
}
