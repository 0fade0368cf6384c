#include "exec/health.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

enum {
    READS = 16, /* of 4 KiB, at a time: the check may be faster than we are, and others wait */
};

/* Outlives its sandbox until its handles are closed. */
struct health {
    struct sandbox *s; /* borrowed; NULL: it has been freed */
    struct health_info info;
    uv_timer_t timer;
    uv_poll_t poll; /* of fd */
    unsigned handles;
    bool running, polling; /* running: begun, and not ended */
    struct exec *exec;     /* owned reference; of the check under way */
    int fd;                /* owned; what it says */
    bool exited;
    struct health_check_result now;
    size_t output_len;
    int64_t begun_ms;
};

const char *health_status_name(enum health_status status)
{
    static const char *const names[HEALTH_MAX] = {[HEALTH_NONE] = "none",
                                                  [HEALTH_STARTING] = "starting",
                                                  [HEALTH_HEALTHY] = "healthy",
                                                  [HEALTH_UNHEALTHY] = "unhealthy"};

    return names[status];
}

const struct health_info *sandbox_health(const struct sandbox *s)
{
    return s->parts.health != NULL ? &s->parts.health->info : NULL;
}

static int64_t or_else(int64_t said, int64_t otherwise)
{
    return said > 0 ? said : otherwise;
}

static bool health_in_start_period(const struct health *h)
{
    const struct health_check *c = &h->s->spec->health;

    return h->info.status == HEALTH_STARTING && c->start_period_ms != LIMIT_UNSET &&
           clock_mono_ms() - h->begun_ms < c->start_period_ms;
}

static void on_interval(uv_timer_t *t);

static void health_schedule(struct health *h)
{
    const struct health_check *c = &h->s->spec->health;
    int64_t interval = or_else(c->interval_ms, HEALTH_INTERVAL_MS);

    if (health_in_start_period(h))
        interval = or_else(c->start_interval_ms, HEALTH_START_INTERVAL_MS) < interval
                       ? or_else(c->start_interval_ms, HEALTH_START_INTERVAL_MS)
                       : interval;
    (void)uv_timer_start(&h->timer, on_interval, (uint64_t)interval, 0);
}

static void health_set_status(struct health *h, enum health_status status)
{
    char detail[64];

    if (h->info.status == status)
        return;
    h->info.status = status;
    (void)snprintf(detail, sizeof(detail), "{\"status\":\"%s\"}", health_status_name(status));
    sandbox_emit(h->s, "health", detail);
}

static void health_remember(struct health *h)
{
    struct health_info *f = &h->info;

    if (f->count == HEALTH_LOG) {
        free(f->log[0].output);
        (void)memmove(&f->log[0], &f->log[1], (HEALTH_LOG - 1) * sizeof(f->log[0]));
        f->count--;
    }
    f->log[f->count++] = h->now;
    h->now = (struct health_check_result){.output = NULL};
}

static void health_judge(struct health *h)
{
    const int64_t retries = or_else(h->s->spec->health.retries, HEALTH_RETRIES);
    const bool well = h->now.exit_code == 0;

    h->now.ended_ms = clock_wall_ms();
    health_remember(h);
    if (well) {
        h->info.failing_streak = 0;
        health_set_status(h, HEALTH_HEALTHY);
    } else if (!health_in_start_period(h)) {
        h->info.failing_streak++;
        if (h->info.failing_streak >= retries)
            health_set_status(h, HEALTH_UNHEALTHY);
    }
    health_schedule(h);
}

/* ---- one check ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    struct health *h = handle->data;

    if (h->fd >= 0)
        (void)close(take_fd(&h->fd));
    if (--h->handles == 0)
        free(h);
}

static void health_close_output(struct health *h)
{
    if (!h->polling)
        return;
    h->polling = false;
    (void)uv_poll_stop(&h->poll);
    uv_close((uv_handle_t *)&h->poll, on_poll_closed);
}

/* More than is kept, too: what a check says beyond that must not hold it up. */
static void health_read_output(struct health *h)
{
    char piece[4096];

    for (int i = 0; i < READS; i++) {
        const ssize_t n = read(h->fd, piece, sizeof(piece));

        if (n <= 0)
            return;

        size_t room = HEALTH_OUTPUT_MAX - h->output_len;
        size_t take_len = (size_t)n < room ? (size_t)n : room;

        if (h->now.output == NULL && (h->now.output = calloc(1, HEALTH_OUTPUT_MAX + 1)) == NULL)
            return;
        (void)memcpy(h->now.output + h->output_len, piece, take_len);
        h->output_len += take_len;
    }
}

static void on_output_readable(uv_poll_t *p, int status, int events)
{
    struct health *h = p->data;

    (void)events;
    if (h->polling && status == 0)
        health_read_output(h);
}

static void health_check_over(struct health *h, int exit_code)
{
    struct exec *e = take(h->exec);

    if (h->polling)
        health_read_output(h);
    health_close_output(h);
    exec_silence(e);
    exec_unref(e);
    h->now.exit_code = exit_code;
    if (h->running)
        health_judge(h);
}

static void on_check_started(void *data, struct exec *e)
{
    struct health *h = data;
    int fds[3];

    exec_take_sockets(e, fds);
    if (fds[1] < 0)
        return;
    if (h->polling || uv_poll_init(h->s->sup->loop, &h->poll, fds[1]) < 0) {
        (void)close(fds[1]);
        return;
    }
    h->fd = fds[1];
    h->poll.data = h;
    h->handles++;
    h->polling = true;
    (void)uv_poll_start(&h->poll, UV_READABLE, on_output_readable);
}

static void on_check_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct health *h = data;

    (void)e;
    (void)exit_code;
    free(h->now.output);
    h->now.output = strdup(err->msg);
    health_check_over(h, -1);
}

static void on_check_exited(void *data, struct exec *e)
{
    health_check_over(data, exec_timed_out(e) ? -1 : exec_exit_code(e));
}

static void health_run_check(struct health *h)
{
    static const struct exec_events events = {
        .started = on_check_started, .failed = on_check_failed, .exited = on_check_exited};
    const struct health_check *c = &h->s->spec->health;
    char shell[] = "/bin/sh", dash_c[] = "-c";
    char *in_shell[] = {shell, dash_c, c->test[0], NULL};
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;

    o.argv = c->shell ? in_shell : c->test;
    o.combined = true;
    o.idle = true;
    o.timeout_ms = or_else(c->timeout_ms, HEALTH_TIMEOUT_MS);
    h->now.started_ms = clock_wall_ms();
    h->output_len = 0;
    if (exec_start(h->s, &o, &events, h, &h->exec, &err) == 0)
        return;
    h->exec = NULL;
    h->now.output = strdup(err.msg);
    h->now.exit_code = -1;
    health_judge(h);
}

static void on_interval(uv_timer_t *t)
{
    struct health *h = t->data;

    if (!h->running || h->exec != NULL || h->s == NULL)
        return;
    /* The last check's handle may still be closing; a paused sandbox is not checked. */
    if (h->handles > 1 || h->s->state != SANDBOX_RUNNING || h->s->channel == NULL)
        health_schedule(h);
    else
        health_run_check(h);
}

/* ---- from the start to the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct health *h = handle->data;

    if (--h->handles == 0)
        free(h);
}

static struct health *health_new(struct sandbox *s)
{
    struct health *h = calloc(1, sizeof(*h));

    if (h == NULL || uv_timer_init(s->sup->loop, &h->timer) < 0) {
        free(h);
        return NULL;
    }
    h->timer.data = h;
    h->handles = 1;
    h->s = s;
    h->fd = FD_NONE;
    return h;
}

static void facts_forget(struct health_info *f)
{
    for (unsigned i = 0; i < f->count; i++)
        free(f->log[i].output);
    *f = (struct health_info){.status = HEALTH_NONE};
}

void health_begin(struct sandbox *s)
{
    if (s->spec == NULL || s->spec->health.none || s->spec->health.test == NULL)
        return;
    if (s->parts.health == NULL)
        s->parts.health = health_new(s);
    if (s->parts.health == NULL)
        return; /* without memory there is no check; the sandbox runs all the same */
    health_end(s);
    facts_forget(&s->parts.health->info);
    s->parts.health->running = true;
    s->parts.health->begun_ms = clock_mono_ms();
    health_set_status(s->parts.health, HEALTH_STARTING);
    health_schedule(s->parts.health);
}

void health_end(struct sandbox *s)
{
    struct health *h = s->parts.health;

    if (h == NULL || !h->running)
        return;
    h->running = false;
    (void)uv_timer_stop(&h->timer);
    if (h->exec != NULL) {
        exec_silence(h->exec);
        exec_unref(take(h->exec));
    }
    health_close_output(h);
    free(take(h->now.output));
}

void health_free(struct sandbox *s)
{
    struct health *h = s->parts.health;

    if (h == NULL)
        return;
    health_end(s);
    facts_forget(&h->info);
    s->parts.health = NULL;
    h->s = NULL;
    uv_close((uv_handle_t *)&h->timer, on_timer_closed);
}
