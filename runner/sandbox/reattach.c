/*
 * The reattach of a new supervisor to every sandbox on disk. A live init gets a LIST request for
 * its execs. A sandbox without an init becomes stopped. A sandbox whose files cannot be read
 * becomes broken, and does not affect the others. A sandbox whose creation or removal was cut off
 * is an orphan (orphans.c). So is an id that only the launcher knows; its name is free.
 *
 * The files on disk say what clients wanted; only init and the launcher know what runs. Every reply
 * of an init has a deadline, because a compromised init must not delay the other sandboxes.
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
#include "launch/launcher.h"
#include "launch/request.h"
#include "sandbox/channel.h"
#include "sandbox/exec.h"
#include "sandbox/launcher-client.h"
#include "sandbox/orphans.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

enum {
    LIST_MAX = 1 << 20,
    LIST_WAIT_MS = 10000, /* time for init to list its execs */
    RETRY_MS = 25, /* the wait between tries while init does not listen yet, or is about to end */
    RETRIES_MAX = 400,
    LEFTOVERS_MAX = 40,   /* tries while processes without an init end; then the sandbox lingers */
    COME_BACK_MS = 10000, /* for the client of a main process that ended without supervisor */
};

/* ---- what init says ---- */

static void reattach_exec(struct sandbox *s, const struct imsg *msg)
{
    bool ended = (msg->flags & IMSG_ENDED) != 0;
    struct exec *e;

    if (exec_find(s, msg->id) != NULL)
        return;
    if (msg->id > s->execs.last_id)
        s->execs.last_id = msg->id;
    e = exec_reattach(s, msg->id, msg->flags, msg->value, ended);
    if (e == NULL || (msg->flags & IMSG_MAIN) == 0 || s->run.main != NULL)
        return;
    s->run.main = exec_ref(e);
    exec_own(e, &sandbox_main_events, s);
}

/* The main process runs. The state on disk may be older than its start. */
static void take_up_running(struct sandbox *s)
{
    bool known =
        s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED || s->state == SANDBOX_STOPPING;

    if (!known) {
        s->exit.has = false;
        s->run.started_ms = clock_wall_ms();
    }
    (void)sandbox_set_state(s, exec_get_state(s->run.main) == EXEC_STARTING ? EV_FOUND_STARTING
                               : s->adoption.frozen                         ? EV_FOUND_PAUSED
                                                                            : EV_FOUND_RUNNING);
}

static void take_up_state(struct sandbox *s)
{
    bool stopping = s->state == SANDBOX_STOPPING;

    if (s->run.main != NULL) {
        take_up_running(s);
        s->adoption.stop_again = stopping; /* a client had requested the stop */
        return;
    }
    /* The init is a helper init, or belongs to a start that was cut off. */
    (void)sandbox_set_state(s, s->exit.has || s->state == SANDBOX_STOPPED ? EV_FOUND_STOPPED
                                                                          : EV_FOUND_CREATED);
    s->adoption.stop_again = stopping;
}

/* Ends execs that are not kept: their clients' connections died with the old supervisor. */
static void end_unkept(struct sandbox *s)
{
    for (struct exec *e = exec_first(s), *next; e != NULL; e = next) {
        next = exec_next(e);
        if (e != s->run.main && !exec_is_logged(e) && !exec_is_kept(e))
            exec_discard(e);
    }
}

/* The reattach to one sandbox is complete, with or without success. */
static void adoption_answered(struct sandbox *s, enum init_phase phase)
{
    sandbox_set_init(s, phase);
    (void)uv_timer_stop(&s->timer);
    supervisor_taken_up(s->sup);
    sandbox_dependent_settled(s); /* the removal of its network's owner may wait for this */
}

static void adoption_broken(struct sandbox *s, const char *why)
{
    log_warn("supervisor", "id=%s cannot be taken up: %s", s->id, why);
    (void)snprintf(s->error, sizeof(s->error), "%s", why);
    (void)sandbox_set_state(s, EV_FOUND_BROKEN);
    adoption_answered(s, s->channel != NULL ? INIT_RUNNING : INIT_UNKNOWN);
}

static void on_not_missed(uv_timer_t *h)
{
    struct sandbox *s = h->data;

    if (s->run.main != NULL)
        exec_tell_owner(s->run.main);
}

static void on_let_go(void *data, int r, const struct err *err)
{
    struct sandbox *s = data;

    if (r < 0 && r != -ECANCELED && r != -EPIPE)
        log_warn("supervisor", "id=%s stays paused: %s, resume it", s->id,
                 err != NULL ? err->msg : strerror(-r));
    if (r == 0)
        sandbox_freeze_refs_dropped(s);
    sandbox_unref(s);
}

/* Thaws a sandbox that was frozen for readers of its files: they died with the old supervisor. */
static void adoption_end_hold(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r = 0;

    if (s->freeze_ref.phase != FREEZE_REF_NONE && s->state == SANDBOX_PAUSED) {
        sandbox_ref(s);
        r = sandbox_let_go(s, on_let_go, s, &err);
        if (r < 0)
            on_let_go(s, r, &err);
        return;
    }
    sandbox_freeze_refs_dropped(s);
}

/*
 * Restarts a stopped sandbox as its policy says, as after a boot: `always` restarts it even if a
 * client has stopped it.
 */
static void adoption_restart(struct sandbox *s)
{
    s->restart.user_stopped = !s->adoption.wanted && s->spec->restart != RESTART_ALWAYS;
    sandbox_maybe_restart(s);
}

static void adoption_list_end(struct sandbox *s)
{
    sandbox_emit(s, "adopt", NULL);
    adoption_end_hold(s);
    adoption_answered(s, INIT_RUNNING);
    if (s->run.main != NULL)
        sandbox_parts_main_runs(s, s->run.main, true);
    if (s->run.main == NULL || exec_get_state(s->run.main) != EXEC_ENDED) {
        sandbox_goes_on(s);
        if (s->state == SANDBOX_STOPPED) /* a helper init, or a restart was cut off */
            adoption_restart(s);
        return;
    }
    /*
     * The main process ended while no supervisor was connected; init has kept its status and its
     * last output. A client that was attached has a few seconds to return for them.
     */
    if (sandbox_is_attachable(s) && !s->adoption.stop_again)
        (void)uv_timer_start(&s->timer, on_not_missed, COME_BACK_MS, 0);
    else
        exec_tell_owner(s->run.main);
}

/* A part that could not open its sockets again has logged that; the sandbox runs on. */
static void on_reopened(struct sandbox *s, int r, const struct err *err)
{
    (void)r;
    (void)err;
    if (s->init == INIT_LISTING)
        adoption_list_end(s);
}

static void adoption_list_done(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r;

    take_up_state(s);
    sandbox_parts_tell(s, PART_TAKEN_UP);
    end_unkept(s);
    r = sandbox_parts_walk(s, STAGE_REOPEN, on_reopened, &err);
    if (r != 0)
        adoption_list_end(s);
}

void sandbox_on_list(struct sandbox *s, const struct imsg *msg)
{
    if (s->init != INIT_LISTING)
        return;
    if (msg->type == IMSG_SLOT)
        reattach_exec(s, msg);
    else
        adoption_list_done(s);
}

static void on_list_late(uv_timer_t *h)
{
    adoption_broken(h->data, "its init does not tell what runs in it; remove it with force");
}

/* ---- what the launcher says ---- */

static bool sandbox_ran(const struct sandbox *s)
{
    return s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED ||
           s->state == SANDBOX_STARTING || s->state == SANDBOX_STOPPING;
}

/*
 * Records SIGKILL as the exit status: a reboot or the kernel ended the run, and no status was seen.
 */
static void killed_unseen(struct sandbox *s)
{
    if (s->exit.has)
        return;
    s->exit.has = true;
    s->exit.code = 128 + 9;
}

static void adoption_found_stopped(struct sandbox *s)
{
    if (sandbox_ran(s))
        killed_unseen(s);
    sandbox_freeze_refs_dropped(s);
    if (sandbox_set_state(s, EV_FOUND_STOPPED))
        sandbox_save_state(s);
    sandbox_parts_tell(s, PART_TAKEN_UP);
    adoption_answered(s, INIT_NONE);
    adoption_restart(s);
}

/* Its init is gone, but not the last of its processes, which was killed and sleeps in the kernel.
 */
static void adoption_found_lingering(struct sandbox *s, const char *why)
{
    sandbox_freeze_refs_dropped(s);
    s->restart.user_stopped = !s->adoption.wanted && s->spec->restart != RESTART_ALWAYS;
    if (sandbox_set_state(s, EV_FOUND_ENDING))
        sandbox_save_state(s);
    sandbox_parts_tell(s, PART_TAKEN_UP);
    adoption_answered(s, INIT_UNKNOWN);
    sandbox_linger_adopted(s, why);
}

void sandbox_adoption_cut_off(struct sandbox *s)
{
    if (s->run.main == NULL && sandbox_ran(s)) {
        killed_unseen(s);
        (void)sandbox_set_state(s, EV_FOUND_ENDING);
        s->restart.user_stopped = !s->adoption.wanted && s->spec->restart != RESTART_ALWAYS;
    } else {
        take_up_state(s);
    }
    sandbox_parts_tell(s, PART_TAKEN_UP);
    adoption_answered(s, INIT_RUNNING);
}

static int adoption_ask(struct sandbox *s, struct err *err);

static void on_adoption_retry(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    if (adoption_ask(s, &err) < 0)
        adoption_broken(s, err.msg);
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

static void on_reattached(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct sandbox *s = data;

    if (r == 0) {
        s->adoption.frozen = reply->frozen != 0;
        sandbox_take_net(s, reply);
        r = listen_to_init(s, fds);
    }
    if (r == -ECANCELED || r == -EPIPE || r == -ECONNRESET) {
        ; /* the supervisor is stopping, or init has exited, which the channel reports (-ECONNRESET:
             init left unread messages) */
    } else if (r == -ESRCH) {
        adoption_found_stopped(s);
    } else if ((r == -EAGAIN && s->adoption.tries++ < RETRIES_MAX) ||
               (r == -EINPROGRESS && s->adoption.tries++ < LEFTOVERS_MAX)) {
        sandbox_set_init(s, INIT_RETRYING);
        (void)uv_timer_start(&s->timer, on_adoption_retry, RETRY_MS, 0);
    } else if (r == -EINPROGRESS) {
        adoption_found_lingering(s, err->msg);
    } else if (r < 0) {
        adoption_broken(s, err != NULL && err->msg[0] != '\0' ? err->msg : strerror(-r));
    }
    /* otherwise LIST_END completes the reattach */
    sandbox_unref(s);
}

static int adoption_ask(struct sandbox *s, struct err *err)
{
    int r = sandbox_send_verb(s, LAUNCH_REATTACH, on_reattached, err);

    if (r == 0)
        sandbox_set_init(s, INIT_ADOPTING);
    return r;
}

/* ---- what is on disk ---- */

static struct sandbox *sandbox_alloc_stored(struct supervisor *sup, const char *id,
                                            struct spec *spec, const struct stored_state *st)
{
    struct sandbox *s = sandbox_alloc(sup, id, spec);

    if (s == NULL)
        return NULL;
    s->state = st->state; /* the state on disk; EV_FOUND_* events correct it */
    s->made.by = st->creator;
    s->made.ms = st->created_ms;
    s->run.started_ms = st->started_ms;
    s->exit.finished_ms = st->finished_ms;
    s->restart.count = st->restarts;
    s->exit.oom_killed = st->oom_killed;
    s->exit.has = st->exit_code >= 0;
    s->exit.code = st->exit_code;
    s->adoption.wanted = st->wanted;
    s->freeze_ref.phase = st->held ? FREEZE_REF_KEPT : FREEZE_REF_NONE;
    return s;
}

static void sandbox_take_up(void *data, const char *id)
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
        orphans_add(sup, id, spec != NULL && spec->name != NULL ? spec->name : id);
        spec_free(spec);
        return;
    }
    s = sandbox_alloc_stored(sup, id, r == 0 ? spec : spec_new(), &st);
    if (s == NULL) {
        spec_free(spec);
        return;
    }
    sup->reattaching++;
    if (r == 0) {
        sandbox_parts_tell(s, PART_LOADED);
        r = adoption_ask(s, &err);
    }
    if (r < 0)
        adoption_broken(s, err.msg);
}

static void on_launch_list(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct supervisor *sup = data;
    auto_free char *ids = NULL;
    size_t len = 0;

    (void)reply;
    if (r == 0 && fds[0] >= 0 && lseek(fds[0], 0, SEEK_SET) == 0 &&
        file_read_fd(fds[0], LIST_MAX, &ids, &len, NULL) == 0) {
        for (const char *id = ids; id < ids + len; id += strlen(id) + 1)
            /* The crash came between the launcher's step and the supervisor's. */
            if (launch_id_ok(id) && sandbox_by_id(sup, id) == NULL)
                orphans_add(sup, id, NULL);
    } else {
        log_warn("supervisor", "list of the launcher's sandboxes: %s",
                 err != NULL ? err->msg : "unreadable");
    }
    supervisor_taken_up(sup);
}

void supervisor_taken_up(struct supervisor *sup)
{
    if (--sup->reattaching == 0)
        sup->on_taken_up(sup);
}

int supervisor_reattach(struct supervisor *sup, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    sup->reattaching = 1; /* one for the reply to LAUNCH_LIST */
    r = store_each(sup->store, sandbox_take_up, sup, err);
    if (r < 0)
        return r;
    launch_begin(&b, LAUNCH_LIST);
    r = launch_end(&b);
    return r < 0 ? r : launcher_client_send_due(sup->launcher, &b, on_launch_list, sup, err);
}
