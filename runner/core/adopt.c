/*
 * The start of a supervisor: every sandbox on disk is taken up. One whose init lives is asked for
 * its execs (LIST); one whose init is gone is stopped; one whose files cannot be read is broken,
 * and the others do not suffer for it. What the launcher keeps and nobody here knows is released.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "core/events.h"
#include "core/launcher-client.h"
#include "core/sandbox_internal.h"
#include "core/store.h"
#include "core/supervisor_internal.h"
#include "launch/launcher.h"
#include "launch/request.h"

enum { LIST_MAX = 1 << 20 };

static void one_answered(struct supervisor *sup)
{
    if (--sup->adopting == 0 && sup->on_ready != NULL)
        sup->on_ready(sup->data);
}

/* ---- what init says ---- */

static void adopt_exec(struct sandbox *s, const struct imsg *msg)
{
    bool ended = (msg->flags & IMSG_ENDED) != 0;
    struct exec *e;

    if (exec_find(s, msg->id) != NULL)
        return;
    if (msg->id > s->last_exec_id)
        s->last_exec_id = msg->id;
    e = exec_adopt(s, msg->id, msg->flags, msg->value, ended);
    if (e == NULL || (msg->flags & IMSG_MAIN) == 0)
        return;
    s->main = exec_ref(e);
    exec_listen(e, &sandbox_main_events, s);
}

static enum sandbox_state state_with_init(const struct sandbox *s)
{
    if (s->main != NULL)
        return s->state == SANDBOX_PAUSED ? SANDBOX_PAUSED : SANDBOX_RUNNING;
    return s->has_exit ? SANDBOX_STOPPED : SANDBOX_CREATED;
}

/* The clients of these died with the supervisor that they were connected to. */
static void end_unkept(struct sandbox *s)
{
    for (struct exec *e = exec_first(s), *next; e != NULL; e = next) {
        next = exec_next(e);
        if (e != s->main && !exec_is_logged(e) && !exec_is_kept(e))
            exec_discard(e);
    }
}

static void list_done(struct sandbox *s)
{
    s->listed = true;
    s->state = state_with_init(s);
    process_load_all(s);
    end_unkept(s);
    events_emit(s->sup->events, "adopt", s->id, sandbox_name(s), NULL);
    /* It ended while nobody listened: init has kept how. */
    if (s->main != NULL && exec_get_state(s->main) == EXEC_ENDED)
        sandbox_main_events.exited(s, s->main);
    sandbox_touch(s);
    one_answered(s->sup);
}

void sandbox_on_list(struct sandbox *s, const struct imsg *msg)
{
    if (s->listed)
        return;
    if (msg->type == IMSG_SLOT)
        adopt_exec(s, msg);
    else
        list_done(s);
}

/* ---- what the launcher says ---- */

static void is_stopped(struct sandbox *s, bool wanted)
{
    bool ran =
        s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED || s->state == SANDBOX_STARTING;

    /* A reboot or the kernel ended it: nobody saw how. */
    if (ran && !s->has_exit) {
        s->has_exit = true;
        s->exit_code = 128 + 9;
    }
    s->state = SANDBOX_STOPPED;
    process_load_all(s);
    s->user_stopped = !wanted && s->spec->restart != RESTART_ALWAYS;
    sandbox_maybe_restart(s);
}

/* An adoption under way. */
struct adoption {
    struct sandbox *s;
    bool wanted;
};

static void on_adopted(void *data, int r, const struct launch_reply *reply, int fds[2],
                       const struct err *err)
{
    const struct imsg list = {.magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_LIST};
    struct adoption *a = data;
    struct sandbox *s = a->s;
    bool wanted = a->wanted;

    (void)reply;
    free(a);
    s->launching = false;
    if (r == 0)
        r = sandbox_open_channel(s, fds);
    if (r == 0)
        r = channel_post(s->channel, &list, NULL, 0);
    if (r == -ESRCH) {
        is_stopped(s, wanted);
        one_answered(s->sup);
    } else if (r < 0) {
        log_warn("supervisor", "id=%s cannot be taken up: %s", s->id,
                 err != NULL ? err->msg : strerror(-r));
        (void)snprintf(s->error, sizeof(s->error), "%s", err != NULL ? err->msg : strerror(-r));
        s->state = SANDBOX_BROKEN;
        one_answered(s->sup);
    } /* else LIST_END answers */
    sandbox_unref(s);
}

static int ask(struct sandbox *s, bool wanted, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    struct adoption *a = calloc(1, sizeof(*a));
    int r;

    if (a == NULL)
        return err_errno(err, -ENOMEM, "take up %s", s->id);
    *a = (struct adoption){.s = s, .wanted = wanted};
    launch_begin(&b, LAUNCH_ADOPT);
    launch_put_string(&b, TAG_ID, s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send(s->sup->launcher, &b, on_adopted, a, err);
    if (r < 0) {
        free(a);
        return r;
    }
    sandbox_ref(s);
    s->launching = true;
    s->sup->adopting++;
    return 0;
}

/* ---- what is to go ---- */

static void on_ignored(void *data, int r, const struct launch_reply *reply, int fds[2],
                       const struct err *err)
{
    (void)data;
    (void)r;
    (void)reply;
    (void)fds;
    (void)err;
}

static void send_ignored(struct supervisor *sup, const char *id, enum launch_verb verb)
{
    auto_buf struct buf b = BUF_INIT(0);

    launch_begin(&b, verb);
    launch_put_string(&b, TAG_ID, id);
    if (launch_end(&b) == 0)
        (void)launcher_client_send(sup->launcher, &b, on_ignored, NULL, NULL);
}

/* Ends an init that may live, so that what it holds can be released. It has to be taken up first:
 * the launcher kills what it knows. */
static void end_unknown(struct supervisor *sup, const char *id)
{
    send_ignored(sup, id, LAUNCH_ADOPT);
    send_ignored(sup, id, LAUNCH_KILL);
}

/* ---- what is on disk ---- */

static void take_up(void *data, const char *id)
{
    struct supervisor *sup = data;
    struct stored_state st = {.exit_code = -1};
    struct spec *spec = NULL;
    struct err err = ERR_NONE;
    struct sandbox *s;
    int r;

    if (!launch_id_ok(id) || strlen(id) != SANDBOX_ID_LEN)
        return;
    r = store_load(sup->store, id, &spec, &st, &err);
    if (r < 0)
        log_warn("supervisor", "id=%s is broken: %s", id, err.msg);
    s = sandbox_alloc(sup, id, spec);
    if (s == NULL)
        return;
    s->state = r < 0 ? SANDBOX_BROKEN : st.state;
    s->created_ms = st.created_ms;
    s->started_ms = st.started_ms;
    s->finished_ms = st.finished_ms;
    s->restarts = st.restarts;
    s->oom_killed = st.oom_killed;
    s->has_exit = st.exit_code >= 0;
    s->exit_code = st.exit_code;
    if (r < 0) {
        s->spec = spec_new();
        (void)snprintf(s->error, sizeof(s->error), "%s", err.msg);
    } else if (st.state == SANDBOX_CREATING || st.state == SANDBOX_REMOVING) {
        end_unknown(sup, id); /* half made, or half gone */
        (void)sandbox_remove(s, true, NULL, NULL, NULL);
    } else if (ask(s, st.wanted, &err) < 0) {
        s->state = SANDBOX_BROKEN;
        (void)snprintf(s->error, sizeof(s->error), "%s", err.msg);
    }
}

static void on_list(void *data, int r, const struct launch_reply *reply, int fds[2],
                    const struct err *err)
{
    struct supervisor *sup = data;
    auto_free char *ids = NULL;
    size_t len = 0;

    (void)reply;
    if (r == 0 && fds[0] >= 0 && lseek(fds[0], 0, SEEK_SET) == 0 &&
        file_read_fd(fds[0], LIST_MAX, &ids, &len, NULL) == 0) {
        for (const char *id = ids; id < ids + len; id += strlen(id) + 1)
            if (launch_id_ok(id) && sandbox_find(sup, id) == NULL) {
                /* Its creation or removal was cut off between the launcher's tree and ours. */
                end_unknown(sup, id);
                send_ignored(sup, id, LAUNCH_RELEASE);
            }
    } else {
        log_warn("supervisor", "list of the launcher's sandboxes: %s",
                 err != NULL ? err->msg : "unreadable");
    }
    one_answered(sup);
}

int supervisor_adopt(struct supervisor *sup, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    sup->adopting = 1; /* the list's own */
    r = store_each(sup->store, take_up, sup, err);
    if (r < 0)
        return r;
    launch_begin(&b, LAUNCH_LIST);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send(sup->launcher, &b, on_list, sup, err);
}
