#include "sandbox/exec.h"

/* gcc 12 does not follow reference counts: it takes each of two exec_unref for the last one. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wanalyzer-use-after-free"
#endif

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "sandbox/channel.h"
#include "sandbox/exec-request.h"
#include "sandbox/sandbox-internal.h"

enum {
    DEFAULT_ROWS = 24,
    DEFAULT_COLS = 80,
    PONG_MS = 10000, /* time for init to answer a PING; a loaded machine is slow */
    STATUS_RIND = 125,
    STATUS_CANNOT_EXECUTE = 126,
    STATUS_NOT_FOUND = 127
};

struct exec {
    struct channel_exec channel_exec;
    struct sandbox *sandbox;   /* a reference */
    struct exec *next, **link; /* of the sandbox */
    unsigned refs;             /* held by each user, and by the process while it lives */
    enum exec_state state;
    uint32_t flags; /* enum imsg_flags of its EXEC message */
    bool keep, timed_out, lost, attaching;
    bool pinged; /* init has not answered yet */
    bool unread; /* init still has its output; the owner, which ends init, gets the event later */
    bool owner_told;   /* the owner has got the exited event */
    char command[128]; /* argv[0], for messages */
    pid_t pid;
    struct stdio_sockets sockets; /* owned, until taken */
    int status;                   /* of wait(2) */
    struct exec_events owner;     /* events of the sandbox, for its main process */
    void *owner_data;
    struct exec_events events; /* events of the attached reader */
    void *data;
    uv_timer_t timer; /* its timeout; after its end, for events from the loop */
    bool timer_open;
};

static struct exec *exec_of_channel(struct channel_exec *ce)
{
    return (struct exec *)(void *)((char *)ce - offsetof(struct exec, channel_exec));
}

/* ---- life ---- */

static void exec_free(struct exec *e)
{
    stdio_sockets_close(&e->sockets);
    sandbox_unref(e->sandbox);
    free(e);
}

static void on_timer_closed(uv_handle_t *h)
{
    exec_free(h->data);
}

static void exec_leave_list(struct exec *e)
{
    if (e->link == NULL)
        return;
    list_remove(e);
    if ((e->flags & IMSG_HELPER) == 0)
        e->sandbox->execs.count--;
    channel_remove(&e->channel_exec);
}

struct exec *exec_ref(struct exec *e)
{
    e->refs++;
    return e;
}

static bool exec_is_alive(const struct exec *e)
{
    return e->state == EXEC_STARTING || e->state == EXEC_RUNNING;
}

static struct imsg exec_message(const struct exec *e, uint16_t type, int value, uint32_t flags)
{
    return (struct imsg){.magic = IMSG_MAGIC,
                         .version = IMSG_VERSION,
                         .type = type,
                         .id = e->channel_exec.id,
                         .value = value,
                         .flags = flags};
}

static int exec_send_message(struct exec *e, const struct imsg *msg)
{
    return e->sandbox->channel == NULL ? -EPIPE : channel_post(e->sandbox->channel, msg, NULL, 0);
}

static int exec_post(struct exec *e, uint16_t type, int value, uint32_t flags)
{
    const struct imsg msg = exec_message(e, type, value, flags);

    return exec_send_message(e, &msg);
}

void exec_unref(struct exec *e)
{
    if (e == NULL)
        return;
    e->refs--;
    /* Only the process's own reference is left: no client will read the output. */
    if (e->refs == 1 && exec_is_alive(e) && !e->keep)
        (void)exec_signal(e, SIGKILL, true);
    if (e->refs > 0)
        return;
    exec_leave_list(e);
    if (e->timer_open)
        uv_close((uv_handle_t *)&e->timer, on_timer_closed);
    else
        exec_free(e);
}

void exec_listen(struct exec *e, const struct exec_events *events, void *data)
{
    e->events = *events;
    e->data = data;
}

void exec_own(struct exec *e, const struct exec_events *events, void *data)
{
    e->owner = *events;
    e->owner_data = data;
}

static int exec_open_timer(struct exec *e)
{
    int r = e->timer_open ? 0 : uv_timer_init(supervisor_loop(e->sandbox->sup), &e->timer);

    e->timer.data = e;
    e->timer_open = e->timer_open || r == 0;
    return r;
}

static void on_output_read(uv_timer_t *h)
{
    exec_tell_owner(h->data);
}

void exec_output_read(struct exec *e)
{
    if (!e->unread)
        return;
    e->unread = false;
    if (e->owner.exited != NULL && exec_open_timer(e) == 0)
        (void)uv_timer_start(&e->timer, on_output_read, 0, 0);
}

void exec_silence(struct exec *e)
{
    e->events = (struct exec_events){.started = NULL};
    e->data = NULL;
    exec_output_read(e);
}

/* ---- messages of init ---- */

static void exec_explain(const struct exec *e, const struct imsg *msg, struct err *err,
                         int *ret_code)
{
    int error = msg->error > 0 && msg->error < 4096 ? msg->error : EIO;
    const struct spec *spec = e->sandbox->spec;

    if (e->flags & IMSG_MAIN) {
        *ret_code = exec_failure(msg, e->command, spec->user, spec->cwd, err);
        return;
    }
    *ret_code = STATUS_RIND;
    if (msg->step == EXEC_STEP_EXECVE && error == ENOENT) {
        *ret_code = STATUS_NOT_FOUND;
        (void)err_set(err, -error,
                      "'%s': not found in the sandbox (the file, or the interpreter that it names)",
                      e->command);
    } else if (msg->step == EXEC_STEP_EXECVE) {
        *ret_code = STATUS_CANNOT_EXECUTE;
        (void)err_errno(err, -error, "'%s': cannot be executed", e->command);
    } else if (msg->step == EXEC_STEP_USER && error == ENOENT) {
        (void)err_set(err, -EINVAL,
                      "user: no such user or group in the sandbox's /etc/passwd and /etc/group");
    } else if (msg->step == EXEC_STEP_USER && error == ERANGE) {
        (void)err_set(err, -error, "user: a sandbox has the ids 0 to 65535");
    } else if (msg->step == EXEC_STEP_USER) {
        (void)err_errno(err, -error, "user: look it up in the sandbox");
    } else if (msg->step == EXEC_STEP_CWD) {
        (void)err_errno(err, -error, "cwd: working directory");
    } else if (msg->step == EXEC_STEP_STDIO && error == ENOSPC) {
        (void)err_set(err, -error, "%s", exec_no_terminal);
    } else if (msg->step == EXEC_STEP_FORK && error == ENOMEM) {
        /* The kernel returns the same errno for both. */
        (void)err_set(err, -error, "'%s': fork: there is no memory, or the sandbox is about to end",
                      e->command);
    } else {
        (void)err_errno(err, -error, "'%s': %s", e->command, exec_step_name(msg->step));
    }
}

static void exec_stop_timer(struct exec *e)
{
    if (e->timer_open)
        (void)uv_timer_stop(&e->timer);
}

/* Calls the listener's failed event, which is its last event. */
static void exec_tell_failed(struct exec *e, const struct err *err, int code)
{
    struct exec_events events = e->events;
    void *data = e->data;

    exec_silence(e);
    if (events.failed != NULL)
        events.failed(data, e, err, code);
}

/* As exec_tell_failed, and calls the owner's failed event first. */
static void exec_tell_all_failed(struct exec *e, const struct err *err, int code)
{
    struct exec_events owner = e->owner;

    e->owner = (struct exec_events){.started = NULL};
    if (owner.failed != NULL)
        owner.failed(e->owner_data, e, err, code);
    exec_tell_failed(e, err, code);
}

/* Ends an exec whose process was not started. */
static void exec_end_failed(struct exec *e, const struct err *err, int code)
{
    e->state = EXEC_FAILED;
    exec_stop_timer(e);
    exec_tell_all_failed(e, err, code);
    exec_unref(e);
}

static void on_failed(struct exec *e, const struct imsg *msg)
{
    struct err err = ERR_NONE;
    int code;

    if (e->state != EXEC_STARTING)
        return;
    exec_explain(e, msg, &err, &code);
    exec_end_failed(e, &err, code);
}

/*
 * Fails an attach: init knows no such exec or has dropped its streams, or init itself has exited.
 */
static void on_no_slot(struct exec *e)
{
    struct err err = ERR_NONE;

    if (!e->attaching)
        return;
    e->attaching = false;
    (void)err_set(&err, -ESTALE, "exec: the sandbox's init keeps nothing of it any more");
    exec_tell_failed(e, &err, STATUS_RIND);
    exec_tell_owner(e);
}

/*
 * Takes the sockets of ATTACHED if their number and type are right: an init that was compromised
 * from inside may send anything. Closes fds otherwise.
 */
static bool exec_take_parked(struct exec *e, int *fds, int count)
{
    const bool right = count == imsg_streams(e->flags);
    bool ok = right;
    int next = 0;

    for (int i = 0; i < count; i++)
        ok = ok && channel_socket_ok(fds[i]);
    if (!ok) {
        for (int i = 0; i < count; i++)
            (void)close(fds[i]);
        return false;
    }
    stdio_sockets_close(&e->sockets);
    for (int i = 0; i < 3; i++)
        if (i > 0 ? next < count : (e->flags & (IMSG_TTY | IMSG_STDIN)) != 0) {
            (void)fcntl(fds[next], F_SETFL, O_RDWR | O_NONBLOCK);
            e->sockets.ours[i] = fds[next++];
        }
    return true;
}

/* Emits an event for a client's exec; private execs have events of their own. */
static void exec_emit(const struct exec *e, const char *type, const char *more)
{
    char detail[128];

    if (exec_is_private(e))
        return;
    (void)snprintf(detail, sizeof(detail), "{\"execId\":\"%" PRIu64 "\"%s}", exec_id(e), more);
    sandbox_emit(e->sandbox, type, detail);
}

/*
 * Fails an attach whose sockets were wrong. count: the number received; -EMFILE: this process had
 * no room for them, and the attach can be repeated.
 */
static void on_wrong_sockets(struct exec *e, int count)
{
    struct err err = ERR_NONE;

    if (count == -EMFILE) {
        (void)err_set(&err, -EMFILE,
                      "exec: the daemon has no descriptors left (raise its limit of open files)");
    } else {
        (void)err_set(&err, -EPROTO,
                      "the sandbox's init answered with other descriptors than asked for");
        (void)exec_signal(e, SIGKILL, true);
    }
    exec_tell_failed(e, &err, STATUS_RIND);
    exec_tell_owner(e);
}

static void exec_tell_started(struct exec *e)
{
    if (e->events.started != NULL)
        e->events.started(e->data, e);
}

static void on_started(struct exec *e, const struct imsg *msg)
{
    /* If the owner's event adds a listener, that one has been told already. */
    const bool listened = e->data != NULL && !e->attaching;

    if (e->state != EXEC_STARTING)
        return;
    e->pid = msg->value;
    e->state = EXEC_RUNNING;
    exec_emit(e, "exec", "");
    if (e->owner.started != NULL)
        e->owner.started(e->owner_data, e);
    if (listened)
        exec_tell_started(e);
}

static void on_attached(struct exec *e, int *fds, int count)
{
    if (!e->attaching) {
        for (int i = 0; i < count; i++)
            (void)close(fds[i]);
        return;
    }
    e->attaching = false;
    if (!exec_take_parked(e, fds, count)) {
        on_wrong_sockets(e, count);
        return;
    }
    if (e->state == EXEC_STARTING)
        return; /* STARTED will follow */
    exec_tell_started(e);
    /* The exec ended before the attach: the listener gets that event, too. */
    if (e->state == EXEC_ENDED) {
        exec_tell_owner(e);
        if (e->events.exited != NULL)
            e->events.exited(e->data, e);
    }
}

void exec_tell_owner(struct exec *e)
{
    if (e->state != EXEC_ENDED || e->owner_told || e->owner.exited == NULL)
        return;
    if (e->unread && exec_is_attached(e))
        return; /* called again after exec_output_read */
    e->owner_told = true;
    e->owner.exited(e->owner_data, e);
}

static void on_exited(struct exec *e, int status)
{
    /*
     * The status of a kept exec stays in init until it is collected, and so does the process's own
     * reference.
     */
    bool kept = e->keep;
    char more[32];

    if (!exec_is_alive(e))
        return;
    if (e->state == EXEC_STARTING) {
        struct err err = ERR_NONE;

        /* The sandbox ended first, so it is not known whether the command would have run. */
        (void)err_set(&err, -ECANCELED, "'%s': the sandbox ended before it was started",
                      e->command);
        exec_end_failed(e, &err, STATUS_RIND);
        return;
    }
    e->status = status;
    e->state = EXEC_ENDED;
    exec_stop_timer(e);
    (void)snprintf(more, sizeof(more), ",\"exitCode\":%d", exec_exit_code(e));
    exec_emit(e, "exec_exit", more);
    /*
     * During an attach these events wait for the sockets, because started must come first. The
     * owner ends init, so it waits, too.
     */
    if (!e->attaching)
        exec_tell_owner(e);
    if (e->events.exited != NULL && !e->attaching)
        e->events.exited(e->data, e);
    sandbox_exec_ended(e->sandbox);
    if (kept)
        return;
    if ((e->flags & (IMSG_PARK | IMSG_LOGGED)) != 0)
        (void)exec_post(e, IMSG_COLLECT, 0, 0); /* discarded meanwhile, so init may forget it */
    exec_unref(e);
}

static void on_exited_message(struct exec *e, const struct imsg *msg)
{
    if ((msg->flags & IMSG_TIMED_OUT) != 0)
        e->timed_out = true;
    e->unread = (msg->flags & IMSG_MORE) != 0;
    on_exited(e, msg->value);
}

static void on_message(struct channel_exec *ce, const struct imsg *msg, int *fds, int count)
{
    struct exec *e = exec_ref(exec_of_channel(ce));

    if (msg->type == IMSG_ATTACHED) {
        on_attached(e, fds, count);
        count = 0;
    } else if (msg->type == IMSG_STARTED) {
        on_started(e, msg);
    } else if (msg->type == IMSG_EXEC_FAILED) {
        on_failed(e, msg);
    } else if (msg->type == IMSG_EXITED) {
        on_exited_message(e, msg);
    } else if (msg->type == IMSG_NO_SLOT) {
        on_no_slot(e);
    } else if (msg->type == IMSG_PONG) {
        e->pinged = false;
        exec_stop_timer(e);
    }
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    exec_unref(e);
}

/* Every round removes the first exec from the list. */
void exec_all_lost(struct sandbox *s)
{
    while (s->execs.first != NULL) {
        struct exec *e = exec_ref(s->execs.first);
        bool own = e->keep && e->state == EXEC_ENDED;

        exec_leave_list(e);
        e->unread = false; /* its unread output is lost with init */
        e->keep = false;   /* init keeps nothing of it any more */
        e->lost = exec_is_alive(e);
        if (own)
            e->refs--; /* the reference that on_exited kept for the status */
        on_no_slot(e);
        exec_tell_owner(e);
        on_exited(e, SIGKILL);
        exec_unref(e);
    }
}

/*
 * Called when the supervisor stops: processes run on, and their execs are freed without an event.
 */
void exec_forget_all(struct sandbox *s)
{
    while (s->execs.first != NULL) {
        struct exec *e = exec_ref(s->execs.first);
        bool own = exec_is_alive(e) || e->keep;

        exec_silence(e);
        e->owner = (struct exec_events){.started = NULL};
        exec_leave_list(e);
        exec_stop_timer(e);
        e->state = EXEC_FAILED;
        e->keep = false;
        if (own)
            e->refs--;
        exec_unref(e);
    }
}

/* ---- starting ---- */

/*
 * Ends the sandbox, because init does not answer. init sleeps with the lock of a pipe
 * (init/relay.h), or in a file system that does not answer. No signal from inside ends that sleep,
 * and without init only the whole sandbox can be ended.
 */
static void on_no_pong(uv_timer_t *h)
{
    struct exec *e = h->data;

    if (!e->pinged)
        return;
    log_warn("sandbox",
             "id=%s is ended: '%s' had its time, and its init has not answered for %d ms",
             e->sandbox->id, e->command, PONG_MS);
    sandbox_end_init(e->sandbox);
}

/* Called when init is late: init itself kills an exec at its timeout and reports that. */
static void on_timeout(uv_timer_t *h)
{
    struct exec *e = h->data;

    e->timed_out = true;
    (void)exec_signal(e, SIGKILL, true);
    e->pinged = exec_post(e, IMSG_PING, 0, 0) == 0;
    (void)uv_timer_start(&e->timer, on_no_pong, PONG_MS, 0);
}

static int exec_arm_timeout(struct exec *e, int64_t ms)
{
    int r;

    if (ms == LIMIT_UNSET)
        return 0;
    r = exec_open_timer(e);
    return r < 0 ? r
                 : uv_timer_start(&e->timer, on_timeout, (uint64_t)ms + EXEC_TIMEOUT_SPARE_MS, 0);
}

static uint32_t exec_flags(const struct exec_options *o)
{
    uint32_t flags = 0;

    if (o->main)
        flags |= IMSG_MAIN | IMSG_MAKE_CWD;
    if (o->tty)
        flags |= IMSG_TTY;
    if (o->with_stdin && !o->tty)
        flags |= IMSG_STDIN;
    if (o->combined && !o->tty)
        flags |= IMSG_COMBINED;
    if (o->keep && o->log_fds == NULL)
        flags |= IMSG_PARK;
    if (o->log_fds != NULL)
        flags |= IMSG_LOGGED;
    if (o->program_fd >= 0)
        flags |= IMSG_PROGRAM;
    if (o->helper)
        flags |= IMSG_HELPER;
    if (o->timeout_ms != LIMIT_UNSET)
        flags |= IMSG_TIMEOUT;
    if (o->idle)
        flags |= IMSG_IDLE;
    return flags;
}

static int exec_send_start(struct exec *e, const struct exec_options *o, struct err *err)
{
    const struct spec *spec = e->sandbox->spec;
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = IMSG_EXEC,
                       .id = e->channel_exec.id,
                       .flags = e->flags,
                       .rows = o->rows != 0 ? o->rows : DEFAULT_ROWS,
                       .cols = o->cols != 0 ? o->cols : DEFAULT_COLS,
                       .log_size = o->log_size};
    struct exec_spec request = {.argv = o->argv,
                                .user = o->user != NULL      ? o->user
                                        : spec->user != NULL ? spec->user
                                                             : "",
                                .cwd = o->cwd != NULL      ? o->cwd
                                       : spec->cwd != NULL ? spec->cwd
                                                           : "/",
                                /* A helper runs with the user's own groups only. */
                                .groups = o->helper ? NULL : spec->groups};
    char **env = sandbox_env(e->sandbox, o->envp, o->tty);
    int fds[IMSG_FDS_MAX], count = 1, r;

    if (o->timeout_ms != LIMIT_UNSET)
        imsg_set_time(&msg, o->timeout_ms);
    if (env == NULL)
        return err_errno(err, -ENOMEM, "environment");
    request.envp = env;
    fds[0] = exec_request(&request, err);
    for (char **p = env; *p != NULL; p++)
        free(*p);
    free(env);
    if (fds[0] < 0)
        return fds[0];
    if (o->program_fd >= 0)
        fds[count++] = o->program_fd;
    for (int i = 0; o->log_fds != NULL && i < 4; i++)
        fds[count++] = o->log_fds[i];
    count = stdio_sockets_add(&e->sockets, e->flags, fds, count);
    r = channel_post(e->sandbox->channel, &msg, fds, count);
    (void)close(fds[0]);
    for (int i = 0; i < 3; i++)
        if (e->sockets.inits[i] >= 0)
            (void)close(take_fd(&e->sockets.inits[i]));
    return r < 0 ? err_errno(err, r, "'%s': ask the sandbox's init", e->command) : 0;
}

static struct exec *exec_new(struct sandbox *s, uint64_t id)
{
    struct exec *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    *e = (struct exec){.channel_exec = {.id = id, .on_message = on_message},
                       .sandbox = s,
                       .refs = 1,
                       .sockets = STDIO_SOCKETS_NONE};
    sandbox_ref(s);
    return e;
}

static void exec_join_list(struct exec *e)
{
    list_add(&e->sandbox->execs.first, e);
    if ((e->flags & IMSG_HELPER) == 0)
        e->sandbox->execs.count++;
    channel_add(e->sandbox->channel, &e->channel_exec);
}

/* Collects the oldest kept exec that has ended and has no reader. */
static void exec_make_room(struct sandbox *s)
{
    struct exec *oldest = NULL;

    for (struct exec *e = s->execs.first; e != NULL; e = e->next)
        if (e->state == EXEC_ENDED && exec_is_kept(e) && !exec_is_attached(e))
            oldest = e; /* the list begins with the newest */
    if (oldest != NULL)
        exec_collect(oldest);
}

int exec_start(struct sandbox *s, const struct exec_options *o, const struct exec_events *events,
               void *data, struct exec **ret, struct err *err)
{
    struct exec *e;
    int r;

    if (s->channel == NULL && s->end.lingers)
        return sandbox_linger_refuse(s, -EBUSY, err);
    if (s->channel == NULL)
        return err_set(err, -EBUSY, "sandbox %s does not run", sandbox_name(s));
    if (!o->helper && !o->main && s->execs.count >= supervisor_limits(s->sup)->execs)
        exec_make_room(s);
    if (!o->helper && !o->main && s->execs.count >= supervisor_limits(s->sup)->execs)
        return err_set(err, -EAGAIN, "limit maxExecs: %u processes run in sandbox %s already",
                       s->execs.count, sandbox_name(s));
    e = exec_new(s, sandbox_next_exec_id(s));
    if (e == NULL)
        return err_errno(err, -ENOMEM, "exec");
    e->state = EXEC_STARTING;
    e->flags = exec_flags(o);
    e->keep = o->keep;
    if (o->main) {
        exec_own(e, events, data);
    } else {
        e->events = *events;
        e->data = data;
    }
    (void)snprintf(e->command, sizeof(e->command), "%s", o->argv[0]);
    r = stdio_sockets_make(e->flags, &e->sockets);
    if (r == 0)
        r = exec_arm_timeout(e, o->timeout_ms);
    if (r < 0)
        (void)err_errno(err, r, "exec");
    if (r == 0)
        r = exec_send_start(e, o, err);
    if (r < 0) {
        e->state = EXEC_FAILED;
        exec_unref(e);
        return r;
    }
    exec_join_list(e);
    *ret = exec_ref(e);
    return 0;
}

struct exec *exec_reattach(struct sandbox *s, uint64_t id, uint32_t flags, int value, bool ended)
{
    bool keep = (flags & (IMSG_PARK | IMSG_LOGGED | IMSG_MAIN)) != 0;
    struct exec *e = ended && !keep ? NULL : exec_new(s, id);

    if (e == NULL)
        return NULL;
    e->flags = flags & ~(uint32_t)(IMSG_ENDED | IMSG_TIMED_OUT | IMSG_UNSURE);
    e->keep = keep;
    e->timed_out = (flags & IMSG_TIMED_OUT) != 0;
    e->state = ended ? EXEC_ENDED : (flags & IMSG_UNSURE) != 0 ? EXEC_STARTING : EXEC_RUNNING;
    if (ended)
        e->status = value;
    else
        e->pid = value;
    exec_join_list(e);
    return e;
}

int exec_attach(struct exec *e, const struct exec_events *events, void *data, struct err *err)
{
    int r;

    if (e->data != NULL || e->attaching)
        return err_set(err, -EBUSY, "exec: another client is attached already");
    if ((e->flags & IMSG_PARK) == 0)
        return err_set(err, -EINVAL, "exec: its output is not kept for attaching");
    r = exec_post(e, IMSG_ATTACH, 0, 0);
    if (r < 0)
        return err_errno(err, r, "exec: ask the sandbox's init");
    e->attaching = true;
    e->events = *events;
    e->data = data;
    return 0;
}

void exec_collect(struct exec *e)
{
    if (!e->keep || e->state != EXEC_ENDED)
        return;
    (void)exec_post(e, IMSG_COLLECT, 0, 0); /* if init has exited, nothing is kept */
    e->keep = false;
    exec_unref(e);
}

bool exec_is_logged(const struct exec *e)
{
    return (e->flags & (IMSG_LOGGED | IMSG_MAIN)) == IMSG_LOGGED;
}

/* A running exec keeps only the process's own reference, and is freed when the process ends. */
void exec_discard(struct exec *e)
{
    if (!exec_is_alive(e)) {
        exec_collect(e);
        return;
    }
    e->keep = false;
    (void)exec_signal(e, SIGKILL, true);
}

void exec_kill_left(struct exec *e)
{
    if (e->keep && e->state == EXEC_ENDED)
        (void)exec_post(e, IMSG_SIGNAL, SIGKILL, IMSG_WHOLE_EXEC);
}

/* ---- accessors ---- */

uint64_t exec_id(const struct exec *e)
{
    return e->channel_exec.id;
}

pid_t exec_pid(const struct exec *e)
{
    return e->pid;
}

enum exec_state exec_get_state(const struct exec *e)
{
    return e->state;
}

bool exec_is_tty(const struct exec *e)
{
    return (e->flags & IMSG_TTY) != 0;
}

bool exec_any_alive(const struct sandbox *s)
{
    for (const struct exec *e = s->execs.first; e != NULL; e = e->next)
        if (exec_is_alive(e))
            return true;
    return false;
}

bool exec_any_counts(const struct sandbox *s)
{
    for (const struct exec *e = s->execs.first; e != NULL; e = e->next)
        if (exec_is_alive(e) && (e->flags & (IMSG_MAIN | IMSG_HELPER | IMSG_IDLE)) == 0)
            return true;
    return false;
}

bool exec_timed_out(const struct exec *e)
{
    return e->timed_out;
}

bool exec_lost(const struct exec *e)
{
    return e->lost;
}

bool exec_is_kept(const struct exec *e)
{
    return e->keep && (e->flags & (IMSG_MAIN | IMSG_LOGGED)) == 0;
}

bool exec_is_attached(const struct exec *e)
{
    return e->data != NULL;
}

bool exec_is_private(const struct exec *e)
{
    return (e->flags & (IMSG_MAIN | IMSG_LOGGED | IMSG_HELPER)) != 0;
}

const char *exec_command(const struct exec *e)
{
    return e->command;
}

struct sandbox *exec_sandbox(const struct exec *e)
{
    return e->sandbox;
}

struct exec *exec_first(struct sandbox *s)
{
    return s->execs.first;
}

struct exec *exec_next(const struct exec *e)
{
    return e->next;
}

int exec_resize(struct exec *e, uint16_t rows, uint16_t cols)
{
    struct imsg msg = exec_message(e, IMSG_RESIZE, 0, 0);

    if (!exec_is_tty(e))
        return -ENOTTY;
    if (e->state == EXEC_STARTING)
        return -EBUSY;
    msg.rows = rows;
    msg.cols = cols;
    return exec_is_alive(e) ? exec_send_message(e, &msg) : 0;
}

int exec_term_signal(const struct exec *e)
{
    return WIFSIGNALED(e->status) ? WTERMSIG(e->status) : 0;
}

int exec_exit_code(const struct exec *e)
{
    return WIFEXITED(e->status) ? WEXITSTATUS(e->status) : 128 + exec_term_signal(e);
}

void exec_take_sockets(struct exec *e, int fds[3])
{
    for (int i = 0; i < 3; i++)
        fds[i] = take_fd(&e->sockets.ours[i]);
}

int exec_signal(struct exec *e, int signo, bool whole_leaf)
{
    if (!exec_is_alive(e))
        return -ESRCH;
    return exec_post(e, IMSG_SIGNAL, signo, whole_leaf ? IMSG_WHOLE_EXEC : 0);
}

int exec_signal_group(struct exec *e, int signo)
{
    if (!exec_is_alive(e))
        return -ESRCH;
    return exec_post(e, IMSG_SIGNAL, signo, signo == SIGKILL ? IMSG_WHOLE_EXEC : IMSG_GROUP);
}

struct exec *exec_find(struct sandbox *s, uint64_t id)
{
    struct exec *e = s->execs.first;

    while (e != NULL && e->channel_exec.id != id)
        e = e->next;
    return e;
}
