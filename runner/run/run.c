/*
 * `rind run` without a daemon, as a list of steps: open the launcher, make the request, start the
 * sandbox, start the command in it, move bytes and signals until both the command and its output
 * have ended, remove the sandbox. The loop's callbacks only note what happened and stop the loop
 * when nothing is left to wait for.
 */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/signal-escalation.h"
#include "base/terminal.h"
#include "image/embed.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "ports/network.h"
#include "proto/syscalls.h"
#include "run/pump.h"
#include "run/run-image.h"
#include "run/run-watch.h"
#include "run/volume-alone.h"
#include "sandbox/exec-request.h"
#include "sandbox/host-rootfs.h"
#include "sandbox/paths.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-request.h"
#include "spec/spec.h"
#include "volume/volume-use.h"

enum {
    STATUS_RIND = 125,
    MAIN_ID = 1,
    KILL_AFTER_MS = 5000, /* SIGKILL was sent, and there is still something to wait for */
    ID_BYTES = 8,
    START_TRIES = 8, /* ids are random; a clash is an accident that repeats itself hardly */
};

static const char default_path[] =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct run {
    const struct spec *spec; /* borrowed */
    struct err *err;         /* borrowed */
    struct launcher *launcher;
    struct network network;
    struct host_rootfs *host; /* owned; NULL = not asked for */
    char id[ID_BYTES * 2 + 1];
    struct launch_result sandbox_id;
    struct run_watch watch;
    int use_fd; /* owned; of the store of images, or -1 */
    uv_loop_t loop;
    uv_poll_t control, signals, firewall;
    uv_timer_t again; /* the rules are to be put back */
    bool watching;    /* firewall and again are handles of the loop's */
    uv_timer_t timeout, hangup, overdue;
    int signal_fd;
    struct pump pumps[3];         /* stdin, stdout, stderr (a pty uses the first two) */
    struct stdio_sockets sockets; /* owned; of the command's stdio */
    bool output_open[3];
    bool started, exited, timed_out, hung_up, handles_open;
    struct signal_escalation signal_escalation;
    int wait_status;
    int failure; /* negative errno when the command could not be started */
    int failure_status;
    struct terminal terminal;
};

/* ---- the end ---- */

static void run_maybe_stop(struct run *r)
{
    if ((r->exited || r->failure < 0) && !r->output_open[1] && !r->output_open[2])
        uv_stop(&r->loop);
}

static void run_send_signal(struct run *r, int signo)
{
    const struct imsg msg = {.magic = IMSG_MAGIC,
                             .version = IMSG_VERSION,
                             .type = IMSG_SIGNAL,
                             .id = MAIN_ID,
                             .value = signo};

    (void)channel_send(r->sandbox_id.control, &msg, NULL,
                       0); /* init gone: on_control_event says so */
}

static void run_send_size(struct run *r)
{
    struct imsg msg = {
        .magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_RESIZE, .id = MAIN_ID};

    terminal_size(&msg.rows, &msg.cols);
    if (r->spec->tty)
        (void)channel_send(r->sandbox_id.control, &msg, NULL, 0);
}

static void on_overdue(uv_timer_t *h);

/* Sends SIGKILL, with a deadline for the command's end. */
static void run_kill(struct run *r)
{
    run_send_signal(r, SIGKILL);
    (void)uv_timer_start(&r->overdue, on_overdue, KILL_AFTER_MS, 0);
}

static void on_hangup_grace_over(uv_timer_t *h)
{
    run_kill(h->data);
}

/* Our own terminal has hung up (a closed window, a lost connection). The command gets the SIGHUP
 * and a moment, as a shell's session does; the kernel drops the signal for a process 1 that does
 * not catch it. */
static void run_check_hangup(struct run *r)
{
    if (!r->spec->tty || r->hung_up || !terminal_has_hung_up())
        return;
    r->hung_up = true;
    run_send_signal(r, SIGHUP);
    (void)uv_timer_start(&r->hangup, on_hangup_grace_over, TERMINAL_HANGUP_MS, 0);
}

static void run_fail(struct run *r, int code, int status)
{
    if (r->failure < 0)
        return;
    r->failure = code;
    r->failure_status = status;
    r->output_open[1] = r->output_open[2] = false;
    run_maybe_stop(r);
}

static bool run_is_awaited(const struct run *r)
{
    for (int i = 1; i < 3; i++)
        if (r->output_open[i] && r->pumps[i].out_waits)
            return true;
    return false;
}

/*
 * A SIGKILL does not end a process that waits for a FUSE server of its own, nor does init pass it
 * on while it waits for the lock of a pipe: that takes the end of the sandbox. Not so where the
 * command's output still has to be taken from us.
 */
static void on_overdue(uv_timer_t *h)
{
    struct run *r = h->data;

    if (r->exited && run_is_awaited(r)) {
        (void)uv_timer_start(h, on_overdue, KILL_AFTER_MS, 0);
        return;
    }
    (void)err_set(r->err, -ETIMEDOUT,
                  "the command is still there %d ms after SIGKILL: the sandbox was removed",
                  KILL_AFTER_MS);
    run_fail(r, -ETIMEDOUT, 128 + SIGKILL);
}

/* ---- bytes ---- */

/* The watch has duplicates, so to close ours would not tell init. */
static void run_end_stream(struct run *r, size_t which)
{
    if (r->sockets.ours[which] < 0)
        return;
    (void)shutdown(r->sockets.ours[which], SHUT_RDWR);
    (void)close(take_fd(&r->sockets.ours[which]));
}

static void on_output_done(struct pump *p)
{
    struct run *r = p->data;
    size_t which = (size_t)(p - r->pumps);

    pump_stop(p);
    run_check_hangup(r);
    /* Our own stdout has no reader any more: the command gets SIGPIPE as from any pipe. */
    if (p->error < 0 && !r->spec->tty)
        run_end_stream(r, which);
    r->output_open[which] = false;
    run_maybe_stop(r);
}

static void on_input_done(struct pump *p)
{
    static const char end_of_file = 4; /* ^D, what a terminal's user types */
    struct run *r = p->data;

    pump_stop(p);
    if (r->spec->tty) {
        run_check_hangup(r);
        if (p->error == 0 && !r->hung_up)
            (void)!write(r->sockets.ours[0], &end_of_file, 1);
        return;
    }
    run_end_stream(r, 0);
}

static int run_start_pump(struct run *r, int which, int in, int out, void (*on_done)(struct pump *))
{
    return pump_start(&r->loop, &r->pumps[which], in, out, on_done, r);
}

static int run_start_pumps(struct run *r)
{
    const int *fds = r->sockets.ours;
    int n;

    r->output_open[1] = true;
    n = run_start_pump(r, 1, r->spec->tty ? fds[0] : fds[1], STDOUT_FILENO, on_output_done);
    if (n == 0 && !r->spec->tty) {
        r->output_open[2] = true;
        n = run_start_pump(r, 2, fds[2], STDERR_FILENO, on_output_done);
    }
    if (n == 0 && r->spec->interactive)
        n = run_start_pump(r, 0, STDIN_FILENO, fds[0], on_input_done);
    return n;
}

/* ---- init's messages ---- */

static void on_exec_failed(struct run *r, const struct imsg *msg)
{
    int status = exec_failure(msg, r->spec->argv[0], r->spec->user, r->spec->cwd, r->err);

    run_fail(r, r->err->code, status);
}

static void on_started(struct run *r)
{
    int n;

    r->started = true;
    if (r->spec->tty)
        terminal_begin(&r->terminal, r->spec->interactive);
    run_send_size(r); /* it may have changed since the request */
    n = run_start_pumps(r);
    if (n == 0)
        return;
    (void)err_errno(r->err, n, "move the command's input and output");
    run_fail(r, n, STATUS_RIND);
}

static void on_init_message(struct run *r, const struct imsg *msg)
{
    if (msg->id != MAIN_ID || r->exited)
        return;
    if (msg->type == IMSG_STARTED && !r->started) {
        on_started(r);
    } else if (msg->type == IMSG_EXEC_FAILED) {
        on_exec_failed(r, msg);
    } else if (msg->type == IMSG_EXITED) {
        r->exited = true; /* its output ends by itself, whatever else runs there */
        r->wait_status = msg->value;
        run_maybe_stop(r);
    }
}

static void on_control_event(uv_poll_t *h, int status, int events)
{
    struct run *r = h->data;
    struct imsg msg;
    int fds[IMSG_FDS_MAX], count = 0, n;

    (void)status;
    (void)events;
    for (;;) {
        n = channel_recv(r->sandbox_id.control, MSG_DONTWAIT, &msg, fds, &count);
        if (n == -EAGAIN)
            return;
        if (n <= 0)
            break;
        on_init_message(r, &msg);
        for (int i = 0; i < count; i++)
            (void)close(fds[i]); /* init has none to give */
    }
    (void)uv_poll_stop(&r->control);
    if (!r->exited && r->failure == 0) {
        /* EOF is never success: init dies with the whole sandbox, by the memory limit or by a kill
         * from outside. */
        (void)err_set(r->err, -ECHILD, "the sandbox's init was killed%s",
                      launcher_oom_kills(r->launcher, r->id) > 0 ? ": out of memory" : "");
        run_fail(r, -ECHILD, 128 + SIGKILL);
    }
    run_maybe_stop(r);
}

/* ---- signals and time ---- */

/* The third ends the command, the fourth does not even wait for that: the sandbox goes. */
static void run_take_signal(struct run *r, int signo)
{
    unsigned times = signal_escalation_note(&r->signal_escalation, signo, clock_mono_ms());
    const char *again = r->terminal.fd >= 0 ? "\r" : "";

    if (times > SIGNAL_ESCALATION_TIMES) {
        (void)err_set(r->err, -EINTR, "interrupted %u times: the sandbox was removed", times);
        run_fail(r, -EINTR, 128 + signo);
    } else if (times == SIGNAL_ESCALATION_TIMES) {
        (void)fprintf(stderr, "rind: interrupted %d times: the command is killed\n%s",
                      SIGNAL_ESCALATION_TIMES, again);
        run_send_signal(r, SIGKILL);
    } else {
        run_send_signal(r, signo);
    }
}

static void on_signal_event(uv_poll_t *h, int status, int events)
{
    struct run *r = h->data;
    struct signalfd_siginfo info;

    (void)status;
    (void)events;
    while (read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH && r->spec->tty) {
            run_send_size(r);
            continue;
        }
        run_take_signal(r, (int)info.ssi_signo);
        if (info.ssi_signo == SIGHUP)
            run_check_hangup(r);
    }
}

static void on_timeout(uv_timer_t *h)
{
    struct run *r = h->data;

    r->timed_out = true;
    run_kill(r);
}

/* ---- starting ---- */

static int run_open_launcher(struct run *r, const struct core_config *cfg, const char *prefixes[])
{
    struct launcher_config config = {.state_dir = cfg->state_dir,
                                     .ids_dir = CORE_IDS_DIR,
                                     .bind_prefixes = prefixes,
                                     .init_image = embed_init().data,
                                     .init_size = embed_init().len};

    const struct net_config net = {.pools4 = NULL};
    int code = network_open(&r->network, &net, cfg->runtime_dir, r->err);

    if (code == 0 && spec_shows_host(r->spec))
        code = host_rootfs_load(HOST_ROOTFS_FILE, &r->host, r->err);
    if (code < 0)
        return code;
    config.net = &r->network.ops;
    config.host = r->host;
    return launcher_open(&config, &r->launcher, r->err);
}

static int run_make_id(char id[ID_BYTES * 2 + 1])
{
    unsigned char bytes[ID_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(id + i * 2, 3, "%02x", bytes[i]);
    return 0;
}

static void policy_cleanup(struct ready_policy **p)
{
    ready_policy_free(*p);
}

static int run_start_sandbox(struct run *r)
{
    struct ready_policy *policy __attribute__((cleanup(policy_cleanup))) = NULL;
    auto_close int base_fd = FD_NONE;
    auto_close int root_fd = FD_NONE;
    const char *layers[3] = {NULL};
    size_t n = 0;
    int code;

    if (r->spec->egress != NULL)
        return err_set(r->err, -EOPNOTSUPP,
                       "egress: rules for what leaves a sandbox need the daemon (rind serve)");
    if (r->spec->net_container != NULL || r->spec->net_name != NULL)
        return err_set(r->err, -EOPNOTSUPP,
                       "network \"%s%s\": sandboxes that share a network need the daemon "
                       "(rind serve)",
                       r->spec->net_container != NULL ? "container:" : "",
                       r->spec->net_container != NULL ? r->spec->net_container : r->spec->net_name);
    code =
        policy_make_ready(launcher_state_fd(r->launcher), r->spec->policy, true, &policy, r->err);
    if (code == 0)
        code = image_default_layers(launcher_state_fd(r->launcher), &base_fd, &root_fd, r->err);
    if (code < 0)
        return code;
    if (r->spec->rootfs != NULL && !spec_shows_host(r->spec)) {
        (void)close(root_fd);
        root_fd = open(r->spec->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root_fd < 0)
            return errno == ENOTDIR
                       ? err_set(r->err, -ENOTDIR, "root file system '%s' is not a directory",
                                 r->spec->rootfs)
                       : err_errno(r->err, -errno, "root file system '%s'", r->spec->rootfs);
    } else if (r->spec->image_id == NULL && r->spec->rootfs == NULL) {
        layers[n++] = image_builtin_name(BUILTIN_ROOT);
    }
    layers[n] = image_builtin_name(BUILTIN_BASE);
    code = volumes_alone(r->launcher, r->spec, layers, root_fd, r->err);
    if (code < 0)
        return code;

    for (int tries = 0; tries < START_TRIES; tries++) {
        auto_buf struct buf request = BUF_INIT(LAUNCH_SIZE_MAX);
        struct launch_request decoded;

        code = run_make_id(r->id);
        if (code < 0)
            return err_errno(r->err, code, "make an id");
        code = sandbox_request(&request, r->id, r->spec, policy, NULL, layers, root_fd, NULL,
                               LAUNCH_ATTACHED, r->err);
        /* The same checks as behind the daemon's socket: what is refused there is refused here. */
        if (code == 0)
            code = launch_decode(request.data, request.len, &decoded, r->err);
        if (code == 0)
            code = launcher_start(r->launcher, &decoded, &r->sandbox_id, r->err);
        if (code != -EEXIST)
            break;
    }
    return code;
}

static bool env_has(char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return true;
    return false;
}

/* Only what is needed and what was passed: nothing of our own environment gets in. */
static int run_start_command(struct run *r)
{
    struct imsg msg = {.magic = IMSG_MAGIC,
                       .version = IMSG_VERSION,
                       .type = IMSG_EXEC,
                       .id = MAIN_ID,
                       .flags = IMSG_MAIN | IMSG_MAKE_CWD};
    char hostname[SPEC_HOSTNAME_MAX + 16], term[] = "TERM=xterm", path[sizeof(default_path)];
    auto_free char **env = NULL;
    auto_close int fd = FD_NONE;
    int fds[IMSG_FDS_MAX], code;
    size_t n = 0, count = 0;

    terminal_size(&msg.rows, &msg.cols);
    while (r->spec->env != NULL && r->spec->env[count] != NULL)
        count++;
    env = calloc(count + 4, sizeof(*env));
    if (env == NULL)
        return err_errno(r->err, -ENOMEM, "environment");
    (void)memcpy(path, default_path, sizeof(path));
    (void)snprintf(hostname, sizeof(hostname), "HOSTNAME=%s",
                   r->spec->hostname != NULL ? r->spec->hostname : r->id);
    if (!env_has(r->spec->env, "PATH"))
        env[n++] = path;
    if (!env_has(r->spec->env, "HOSTNAME"))
        env[n++] = hostname;
    if (r->spec->tty && !env_has(r->spec->env, "TERM"))
        env[n++] = term;
    for (size_t i = 0; i < count; i++)
        env[n++] = r->spec->env[i];

    const struct exec_spec exec = {.argv = r->spec->argv,
                                   .envp = env,
                                   .user = r->spec->user != NULL ? r->spec->user : "",
                                   .cwd = r->spec->cwd != NULL ? r->spec->cwd : "/",
                                   .groups = r->spec->groups};

    fd = exec_request(&exec, r->err);
    if (fd < 0)
        return fd;
    if (r->spec->tty)
        msg.flags |= IMSG_TTY;
    if (r->spec->interactive)
        msg.flags |= IMSG_STDIN;
    code = stdio_sockets_make(msg.flags, &r->sockets);
    fds[0] = fd;
    if (code == 0)
        code = channel_send(r->sandbox_id.control, &msg, fds,
                            stdio_sockets_add(&r->sockets, msg.flags, fds, 1));
    for (int i = 0; i < 3; i++)
        if (r->sockets.inits[i] >= 0)
            (void)close(take_fd(&r->sockets.inits[i]));
    return code < 0 ? err_errno(r->err, code, "start the command") : 0;
}

/* ---- the loop ---- */

static void on_rules_due(uv_timer_t *h);

static void run_restore_rules(struct run *r)
{
    int wait;

    launcher_watched(r->launcher);
    wait = launcher_watch_wait(r->launcher);
    if (wait >= 0)
        (void)uv_timer_start(&r->again, on_rules_due, (uint64_t)wait, 0);
    else
        (void)uv_timer_stop(&r->again);
}

static void on_rules_due(uv_timer_t *h)
{
    run_restore_rules(h->data);
}

static void on_firewall_event(uv_poll_t *h, int status, int events)
{
    struct run *r = h->data;

    /* An error of the socket's says that messages were lost: it is read all the same. */
    (void)status;
    (void)events;
    run_restore_rules(r);
}

/* Nothing waits for these. */
static int run_watch_firewall(struct run *r)
{
    const int fd = r->sandbox_id.net.sandbox4.family != 0 ? launcher_watch(r->launcher) : FD_NONE;
    int n;

    if (fd < 0)
        return 0;
    n = uv_poll_init(&r->loop, &r->firewall, fd);
    if (n < 0)
        return n;
    (void)uv_timer_init(&r->loop, &r->again);
    uv_unref((uv_handle_t *)&r->again);
    r->firewall.data = r->again.data = r;
    r->watching = true;
    uv_unref((uv_handle_t *)&r->firewall);
    return uv_poll_start(&r->firewall, UV_READABLE, on_firewall_event);
}

static int run_open_handles(struct run *r)
{
    int n;

    n = uv_loop_init(&r->loop);
    if (n < 0)
        return n;
    (void)uv_poll_init(&r->loop, &r->control, r->sandbox_id.control);
    (void)uv_poll_init(&r->loop, &r->signals, r->signal_fd);
    (void)uv_timer_init(&r->loop, &r->timeout);
    (void)uv_timer_init(&r->loop, &r->hangup);
    (void)uv_timer_init(&r->loop, &r->overdue);
    r->control.data = r->signals.data = r->timeout.data = r->hangup.data = r->overdue.data = r;
    r->handles_open = true;
    n = uv_poll_start(&r->control, UV_READABLE, on_control_event);
    if (n == 0)
        n = uv_poll_start(&r->signals, UV_READABLE, on_signal_event);
    if (n == 0)
        n = run_watch_firewall(r);
    if (n == 0 && r->spec->timeout_ms != LIMIT_UNSET)
        n = uv_timer_start(&r->timeout, on_timeout, (uint64_t)r->spec->timeout_ms, 0);
    return n;
}

static void run_close_handles(struct run *r)
{
    if (!r->handles_open)
        return;
    for (size_t i = 0; i < 3; i++)
        pump_stop(&r->pumps[i]);
    uv_close((uv_handle_t *)&r->control, NULL);
    uv_close((uv_handle_t *)&r->signals, NULL);
    uv_close((uv_handle_t *)&r->timeout, NULL);
    uv_close((uv_handle_t *)&r->hangup, NULL);
    uv_close((uv_handle_t *)&r->overdue, NULL);
    if (r->watching) {
        uv_close((uv_handle_t *)&r->firewall, NULL);
        uv_close((uv_handle_t *)&r->again, NULL);
    }
    (void)uv_run(&r->loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&r->loop) != 0)
        abort(); /* a handle of ours was forgotten */
}

static int run_supervise(struct run *r)
{
    int n;

    n = run_open_handles(r);
    if (n == 0)
        n = run_start_command(r);
    else
        (void)err_errno(r->err, n, "event loop");
    if (n == 0) /* while the command starts */
        n = run_watch_start(&r->watch, r->launcher, r->id, r->err);
    if (n == 0) {
        (void)launcher_sweep(r->launcher); /* meanwhile, too: what others, killed, have left */
        (void)uv_run(&r->loop, UV_RUN_DEFAULT);
        n = r->failure;
    }
    terminal_end(&r->terminal);
    run_close_handles(r);
    return n;
}

static void run_explain_end(const struct run *r)
{
    unsigned long kills = launcher_oom_kills(r->launcher, r->id);

    if (r->timed_out)
        (void)fprintf(stderr, "rind: timed out after %lld ms: killed\n",
                      (long long)r->spec->timeout_ms);
    else if (kills > 0)
        (void)fprintf(stderr,
                      "rind: out of memory: the kernel killed %lu process%s for the sandbox's "
                      "limit (--memory)\n",
                      kills, kills > 1 ? "es" : "");
}

static int run_remove_sandbox(struct run *r)
{
    struct err err = ERR_NONE;
    int n;

    stdio_sockets_close(&r->sockets);
    if (r->sandbox_id.control < 0)
        return 0;
    (void)close(r->sandbox_id.control);
    (void)close(r->sandbox_id.pidfd);
    n = launcher_kill(r->launcher, r->id, &err);
    run_watch_end(&r->watch); /* it has our locks, too */
    if (n == 0)
        n = launcher_release(r->launcher, r->id, &err);
    if (n < 0)
        (void)fprintf(stderr, "rind: %s\n", err.msg);
    return n;
}

static int run_status(const struct run *r)
{
    if (WIFEXITED(r->wait_status))
        return WEXITSTATUS(r->wait_status);
    return 128 + WTERMSIG(r->wait_status);
}

int core_run(const struct core_config *cfg, struct spec *spec, int *ret_status, struct err *err)
{
    static const char *prefixes[] = {
        "/", NULL}; /* the user of this command is the owner and may mount what they can name */
    struct run r = {.spec = spec,
                    .err = err,
                    .sandbox_id = {.pidfd = FD_NONE, .control = FD_NONE},
                    .signal_fd = FD_NONE,
                    .use_fd = FD_NONE,
                    .watch = {.life_fd = FD_NONE},
                    .terminal = {.fd = FD_NONE},
                    .sockets = STDIO_SOCKETS_NONE,
                    .failure_status = STATUS_RIND};
    int n;

    *ret_status = STATUS_RIND;
    if (spec->port_count > 0)
        return err_set(
            err, -EOPNOTSUPP,
            "publish: no process would serve the port; sandboxes of a daemon (rind serve) "
            "can have some");
    n = run_open_launcher(&r, cfg, prefixes);
    if (n == 0)
        n = volumes_name_anonymous(spec, err);
    if (n == 0) {
        r.signal_fd = terminal_take_signals(false, NULL);
        if (r.signal_fd < 0)
            n = err_errno(err, r.signal_fd, "signals");
    }
    if (n == 0 && spec->image != NULL)
        n = run_image(launcher_state_fd(r.launcher), spec, &r.use_fd, err);
    if (n == 0)
        n = run_start_sandbox(&r);
    if (n == 0 && cfg->on_id != NULL)
        n = cfg->on_id(cfg->data, r.id, err);
    if (n == 0)
        n = run_supervise(&r);
    if (n == 0)
        *ret_status = run_status(&r);
    else
        *ret_status = r.failure_status;
    if (r.launcher != NULL && r.sandbox_id.control >= 0) {
        run_explain_end(&r);
        (void)run_remove_sandbox(&r);
    }
    if (r.launcher != NULL)
        volumes_alone_end(r.launcher, spec);
    launcher_free(r.launcher);
    network_close(&r.network);
    host_rootfs_free(r.host);
    if (r.signal_fd >= 0)
        (void)close(r.signal_fd);
    if (r.use_fd >= 0)
        (void)close(r.use_fd);
    return n;
}
