/*
 * The state machine of a sandbox. `state` is changed by set_state alone, after the table has
 * allowed it. Requests to the launcher and orders to init are asynchronous; what waits for them
 * stands in lists of waiters that are answered when the state they wait for is reached or can no
 * longer be.
 */
#include "core/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "core/door.h"
#include "core/egress.h"
#include "core/events.h"
#include "core/exposure.h"
#include "core/health.h"
#include "core/launcher-client.h"
#include "core/net-socket.h"
#include "core/publish.h"
#include "core/sandbox-request.h"
#include "core/sandbox_internal.h"
#include "core/store.h"
#include "core/supervisor_internal.h"
#include "core/trust.h"
#include "core/volume-use.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "launch/request.h"

enum {
    HELPER_IDLE_MS =
        5000, /* a stopped sandbox's init that was started for file operations ends after this */
    RESTART_HEALTHY_MS = 10000, /* a run of this length ends the back-off */
    KILL_AFTER_MS = 5000,       /* SIGKILL was sent and the main process is still there */
    DEATH_LIMIT_MS = 10000,     /* init was killed; then it is said, and not waited for any more */
    ID_PREFIX_MIN = 4,
    END_AGAIN_MS = 50, /* until the launcher is asked again to end it, */
    END_TRIES = 200,   /* and how often where init's death is not seen: ten seconds */
    STRAGGLERS_MS =
        1000, /* processes that did not end with the main one in this time are ended with init */
};

static const char *const state_names[SANDBOX_STATE_MAX] = {
    [SANDBOX_CREATING] = "creating", [SANDBOX_CREATED] = "created",
    [SANDBOX_STARTING] = "starting", [SANDBOX_RUNNING] = "running",
    [SANDBOX_PAUSED] = "paused",     [SANDBOX_STOPPING] = "stopping",
    [SANDBOX_STOPPED] = "stopped",   [SANDBOX_REMOVING] = "removing",
    [SANDBOX_BROKEN] = "broken",
};

/* What clients may ask in which state; an empty cell is refused. */

#define BIT(state) (1U << SANDBOX_##state)
static const unsigned allowed[REQ_MAX] = {
    [REQ_START] = BIT(CREATED) | BIT(STOPPED) | BIT(CREATING),
    [REQ_STOP] =
        BIT(CREATED) | BIT(STARTING) | BIT(RUNNING) | BIT(PAUSED) | BIT(STOPPING) | BIT(STOPPED),
    [REQ_PAUSE] = BIT(RUNNING),
    [REQ_RESUME] = BIT(PAUSED),
    [REQ_SIGNAL] = BIT(RUNNING) | BIT(PAUSED) | BIT(STOPPING),
    [REQ_INIT] =
        BIT(CREATING) | BIT(CREATED) | BIT(STARTING) | BIT(RUNNING) | BIT(PAUSED) | BIT(STOPPED),
    [REQ_REMOVE] = BIT(CREATED) | BIT(STOPPED) | BIT(BROKEN),
    [REQ_REMOVE_FORCE] = BIT(CREATING) | BIT(CREATED) | BIT(STARTING) | BIT(RUNNING) | BIT(PAUSED) |
                         BIT(STOPPING) | BIT(STOPPED) | BIT(BROKEN),
    [REQ_UPDATE] = BIT(CREATING) | BIT(CREATED) | BIT(STARTING) | BIT(RUNNING) | BIT(PAUSED) |
                   BIT(STOPPING) | BIT(STOPPED),
};

static void on_main_exited(void *data, struct exec *e);

/* ---- small things ---- */

const char *sandbox_state_name(enum sandbox_state state)
{
    return state > SANDBOX_INVALID && state < SANDBOX_STATE_MAX ? state_names[state] : "invalid";
}

int sandbox_check(const struct sandbox *s, enum sandbox_request req, struct err *err)
{
    /* One whose end waits for its client to come back is not waited for by others. */
    if (s->main != NULL && req != REQ_INIT)
        exec_tell_owner(s->main);
    if (s->gone)
        return err_set(err, -ENOENT, "sandbox %s has been removed", sandbox_name(s));
    if (allowed[req] & (1U << s->state))
        return 0;
    return err_set(err, -EBUSY, "sandbox %s is %s%s", sandbox_name(s), sandbox_state_name(s->state),
                   s->state == SANDBOX_CREATED ? ", and has not been started" : "");
}

void sandbox_set_state(struct sandbox *s, enum sandbox_state state)
{
    log_info("sandbox", "id=%s %s -> %s", s->id, sandbox_state_name(s->state),
             sandbox_state_name(state));
    s->state = state;
}

void sandbox_emit(struct sandbox *s, const char *type, const char *detail)
{
    events_emit(s->sup->events, type, s->id, sandbox_name(s), s->creator, detail);
}

void sandbox_ref(struct sandbox *s)
{
    s->refs++;
}

static void sandbox_free(struct sandbox *s)
{
    process_free_all(s);
    exposure_free_all(s);
    publish_free(s);
    door_free(s);
    net_sockets_free(s);
    console_free(s);
    spec_free(s->spec);
    free(s);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct sandbox *s = h->data;

    if (--s->handles == 0)
        sandbox_free(s);
}

void sandbox_unref(struct sandbox *s)
{
    if (--s->refs > 0)
        return;
    if (!s->timers_open) {
        sandbox_free(s);
        return;
    }
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    uv_close((uv_handle_t *)&s->idle, on_timer_closed);
    uv_close((uv_handle_t *)&s->again, on_timer_closed);
}

/* Whether it is to run again after a reboot, if its restart policy says so. */
static bool is_wanted(const struct sandbox *s)
{
    return !s->user_stopped && s->state != SANDBOX_CREATING && s->state != SANDBOX_CREATED &&
           s->state != SANDBOX_REMOVING;
}

static int save_state(struct sandbox *s, struct err *err)
{
    struct stored_state state = {.state = s->state,
                                 .created_ms = s->created_ms,
                                 .started_ms = s->started_ms,
                                 .finished_ms = s->finished_ms,
                                 .exit_code = s->has_exit ? s->exit_code : -1,
                                 .oom_killed = s->oom_killed,
                                 .restarts = s->restarts,
                                 .creator = s->creator,
                                 .wanted = is_wanted(s),
                                 .held = s->held};

    return s->gone ? 0 : store_save_state(s->sup->store, s->id, &state, err);
}

void sandbox_save_state(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (save_state(s, &err) < 0)
        log_warn("sandbox", "id=%s save state: %s, going on", s->id, err.msg);
}

/* ---- launcher requests ---- */

int sandbox_send_verb(struct sandbox *s, enum launch_verb verb, launch_cb cb, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, verb);
    launch_put_string(&b, TAG_ID, s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send_due(s->sup->launcher, &b, cb, s, err);
    if (r == 0)
        sandbox_ref(s);
    return r;
}

/* ---- init ---- */

static void on_helper_idle(uv_timer_t *h)
{
    struct sandbox *s = h->data;

    if (s->state == SANDBOX_STOPPED && s->channel != NULL && s->execs == NULL && s->on_init == NULL)
        sandbox_end_init(s);
    else if (s->state == SANDBOX_STOPPED && s->channel != NULL)
        (void)uv_timer_start(&s->timer, on_helper_idle, HELPER_IDLE_MS, 0);
}

void sandbox_answer_failed(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (s->start_failure == 0)
        return;
    (void)err_set(&err, s->start_failure, "%s", s->error);
    s->start_failure = 0;
    waiters_answer(&s->on_started, err.code, &err);
}

/* Of those who wait for a run, when none comes any more. */
static void answer_not_run(struct sandbox *s)
{
    struct err err = ERR_NONE;

    sandbox_answer_failed(s);
    (void)err_set(&err, -ECANCELED, "sandbox %s was stopped before it was started",
                  sandbox_name(s));
    waiters_answer(&s->on_started, err.code, &err);
    if (s->has_exit) { /* of an earlier run, as who asks now is told */
        waiters_answer(&s->on_run_over, s->exit_code, NULL);
        return;
    }
    (void)err_set(&err, -EBUSY, "sandbox %s was stopped and has not run", sandbox_name(s));
    waiters_answer(&s->on_run_over, err.code, &err);
    waiters_answer(&s->on_exit, err.code, &err);
}

/*
 * Before there was a main process. As on_main_failed, whoever waits for the start is answered when
 * all of it is over: nothing of what it had is in the way of what they ask next, as the numbers of
 * its ports, of which the launcher may still hold a descriptor here.
 *
 * A restart is tried again: what it needs may be there then (room, a descriptor, the sandbox whose
 * network it shares). A start that somebody has asked for has failed.
 */
void sandbox_start_failed(struct sandbox *s, int r, const struct err *err)
{
    const bool again = s->restart_due, never = s->state == SANDBOX_CREATING;

    (void)snprintf(s->error, sizeof(s->error), "%s", err != NULL ? err->msg : "");
    s->want_running = false;
    s->restart_due = again && s->ending; /* stopped() goes on with it */
    s->start_failure = r;
    s->start_refused = s->ending;
    publish_close(s);
    /* One that never came to be is removed by whoever created it, or by the next supervisor, which
     * finds it half made. */
    if (s->state == SANDBOX_CREATING || (s->state == SANDBOX_STARTING && !s->ending))
        sandbox_set_state(s, SANDBOX_STOPPED);
    else if (s->state == SANDBOX_STARTING)
        sandbox_set_state(s, SANDBOX_STOPPING);
    if (!never)
        sandbox_save_state(s);
    waiters_answer(&s->on_init, r, err);
    if (!s->ending)
        sandbox_answer_failed(s);
    console_no_run(s);
    sandbox_dependent_settled(s);
    if (again)
        log_warn("sandbox", "id=%s restart: %s", s->id, s->error);
    if (again && !s->ending && s->state == SANDBOX_STOPPED)
        sandbox_maybe_restart(s);
}

static void stopped(struct sandbox *s)
{
    bool restart = false;

    if (s->state == SANDBOX_STOPPING || s->state == SANDBOX_STARTING) {
        sandbox_set_state(s, SANDBOX_STOPPED);
        sandbox_save_state(s);
        sandbox_emit(s, "stop", NULL);
        restart = !s->start_refused;
    }
    if (s->restart_due && uv_is_active((uv_handle_t *)&s->again) == 0)
        restart = true; /* one that has failed, and is over now */
    s->start_refused = false;
    if (s->state == SANDBOX_REMOVING) {
        sandbox_begin_removal(s);
        return;
    }
    if (s->state == SANDBOX_STOPPED && !s->want_running)
        answer_not_run(s);
    if (s->state == SANDBOX_STOPPED && !s->want_running)
        console_no_run(s);
    sandbox_dependent_settled(s);
    waiters_answer(&s->on_stopped, 0, NULL);
    if (s->gone || s->state != SANDBOX_STOPPED)
        return;
    if (s->want_running || s->on_init != NULL) {
        struct err err = ERR_NONE;

        if (sandbox_launch(s, &err) < 0)
            sandbox_start_failed(s, err.code, &err);
    } else if (restart) {
        sandbox_maybe_restart(s);
    }
}

/* Its files are synced, and it can be started again. */
static void on_settled(void *data, bool late)
{
    struct sandbox *s = data;

    (void)late;
    s->death = NULL;
    s->ending = false;
    stopped(s);
    sandbox_unref(s);
}

static void after_death(struct sandbox *s, bool dead);

/* It ends, come what may: what could not be asked or answered now (no descriptor, a full queue) is
 * asked again. Not of a launcher that is gone: the next supervisor finds it. */
static void end_again(struct sandbox *s, uv_timer_cb again, int r)
{
    s->ending = r != -EPIPE && !s->sup->stopping;
    if (s->ending)
        (void)uv_timer_start(&s->timer, again, END_AGAIN_MS, 0);
}

static void on_stop_again(uv_timer_t *h)
{
    after_death(h->data, false);
}

static void on_stop_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct sandbox *s = data;
    struct err own = ERR_NONE;

    if (r == -EBUSY && s->end_tries > 0) { /* it was killed, and nobody here sees it die */
        s->end_tries--;
        end_again(s, on_stop_again, r);
        sandbox_unref(s);
        return;
    }
    if (r < 0 && r != -ECANCELED && r != -ENOENT)
        log_warn("sandbox", "id=%s stop: %s", s->id, err->msg);
    if (reply != NULL && reply->oom_kills > 0) {
        s->oom_killed = true;
        sandbox_emit(s, "oom", NULL);
    }
    if (r == 0 && fds[0] >= 0 &&
        death_watch(s->sup->loop, fds[0], 0, on_settled, s, &s->death) == 0)
        return; /* the reference is the watch's */
    s->ending = false;
    s->remains = r == -EBUSY;
    if (s->remains && (s->want_running || s->on_init != NULL))
        sandbox_start_failed(
            s,
            err_set(&own, -EBUSY, "sandbox %s: its last processes do not go away", sandbox_name(s)),
            &own);
    if (r != -ECANCELED && r != -EPIPE)
        stopped(s);
    sandbox_unref(s);
}

static void after_death(struct sandbox *s, bool dead)
{
    struct err err = ERR_NONE;

    if (s->state == SANDBOX_REMOVING && dead) {
        /* Its files and ids need not be kept for a start that never comes. */
        s->ending = false;
        sandbox_begin_removal(s);
    } else {
        int r = sandbox_send_verb(s, LAUNCH_STOP, on_stop_reply, &err);

        if (r < 0)
            end_again(s, on_stop_again, r);
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
    sandbox_unref(s); /* what follows, follows the death */
}

static void on_dead(void *data, bool late)
{
    struct sandbox *s = data;

    s->death = NULL;
    if (late)
        log_warn("sandbox", "id=%s: its processes do not go away", s->id);
    after_death(s, !late);
    sandbox_unref(s);
}

/* The launcher has the pidfd that we never got, or could not watch. */
static void on_kill_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                          const struct err *err)
{
    struct sandbox *s = data;

    (void)reply;
    if (r == 0)
        r = death_watch(s->sup->loop, fds[0], DEATH_LIMIT_MS, on_dead, s, &s->death);
    if (r == 0)
        return; /* the reference is the watch's */
    if (r != -ENOENT && r != -ECANCELED)
        log_warn("sandbox", "id=%s kill: %s", s->id,
                 err != NULL && err->code < 0 ? err->msg : strerror(-r));
    s->end_tries = END_TRIES;
    after_death(s, false);
    sandbox_unref(s);
}

int sandbox_send_kill(struct sandbox *s, struct err *err)
{
    return sandbox_send_verb(s, LAUNCH_KILL, on_kill_reply, err);
}

/* We wait for the death, not the launcher: nothing else could be started or ended meanwhile. */
static int send_end(struct sandbox *s, int pidfd, struct err *err)
{
    int r;

    if (pidfd < 0 || death_watch(s->sup->loop, pidfd, DEATH_LIMIT_MS, on_dead, s, &s->death) < 0)
        return sandbox_send_kill(s, err);
    r = sandbox_send_verb(s, LAUNCH_END, on_end_reply, err);
    if (r < 0)
        death_close(take(s->death));
    else
        sandbox_ref(s); /* the watch's */
    return r;
}

static void on_kill_again(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    int r = sandbox_send_kill(s, NULL);

    if (r < 0)
        end_again(s, on_kill_again, r);
}

/* Ends init and with it all that is left; on_stop_reply follows, or the removal. */
void sandbox_end_init(struct sandbox *s)
{
    struct err err = ERR_NONE;
    struct channel *c;
    int r;

    if (s->ending)
        return;
    s->ending = true; /* first: the ends of execs below come back here */
    s->end_tries = 0;
    (void)uv_timer_stop(&s->timer);
    health_end(s);
    publish_close(s);
    door_close(s);
    net_sockets_close(s);
    egress_close(s);
    if (s->channel != NULL)
        exec_all_lost(s);
    c = take(s->channel);
    r = send_end(s, c != NULL ? channel_pidfd(c) : FD_NONE, &err);
    if (r < 0) {
        log_error("sandbox", "id=%s end: %s", s->id, err.msg);
        end_again(s, on_kill_again, r);
    }
    channel_close(c);
}

static void on_init_gone(void *data)
{
    struct sandbox *s = data;

    sandbox_ref(s);
    if (s->adopting)
        sandbox_adoption_cut_off(s);
    if (s->state == SANDBOX_CREATED || s->state == SANDBOX_CREATING)
        sandbox_set_state(s, SANDBOX_STOPPING);
    sandbox_end_init(s); /* the main process's end comes by exec_all_lost */
    sandbox_unref(s);
}

static void on_init_other(void *data, const struct imsg *msg)
{
    struct sandbox *s = data;

    if (msg->type == IMSG_SLOT || msg->type == IMSG_LIST_END)
        sandbox_on_list(s, msg);
}

static const struct channel_ops channel_ops = {.on_other = on_init_other, .on_gone = on_init_gone};

int sandbox_open_channel(struct sandbox *s, int fds[2])
{
    int r;

    /* fds: pidfd, control. */
    r = channel_open(s->sup->loop, s->id, fds[1], fds[0], &channel_ops, s, &s->channel);
    if (r == 0)
        fds[0] = fds[1] = FD_NONE;
    return r;
}

/* From here on it is not half made any more. */
static int came_to_be(struct sandbox *s, struct err *err)
{
    int r;

    if (s->state != SANDBOX_CREATING)
        return 0;
    sandbox_set_state(s, SANDBOX_CREATED);
    r = save_state(s, err);
    if (r < 0) {
        sandbox_set_state(s, SANDBOX_CREATING);
        return r;
    }
    sandbox_emit(s, "create", NULL);
    return 0;
}

/* Everything that belongs to it is there: it may run. Takes a reference of the sandbox. */
static void on_trusted(struct sandbox *s, int r, const struct err *err)
{
    if (s->ending || s->sup->stopping) {
        sandbox_unref(s); /* who ended it has answered, or will */
        return;
    }
    if (r < 0) {
        sandbox_end_init(s);
        sandbox_start_failed(s, r, err);
        sandbox_unref(s);
        return;
    }
    waiters_answer(&s->on_init, 0, NULL);
    if (s->want_running)
        sandbox_start_main(s);
    else if (s->state == SANDBOX_STOPPED)
        (void)uv_timer_start(&s->timer, on_helper_idle, HELPER_IDLE_MS, 0);
    sandbox_unref(s);
}

/* Takes a reference of the sandbox, and what of fds it can use. */
static void init_started(struct sandbox *s, int r, int fds[2], const struct err *err)
{
    struct err own = ERR_NONE;

    s->launching = false;
    if (r == 0 && (s->state == SANDBOX_REMOVING || s->sup->stopping)) {
        sandbox_end_init(s); /* it is to go all the same */
        sandbox_unref(s);
        return;
    }
    if (r == 0) {
        r = sandbox_open_channel(s, fds);
        if (r < 0)
            (void)err_errno(&own, r, "init's channel");
        else
            r = came_to_be(s, &own);
        err = &own;
        if (r < 0)
            sandbox_end_init(s); /* it runs, but nobody could use it, or find it after us */
    }
    if (r < 0) {
        if (r == -EMFILE)
            sandbox_end_init(s); /* perhaps it runs, and only its descriptors found no room */
        if (s->state == SANDBOX_REMOVING)
            sandbox_begin_removal(s);
        else if (r != -ECANCELED)
            sandbox_start_failed(s, r, err);
        sandbox_unref(s);
        return;
    }
    door_reopen(s);
    sandbox_dependent_settled(s);
    r = trust_wanted(s) ? trust_place(s, on_trusted, &own) : 1;
    if (r == 0)
        return; /* which goes on with it */
    on_trusted(s, r < 0 ? r : 0, &own);
}

/* What it sends is under control, or nothing of it runs. */
static void on_egress(struct sandbox *s, int r, const struct err *err)
{
    int fds[2] = {take_fd(&s->start_fds[0]), take_fd(&s->start_fds[1])};

    if (r < 0 && !s->sup->stopping)
        sandbox_end_init(s); /* it is there */
    init_started(s, r, fds, err);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

static void on_start_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct sandbox *s = data;
    struct err own = ERR_NONE;

    s->net_closed[0] = '\0'; /* another net namespace's, as a rule; else it is told again */
    if (reply != NULL && r == 0)
        sandbox_take_net(s, reply);
    if (r == 0 && egress_wanted(s) && s->state != SANDBOX_REMOVING && !s->sup->stopping) {
        s->start_fds[0] = take_fd(&fds[0]);
        s->start_fds[1] = take_fd(&fds[1]);
        r = egress_open(s, 0, on_egress, &own);
        if (r == 0)
            return; /* which goes on with it */
        on_egress(s, r, &own);
        return;
    }
    if (reply != NULL && reply->remains != 0)
        sandbox_end_init(s); /* which it does not at once */
    init_started(s, r, fds, err);
}

/* The ports of a new sandbox are open, or its volumes are there; or it does not come to be. */
static void on_prepared(struct sandbox *s, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    auto_close int client = take_fd(&s->waiting_fd);

    s->launching = false;
    if (s->state == SANDBOX_REMOVING || s->sup->stopping) {
        publish_close(s);
        if (!s->sup->stopping)
            sandbox_begin_removal(s);
        return;
    }
    if (r == 0) {
        s->client_fd = client;
        r = sandbox_launch(s, &own);
        s->client_fd = FD_NONE;
        err = &own;
    }
    if (r < 0)
        sandbox_start_failed(s, r, err);
}

/* Whose rights count for the start is known in this call only. */
static void launch_later(struct sandbox *s)
{
    s->launching = true;
    if (s->client_fd >= 0)
        s->waiting_fd = fcntl(s->client_fd, F_DUPFD_CLOEXEC, 3); /* none: the launcher refuses */
}

/* As publish_open. */
static int publish_first(struct sandbox *s, struct err *err)
{
    int r = publish_open(s, 0, on_prepared, err);

    if (r == 0)
        launch_later(s);
    return r;
}

/* As publish_first, of the named volumes. */
static int volumes_first(struct sandbox *s, struct err *err)
{
    int r = s->volumes_ready ? 1 : volumes_prepare(s, on_prepared, err);

    if (r == 0)
        launch_later(s);
    return r;
}

/* What was not over in time is waited for once more; stopped() follows. */
static int end_remains(struct sandbox *s, struct err *err)
{
    int r = sandbox_send_kill(s, err);

    s->remains = r < 0;
    s->ending = r == 0;
    return r;
}

/* The files of the main process's log, while the launcher is at work: to make them is most of what
 * its start would wait for here. Who opens them makes what is missing, and says what fails. */
static void make_logs(struct sandbox *s)
{
    if (s->want_running && s->spec->argv[0] != NULL && !sandbox_is_attachable(s))
        (void)logs_make_main(s, NULL);
}

int sandbox_launch(struct sandbox *s, struct err *err)
{
    struct network_join join = {.id = NULL};
    const struct ready_policy *policy = policies_find(s->sup->policies, s->spec->policy);
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    const char *layers[3] = {NULL};
    size_t n = 0;
    int r;

    if (s->launching || s->ending)
        return 0; /* on its way, or follows when the old one is gone */
    if (s->remains)
        return end_remains(s, err);
    if (policy == NULL)
        return err_set(err, -EINVAL, "policy: no policy '%s' is configured", s->spec->policy);
    r = s->state == SANDBOX_CREATING ? publish_first(s, err) : 1;
    if (r > 0 && s->state == SANDBOX_CREATING)
        r = volumes_first(s, err);
    if (r <= 0)
        return r;
    if (s->spec->rootfs == NULL && s->spec->image_id == NULL)
        layers[n++] = image_builtin_name(BUILTIN_ROOT);
    layers[n] = image_builtin_name(BUILTIN_BASE);
    r = sandbox_find_join(s, &join, err);
    if (r == 0)
        r = sandbox_request(&b, s->id, s->spec, policy, layers, FD_NONE,
                            join.id != NULL ? &join : NULL, LAUNCH_KEEP, err);
    if (r == 0)
        r = launcher_client_send_for(s->sup->launcher, &b, s->client_fd, on_start_reply, s, err);
    if (r < 0)
        return r;
    s->launching = true;
    (void)snprintf(s->net_owner, sizeof(s->net_owner), "%s",
                   join.owner != NULL ? join.owner : s->id);
    sandbox_ref(s);
    make_logs(s);
    return 0;
}

/* ---- the main process ---- */

static void on_hard_timeout(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    s->timed_out = true;
    sandbox_emit(s, "timeout", NULL);
    (void)sandbox_stop(s, 0, NULL, NULL, &err);
}

static void on_inactive(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    if (exec_any_counts(s) || (s->main != NULL && exec_is_attached(s->main))) {
        sandbox_touch(s); /* something runs in it: that is activity */
        return;
    }
    sandbox_emit(s, "inactive", NULL);
    (void)sandbox_stop(s, LIMIT_UNSET, NULL, NULL, &err);
}

void sandbox_touch(struct sandbox *s)
{
    if (s->spec != NULL && s->spec->inactivity_ms != LIMIT_UNSET && s->timers_open &&
        (s->state == SANDBOX_RUNNING || s->state == SANDBOX_CREATED))
        (void)uv_timer_start(&s->idle, on_inactive, (uint64_t)s->spec->inactivity_ms, 0);
    if (s->state == SANDBOX_STOPPED && s->channel != NULL)
        (void)uv_timer_start(&s->timer, on_helper_idle, HELPER_IDLE_MS, 0);
}

/* Init keeps the exact time, over this supervisor's death, too; only one that is paused needs
 * somebody to thaw it. So for one that was taken up it begins again: a wall clock does not tell how
 * much was left. */
static void arm_hard_timeout(struct sandbox *s)
{
    if (s->spec->timeout_ms != LIMIT_UNSET)
        (void)uv_timer_start(&s->timer, on_hard_timeout,
                             (uint64_t)s->spec->timeout_ms + EXEC_TIMEOUT_SPARE_MS, 0);
}

void sandbox_goes_on(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (s->stop_again && sandbox_stop(s, LIMIT_UNSET, NULL, NULL, &err) < 0)
        log_warn("sandbox", "id=%s stop again: %s", s->id, err.msg);
    if (s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED) {
        arm_hard_timeout(s);
        health_begin(s);
    }
    sandbox_touch(s);
}

static void on_main_started(void *data, struct exec *e)
{
    struct sandbox *s = data;

    s->started_ms = clock_wall_ms();
    s->began = clock_mono_ms();
    s->has_exit = s->timed_out = s->oom_killed = s->restart_due = false;
    s->error[0] = '\0';
    if (s->on_started != NULL)
        s->restarts = 0; /* a client has started it: its policy has all of its tries again */
    if (s->state == SANDBOX_STARTING)
        sandbox_set_state(s, SANDBOX_RUNNING);
    sandbox_save_state(s);
    sandbox_emit(s, "start", NULL);
    health_begin(s);
    arm_hard_timeout(s);
    sandbox_touch(s);
    if (s->spec->console)
        console_begin(s, e);
    waiters_answer(&s->on_started, 0, NULL);
}

static void answer_exit(struct sandbox *s)
{
    waiters_answer(&s->on_run_over, s->exit_code, NULL);
    waiters_answer(&s->on_exit, s->exit_code, NULL);
}

/* As Docker: what cannot be executed leaves the sandbox stopped, with 126 or 127. */
static void on_main_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct sandbox *s = data;

    exec_unref(e);
    s->main = NULL;
    s->has_exit = true;
    s->exit_code = exit_code;
    s->finished_ms = clock_wall_ms();
    (void)snprintf(s->error, sizeof(s->error), "%s", err->msg);
    s->want_running = false;
    s->restart_due = false;
    s->start_failure = err->code; /* who waits for the start is answered when it is stopped */
    if (s->state == SANDBOX_STARTING)
        sandbox_set_state(s, SANDBOX_STOPPING);
    sandbox_save_state(s);
    answer_exit(s);
    console_no_run(s);
    sandbox_end_init(s); /* the inner PID 1 is spent */
}

const struct exec_events sandbox_main_events = {
    .started = on_main_started, .failed = on_main_failed, .exited = on_main_exited};

static void start_main_failed(struct sandbox *s, int r, const struct err *err)
{
    sandbox_end_init(s);
    sandbox_start_failed(s, r, err);
}

/* One without a command is again what it was when it was created: init runs, for execs. */
static void created_again(struct sandbox *s)
{
    (void)uv_timer_stop(&s->timer);
    s->error[0] = '\0';
    sandbox_set_state(s, SANDBOX_CREATED);
    sandbox_save_state(s);
    sandbox_emit(s, "start", NULL);
    sandbox_touch(s);
    waiters_answer(&s->on_started, 0, NULL);
}

/* In STARTING, with its ports open. */
static void start_main(struct sandbox *s)
{
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;
    struct exec *e = NULL;
    int logs[4], r;

    if (s->spec->argv[0] == NULL) {
        created_again(s);
        return;
    }
    o.argv = s->spec->argv;
    o.main = true;
    o.keep = true;
    o.timeout_ms = s->spec->timeout_ms;
    if (sandbox_is_attachable(s)) {
        o.tty = s->spec->tty;
        o.with_stdin = s->spec->interactive;
        o.rows = s->rows;
        o.cols = s->cols;
        r = exec_start(s, &o, &sandbox_main_events, s, &e, &err);
    } else if ((r = logs_begin_main(s, logs, &err)) == 0) {
        o.log_fds = logs;
        o.log_size = (uint32_t)(s->sup->limits.log_bytes / 2);
        r = exec_start(s, &o, &sandbox_main_events, s, &e, &err);
        for (int i = 0; i < 4; i++)
            (void)close(logs[i]);
    }
    if (r < 0) {
        start_main_failed(s, r, &err);
        return;
    }
    s->main = e;
}

static void on_published_start(struct sandbox *s, int r, const struct err *err)
{
    if (s->state == SANDBOX_STARTING && s->channel != NULL && !s->ending && r == 0)
        start_main(s);
    else if (s->state == SANDBOX_STARTING && !s->ending)
        start_main_failed(s, r, err);
    else
        waiters_answer(&s->on_started, -ECANCELED, err); /* it was stopped meanwhile */
}

void sandbox_start_main(struct sandbox *s)
{
    struct err err = ERR_NONE;
    int r;

    s->want_running = false;
    if (s->main != NULL)
        return;
    (void)uv_timer_stop(&s->timer);
    sandbox_set_state(s, SANDBOX_STARTING);
    r = publish_open(s, 0, on_published_start, &err);
    if (r == 1)
        start_main(s);
    else if (r < 0)
        start_main_failed(s, r, &err);
}

static void on_stragglers(uv_timer_t *h)
{
    sandbox_end_init(h->data);
}

static void on_main_exited(void *data, struct exec *e)
{
    struct sandbox *s = data;
    char detail[64];

    health_end(s);
    s->has_exit = true;
    s->exit_code = exec_exit_code(e);
    s->finished_ms = clock_wall_ms();
    s->main = NULL;
    if (exec_timed_out(e) && !s->user_stopped) {
        s->user_stopped = true; /* by its init, perhaps while nobody else was there */
        sandbox_emit(s, "timeout", NULL);
    }
    s->timed_out |= exec_timed_out(e);
    if (clock_mono_ms() - s->began >= RESTART_HEALTHY_MS)
        s->failures_in_row = 0;
    (void)snprintf(detail, sizeof(detail), "{\"exitCode\":%d}", s->exit_code);
    sandbox_emit(s, "exit", detail);
    (void)uv_timer_stop(&s->timer);
    (void)uv_timer_stop(&s->idle);
    if (s->state == SANDBOX_RUNNING || s->state == SANDBOX_PAUSED || s->state == SANDBOX_STARTING)
        sandbox_set_state(s, SANDBOX_STOPPING);
    sandbox_save_state(s);
    process_main_ended(s);
    answer_exit(s);
    exec_unref(e);
    /* With its PID 1 the inner namespace has ended; init tells of the others before it is ended,
     * too. */
    if (exec_any_alive(s))
        (void)uv_timer_start(&s->timer, on_stragglers, STRAGGLERS_MS, 0);
    else
        sandbox_end_init(s);
}

void sandbox_exec_ended(struct sandbox *s)
{
    if (s->state == SANDBOX_STOPPING && s->main == NULL && s->has_exit && s->channel != NULL &&
        !exec_any_alive(s))
        sandbox_end_init(s);
}

/* ---- the rest ---- */

int sandbox_with_init_new(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = waiters_add(&s->on_init, cb, data, err);

    if (r == 0)
        r = sandbox_launch(s, err);
    if (r < 0)
        (void)waiters_forget(&s->on_init, data);
    return r;
}
