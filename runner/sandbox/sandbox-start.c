/*
 * The start of a sandbox until init answers. The parts prepare (only for a new sandbox). The
 * launcher makes the sandbox, and the parts set up its network. Then the channel to init is opened,
 * and the parts do what needs init. sandbox-main.c then starts the main process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "proto/init-msg.h"
#include "sandbox/channel.h"
#include "sandbox/launcher-client.h"
#include "sandbox/logs.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"

enum {
    HELPER_IDLE_MS = 5000, /* idle time after which a helper init ends */
    START_AGAIN_MS = 25,
    START_AGAIN_FOR_MS = 10000, /* as long as the reattach to one sandbox may take */
};

/* ---- the helper init of a stopped sandbox ---- */

static void on_helper_idle(uv_timer_t *h)
{
    struct sandbox *s = h->data;

    if (s->state == SANDBOX_STOPPED && s->channel != NULL && s->execs.first == NULL &&
        s->waiters.init == NULL)
        sandbox_end_init(s);
    else
        sandbox_helper_used(s);
}

void sandbox_helper_used(struct sandbox *s)
{
    if (s->state == SANDBOX_STOPPED && s->channel != NULL)
        (void)uv_timer_start(&s->timer, on_helper_idle, HELPER_IDLE_MS, 0);
}

/* ---- a start that fails before the main process ---- */

/*
 * Waiters for the start are answered when the end is complete, as in on_main_failed
 * (sandbox-main.c). Until then the failed start may hold what the next request needs. The launcher
 * may still hold an fd of its ports, for example.
 *
 * A restart is tried again, because what it needs may be there later: disk space, an fd, the
 * sandbox whose network it shares. A start that a client has requested fails.
 */
void sandbox_start_failed(struct sandbox *s, int r, const struct err *err)
{
    const bool again = s->restart.due, never = s->state == SANDBOX_CREATING;
    const bool ending = s->init == INIT_ENDING;

    (void)snprintf(s->error, sizeof(s->error), "%s", err != NULL ? err->msg : "");
    s->run.wanted = false;
    s->restart.due = again && ending; /* sandbox_stopped continues the restart */
    s->start.failure = r;
    s->start.refused = ending;
    sandbox_parts_tell(s, PART_CLOSE);
    /*
     * The request that creates the sandbox removes it, or the next supervisor does, as an orphan.
     */
    (void)sandbox_set_state(s, ending ? EV_START_FAILED_LATE : EV_START_FAILED);
    if (!never)
        sandbox_save_state(s);
    waiters_answer(&s->waiters.init, r, err);
    if (!ending)
        sandbox_answer_failed(s);
    sandbox_parts_tell(s, PART_NO_RUN);
    sandbox_dependent_settled(s);
    if (again)
        log_warn("sandbox", "id=%s restart: %s", s->id, s->error);
    if (again && s->init != INIT_ENDING && s->state == SANDBOX_STOPPED)
        sandbox_maybe_restart(s);
}

/* ---- init ---- */

static void on_init_gone(void *data)
{
    struct sandbox *s = data;

    sandbox_ref(s);
    if (init_phase_is_adoption(s->init))
        sandbox_adoption_cut_off(s);
    sandbox_end_init(s); /* exec_all_lost reports the end of the main process */
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

    /* fds[0] is the pidfd, fds[1] the control socket. */
    r = channel_open(s->sup->loop, s->id, fds[1], fds[0], &channel_ops, s, &s->channel);
    if (r < 0)
        return r;
    fds[0] = fds[1] = FD_NONE;
    sandbox_set_init(s, s->init == INIT_ADOPTING ? INIT_LISTING : INIT_RUNNING);
    return 0;
}

/* Makes a new sandbox complete: from here on it is no orphan after a crash. */
static int sandbox_came_to_be(struct sandbox *s, struct err *err)
{
    int r;

    if (s->state != SANDBOX_CREATING)
        return 0;
    r = sandbox_save_as(s, SANDBOX_CREATED, err);
    if (r < 0)
        return r;
    (void)sandbox_set_state(s, EV_MADE);
    sandbox_emit(s, "create", NULL);
    return 0;
}

/* Every part has done its work, so the main process may run. Drops the start's reference. */
static void on_init_ready(struct sandbox *s, int r, const struct err *err)
{
    if (s->init == INIT_ENDING || s->sup->stopping) {
        sandbox_unref(s); /* the end of init answers the waiters */
        return;
    }
    if (r < 0) {
        sandbox_end_init(s);
        sandbox_start_failed(s, r, err);
        sandbox_unref(s);
        return;
    }
    waiters_answer(&s->waiters.init, 0, NULL);
    if (s->run.wanted)
        sandbox_start_main(s);
    else
        sandbox_helper_used(s);
    sandbox_unref(s);
}

/* The launcher has started no init. Drops the start's reference. */
static void sandbox_init_not_started(struct sandbox *s, int r, const struct err *err)
{
    if (s->init == INIT_LAUNCHING) /* otherwise init is being ended already */
        sandbox_set_init(s, INIT_NONE);
    if (r == -EMFILE)
        sandbox_end_init(s); /* init may run: perhaps only its fds found no room here */
    if (s->state == SANDBOX_REMOVING)
        sandbox_begin_removal(s);
    else if (r != -ECANCELED)
        sandbox_start_failed(s, r, err);
    sandbox_unref(s);
}

/* Drops the start's reference; takes the fds that it uses. */
static void sandbox_init_started(struct sandbox *s, int fds[2])
{
    struct err err = ERR_NONE;
    int r;

    if (s->state == SANDBOX_REMOVING || s->sup->stopping) {
        sandbox_end_init(s); /* the sandbox is being removed, or the daemon stops */
        sandbox_unref(s);
        return;
    }
    r = sandbox_open_channel(s, fds);
    if (r < 0)
        (void)err_errno(&err, r, "init's channel");
    else
        r = sandbox_came_to_be(s, &err);
    if (r < 0) {
        sandbox_end_init(s); /* init runs, but no request can use it */
        sandbox_init_not_started(s, r, &err);
        return;
    }
    sandbox_dependent_settled(s);
    r = sandbox_parts_walk(s, STAGE_INIT, on_init_ready, &err);
    if (r != 0)
        on_init_ready(s, r < 0 ? r : 0, &err);
}

/* The parts have set up the network (r == 0), or the sandbox runs nothing. */
static void on_network_ready(struct sandbox *s, int r, const struct err *err)
{
    int fds[2] = {take_fd(&s->start.fds[0]), take_fd(&s->start.fds[1])};

    if (r < 0 && !s->sup->stopping)
        sandbox_end_init(s); /* init runs */
    if (r < 0)
        sandbox_init_not_started(s, r, err);
    else
        sandbox_init_started(s, fds);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

/* ---- a network whose members are leaving it ---- */

static int sandbox_send_launch(struct sandbox *s, struct err *err);

/* Sends the start again, unless it has been overtaken by a removal or a stop. */
static void on_start_again(uv_timer_t *h)
{
    struct sandbox *s = h->data;
    struct err err = ERR_NONE;

    sandbox_set_init(s, INIT_NONE);
    if (s->state == SANDBOX_REMOVING) {
        sandbox_begin_removal(s);
    } else if (!s->run.wanted && s->waiters.init == NULL) {
        sandbox_parts_tell(s, PART_NO_RUN); /* the stop has answered those that waited */
        sandbox_dependent_settled(s);
    } else if (sandbox_send_launch(s, &err) < 0) {
        sandbox_start_failed(s, err.code, &err);
    }
}

/*
 * A sandbox whose network others have joined gets that network again. The last of them may be
 * ending just now. One of an earlier daemon may still be taken up, or be about to be swept. So the
 * start waits for them, for some seconds; the client sees why it failed after that.
 */
static bool sandbox_start_later(struct sandbox *s)
{
    const int64_t now = clock_mono_ms();

    if (s->state == SANDBOX_REMOVING || s->sup->stopping || s->init != INIT_LAUNCHING)
        return false;
    if (s->start.until_ms == 0)
        s->start.until_ms = now + START_AGAIN_FOR_MS;
    if (now >= s->start.until_ms)
        return false;
    sandbox_set_init(s, INIT_WAITING);
    (void)uv_timer_start(&s->timer, on_start_again, START_AGAIN_MS, 0);
    return true;
}

static void on_start_reply(void *data, int r, const struct launch_reply *reply, int fds[2],
                           const struct err *err)
{
    struct sandbox *s = data;
    struct err own = ERR_NONE;

    s->net.closed[0] = '\0'; /* usually a new net namespace; else it is reported again */
    if (r == -EINPROGRESS) {
        if (sandbox_start_later(s)) {
            sandbox_unref(s);
            return;
        }
        r = err_set(&own, -EAGAIN, "%s", err->msg);
        err = &own;
    }
    if (r < 0) {
        if (reply != NULL && reply->remains != 0)
            sandbox_end_init(s); /* its processes are still ending */
        sandbox_init_not_started(s, r, err);
        return;
    }
    sandbox_take_net(s, reply);
    if (s->state == SANDBOX_REMOVING || s->sup->stopping) {
        sandbox_init_started(s, fds);
        return;
    }
    s->start.fds[0] = take_fd(&fds[0]);
    s->start.fds[1] = take_fd(&fds[1]);
    r = sandbox_parts_walk(s, STAGE_NETWORK, on_network_ready, &own);
    if (r != 0)
        on_network_ready(s, r < 0 ? r : 0, &own);
}

/* ---- the request to the launcher ---- */

/*
 * Creates the files of the main process's log while the launcher works; the start would otherwise
 * wait for them here. A failure is not reported: opening the files later creates missing ones.
 */
static void sandbox_make_logs(struct sandbox *s)
{
    if (s->run.wanted && s->spec->argv[0] != NULL && !sandbox_is_attachable(s))
        (void)logs_make_main(s, NULL);
}

static int sandbox_send_start(struct sandbox *s, const struct ready_policy *policy, struct err *err)
{
    struct network_join join = {.id = NULL};
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    const char *layers[BUILTIN_NAMES_MAX];
    int r;

    image_builtin_names(s->spec->rootfs != NULL || s->spec->image_id != NULL,
                        spec_is_docker(s->spec), layers);
    r = sandbox_find_join(s, &join, err);
    if (r == 0)
        r = sandbox_request(&b, s->id, s->spec, policy, sandbox_most(s), layers, FD_NONE,
                            join.id != NULL ? &join : NULL, LAUNCH_KEEP, err);
    if (r == 0)
        r = launcher_client_send_for(s->sup->launcher, &b, s->start.client_fd, on_start_reply, s,
                                     err);
    if (r < 0)
        return r;
    sandbox_set_init(s, INIT_LAUNCHING);
    (void)snprintf(s->net.owner, sizeof(s->net.owner), "%s",
                   join.owner != NULL ? join.owner : s->id);
    sandbox_ref(s);
    sandbox_make_logs(s);
    return 0;
}

static int sandbox_send_launch(struct sandbox *s, struct err *err)
{
    const struct ready_policy *policy = policies_find(s->sup->policies, s->spec->policy);

    if (policy == NULL)
        return err_set(err, -EINVAL, "policy: no policy '%s' is configured", s->spec->policy);
    return sandbox_send_start(s, policy, err);
}

/*
 * The ports of a new sandbox are open and its volumes exist (r == 0), or its creation has failed.
 */
static void on_prepared(struct sandbox *s, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    auto_close int client = take_fd(&s->start.waiting_fd);

    sandbox_set_init(s, INIT_NONE);
    if (s->state == SANDBOX_REMOVING || s->sup->stopping) {
        sandbox_parts_tell(s, PART_CLOSE);
        if (!s->sup->stopping)
            sandbox_begin_removal(s);
        return;
    }
    if (r == 0) {
        s->start.client_fd = client;
        r = sandbox_send_launch(s, &own);
        s->start.client_fd = FD_NONE;
        err = &own;
    }
    if (r < 0)
        sandbox_start_failed(s, r, err);
}

/*
 * As sandbox_parts_walk, with STAGE_PREPARE. Volumes and the launcher need the rights of the client
 * that creates the sandbox. Its connection is valid during this call only, so it is duplicated.
 */
static int sandbox_prepare(struct sandbox *s, struct err *err)
{
    int r = sandbox_parts_walk(s, STAGE_PREPARE, on_prepared, err);

    if (r != 0)
        return r;
    sandbox_set_init(s, INIT_PREPARING);
    if (s->start.client_fd >= 0)
        s->start.waiting_fd =
            fcntl(s->start.client_fd, F_DUPFD_CLOEXEC, 3); /* without the fd the launcher refuses */
    return 0;
}

int sandbox_launch(struct sandbox *s, struct err *err)
{
    int r;

    if (init_phase_is_busy(s->init))
        return 0; /* init is being started, or starts when the old one has ended */
    if (s->init == INIT_UNKNOWN)
        return sandbox_send_kill(s, err); /* sandbox_stopped then starts init */
    s->start.until_ms = 0;
    r = s->state == SANDBOX_CREATING ? sandbox_prepare(s, err) : 1;
    return r > 0 ? sandbox_send_launch(s, err) : r;
}

int sandbox_with_init_new(struct sandbox *s, sandbox_cb cb, void *data, struct err *err)
{
    int r = waiters_add(&s->waiters.init, cb, data, err);

    if (r == 0)
        r = sandbox_launch(s, err);
    if (r < 0)
        (void)waiters_forget(&s->waiters.init, data);
    return r;
}
