/*
 * The start of a supervisor: every sandbox on disk is taken up. One whose init lives is asked for
 * its execs (LIST); one whose init is gone is stopped; one whose files cannot be read is broken,
 * and the others do not suffer for it. What was half made or half removed, and what the launcher
 * keeps and nobody here knows, is a leftover (leftovers.c): it is nobody's sandbox any more, and
 * its name is free.
 *
 * What is on disk says what somebody wanted; what runs is said by init and by the launcher alone.
 * No answer of an init is waited for without a deadline: one that was taken over from inside must
 * not keep the others from being served.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "core/egress.h"
#include "core/exposure.h"
#include "core/launcher-client.h"
#include "core/leftovers.h"
#include "core/publish.h"
#include "core/sandbox_internal.h"
#include "core/store.h"
#include "core/supervisor_internal.h"
#include "launch/launcher.h"
#include "launch/request.h"

enum {
    LIST_MAX = 1 << 20,
    LIST_WAIT_MS = 10000, /* for init to tell of its execs */
    RETRY_MS = 25,        /* of an adoption whose init does not listen yet, or is about to end */
    RETRIES_MAX = 400,
    COME_BACK_MS = 10000, /* for the client of a main process that ended while no supervisor ran */
};

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
    if (e == NULL || (msg->flags & IMSG_MAIN) == 0 || s->main != NULL)
        return;
    s->main = exec_ref(e);
    exec_own(e, &sandbox_main_events, s);
}

/* The main process runs; whether its start was written down before is another matter. */
static void take_up_running(struct sandbox *s)
{
    bool known =
        s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED || s->state == SANDBOX_STOPPING;

    if (!known) {
        s->has_exit = false;
        s->started_ms = clock_wall_ms();
    }
    s->state = exec_get_state(s->main) == EXEC_STARTING ? SANDBOX_STARTING
               : s->frozen                              ? SANDBOX_PAUSED
                                                        : SANDBOX_RUNNING;
}

static void take_up_state(struct sandbox *s)
{
    bool stopping = s->state == SANDBOX_STOPPING;

    if (s->main != NULL) {
        take_up_running(s);
        s->stop_again = stopping; /* somebody asked for it */
        return;
    }
    /* One that was stopped has an init for its files, or for a start that was cut off. */
    s->state = s->has_exit || s->state == SANDBOX_STOPPED ? SANDBOX_STOPPED : SANDBOX_CREATED;
    s->stop_again = stopping;
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

/* It is taken up, with whatever came of it. */
static void answered(struct sandbox *s)
{
    s->adopting = false;
    (void)uv_timer_stop(&s->timer);
    supervisor_taken_up(s->sup);
}

static void broken(struct sandbox *s, const char *why)
{
    log_warn("supervisor", "id=%s cannot be taken up: %s", s->id, why);
    (void)snprintf(s->error, sizeof(s->error), "%s", why);
    s->state = SANDBOX_BROKEN;
    answered(s);
}

static void on_not_missed(uv_timer_t *h)
{
    struct sandbox *s = h->data;

    if (s->main != NULL)
        exec_tell_owner(s->main);
}

static void on_let_go(void *data, int r, const struct err *err)
{
    struct sandbox *s = data;

    if (r < 0 && r != -ECANCELED && r != -EPIPE)
        log_warn("supervisor", "id=%s stays paused: %s, resume it", s->id,
                 err != NULL ? err->msg : strerror(-r));
    if (r == 0)
        sandbox_unheld(s);
    sandbox_unref(s);
}

/* Who read its files died, and with them the reason that it stood still. */
static void let_go(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r = 0;

    if (s->held && s->state == SANDBOX_PAUSED) {
        sandbox_ref(s);
        r = sandbox_let_go(s, on_let_go, s, &err);
        if (r < 0)
            on_let_go(s, r, &err);
        return;
    }
    sandbox_unheld(s);
}

static void list_end(struct sandbox *s)
{
    sandbox_emit(s, "adopt", NULL);
    let_go(s);
    answered(s);
    if (s->main != NULL && s->spec->console)
        console_adopt(s, s->main);
    if (s->main == NULL || exec_get_state(s->main) != EXEC_ENDED) {
        sandbox_goes_on(s);
        return;
    }
    /* It ended while nobody listened: init has kept how, and what it said last. Whoever was
     * attached has a moment to come back for that. */
    if (sandbox_is_attachable(s) && !s->stop_again)
        (void)uv_timer_start(&s->timer, on_not_missed, COME_BACK_MS, 0);
    else
        exec_tell_owner(s->main);
}

/* It goes on without what somebody else has taken meanwhile: what runs in it is worth more. */
static void on_published(struct sandbox *s, int r, const struct err *err)
{
    if (r < 0 && r != -ECANCELED) {
        log_error("sandbox", "id=%s ports are closed: %s", s->id, err->msg);
        (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
    }
    if (s->adopting)
        list_end(s);
}

/* Without it nothing leaves, and what runs goes on all the same. */
static void on_egress(struct sandbox *s, int r, const struct err *err)
{
    if (r == 0 || r == -ECANCELED)
        return;
    log_error("sandbox", "id=%s nothing leaves it: %s", s->id, err->msg);
    (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
}

static void open_egress(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r = egress_wanted(s) ? egress_open(s, EGRESS_WAIT_MS, on_egress, &err) : 0;

    if (r < 0)
        on_egress(s, r, &err);
}

static void list_done(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r = 1;

    take_up_state(s);
    process_load_all(s);
    end_unkept(s);
    open_egress(s);
    if (s->state == SANDBOX_CREATED || s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED ||
        s->state == SANDBOX_STARTING)
        r = publish_open(s, PUBLISH_WAIT_MS, on_published, &err);
    if (r < 0)
        on_published(s, r, &err);
    else if (r == 1)
        list_end(s);
}

void sandbox_on_list(struct sandbox *s, const struct imsg *msg)
{
    if (!s->adopting)
        return;
    if (msg->type == IMSG_SLOT)
        adopt_exec(s, msg);
    else
        list_done(s);
}

static void on_list_late(uv_timer_t *h)
{
    broken(h->data, "its init does not tell what runs in it; remove it with force");
}

/* ---- what the launcher says ---- */

static bool ran(const struct sandbox *s)
{
    return s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED ||
           s->state == SANDBOX_STARTING || s->state == SANDBOX_STOPPING;
}

/* A reboot or the kernel ended it: nobody saw how. */
static void killed_unseen(struct sandbox *s)
{
    if (s->has_exit)
        return;
    s->has_exit = true;
    s->exit_code = 128 + 9;
}

static void is_stopped(struct sandbox *s)
{
    if (ran(s))
        killed_unseen(s);
    sandbox_unheld(s);
    if (s->state != SANDBOX_STOPPED) {
        s->state = SANDBOX_STOPPED;
        sandbox_save_state(s);
    }
    process_load_all(s);
    s->user_stopped = !s->wanted && s->spec->restart != RESTART_ALWAYS;
    answered(s);
    sandbox_maybe_restart(s);
}

void sandbox_adoption_cut_off(struct sandbox *s)
{
    if (s->main == NULL && ran(s)) {
        killed_unseen(s);
        s->state = SANDBOX_STOPPING;
        s->user_stopped = !s->wanted && s->spec->restart != RESTART_ALWAYS;
    } else {
        take_up_state(s);
    }
    process_load_all(s);
    answered(s);
}

static int ask(struct sandbox *s, struct err *err);

static void on_retry(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    if (ask(s, &err) < 0)
        broken(s, err.msg);
}

static int listen_to_init(struct sandbox *s, int fds[2])
{
    const struct imsg list = {.magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_LIST};
    int r = sandbox_open_channel(s, fds);

    if (r == 0)
        r = channel_post(s->channel, &list, NULL, 0);
    if (r == 0)
        (void)uv_timer_start(&s->timer, on_list_late, LIST_WAIT_MS, 0);
    return r;
}

static void on_adopted(void *data, int r, const struct launch_reply *reply, int fds[2],
                       const struct err *err)
{
    struct sandbox *s = data;

    s->launching = false;
    if (r == 0) {
        s->frozen = reply->frozen != 0;
        sandbox_take_net(s, reply);
        r = listen_to_init(s, fds);
    }
    if (!s->adopting || r == -ECANCELED || r == -EPIPE)
        ; /* removed meanwhile, or the supervisor stops */
    else if (r == -ESRCH)
        is_stopped(s);
    else if (r == -EAGAIN && s->adopt_tries++ < RETRIES_MAX)
        (void)uv_timer_start(&s->timer, on_retry, RETRY_MS, 0);
    else if (r < 0)
        broken(s, err != NULL && err->msg[0] != '\0' ? err->msg : strerror(-r));
    /* else LIST_END answers */
    sandbox_unref(s);
}

static int ask(struct sandbox *s, struct err *err)
{
    int r = sandbox_send_verb(s, LAUNCH_ADOPT, on_adopted, err);

    s->launching = r == 0;
    return r;
}

/* ---- what is on disk ---- */

static struct sandbox *alloc_stored(struct supervisor *sup, const char *id, struct spec *spec,
                                    const struct stored_state *st)
{
    struct sandbox *s = sandbox_alloc(sup, id, spec);

    if (s == NULL)
        return NULL;
    s->state = st->state;
    s->creator = st->creator;
    s->created_ms = st->created_ms;
    s->started_ms = st->started_ms;
    s->finished_ms = st->finished_ms;
    s->restarts = st->restarts;
    s->oom_killed = st->oom_killed;
    s->has_exit = st->exit_code >= 0;
    s->exit_code = st->exit_code;
    s->wanted = st->wanted;
    s->held = st->held;
    return s;
}

static void take_up(void *data, const char *id)
{
    struct supervisor *sup = data;
    struct stored_state st = {
        .state = SANDBOX_BROKEN, .exit_code = -1, .creator = STORE_NO_CREATOR};
    struct spec *spec = NULL;
    struct err err = ERR_NONE;
    struct sandbox *s;
    int r;

    if (!launch_id_ok(id) || strlen(id) != SANDBOX_ID_LEN)
        return;
    r = store_load(sup->store, id, &spec, &st, &err);
    if (r == 0 && (st.state == SANDBOX_CREATING || st.state == SANDBOX_REMOVING)) {
        leftovers_add(sup, id, spec != NULL && spec->name != NULL ? spec->name : id);
        spec_free(spec);
        return;
    }
    s = alloc_stored(sup, id, r == 0 ? spec : spec_new(), &st);
    if (s == NULL) {
        spec_free(spec);
        return;
    }
    sup->adopting++;
    s->adopting = true;
    if (r == 0) {
        exposure_load(s);
        r = ask(s, &err);
    }
    if (r < 0)
        broken(s, err.msg);
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
            /* Its creation or removal was cut off between the launcher's tree and ours. */
            if (launch_id_ok(id) && sandbox_find(sup, id) == NULL)
                leftovers_add(sup, id, NULL);
    } else {
        log_warn("supervisor", "list of the launcher's sandboxes: %s",
                 err != NULL ? err->msg : "unreadable");
    }
    supervisor_taken_up(sup);
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
    return r < 0 ? r : launcher_client_send_due(sup->launcher, &b, on_list, sup, err);
}
