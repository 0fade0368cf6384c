/*
 * The session of an attached command. One poll loop in the client process moves input, output and
 * signals.
 */

#include "cli/attached.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/signal-escalation.h"
#include "base/terminal.h"
#include "cli/cli.h"
#include "cli/frames.h"
#include "json/parse.h"
#include "spec/signals.h"

enum {
    PIECE = 64 << 10, /* size of each direction's buffer */
    DETACH_MS = 2000, /* time for the daemon to react to DETACH */
    AGAIN_MS = 30000, /* time for a lost daemon to come back */
    AGAIN_PAUSE_MS = 50,
    CTRL_C = 3,
};

/* One of our output streams. */
struct sink {
    int fd;
    bool whole;  /* a regular file: writes never block */
    bool closed; /* the reader has gone: output is dropped */
    size_t at, len;
    char data[PIECE];
};

struct attached {
    struct attached_options options;
    struct terminal terminal;
    struct keys keys;
    sigset_t before; /* the signal mask of the caller */
    int signal_fd;
    struct client *client; /* borrowed */
    int sock;              /* the client's socket */
    struct frames frames;
    size_t in_at, in_len; /* received from the daemon, not decoded yet */
    char in[PIECE];
    size_t up_at, up_len; /* bytes for the daemon: one frame, or a few small ones */
    char up[EXEC_FRAME_HEAD + PIECE + KEYS_MAX];
    struct sink sinks[3]; /* 1, 2 */
    /* Notices sent as soon as `up` is empty; of each kind only the latest. */
    uint64_t signals; /* bit mask by signal number */
    bool resize, input_ended, detach, output_closed[3];
    bool input_open, input_over, input_sent, detached, hung_up;
    int64_t deadline; /* deadline of the hang-up or the detaching, CLOCK_MONOTONIC ms; 0 = none */
    struct signal_escalation signal_escalation;
    bool own;     /* the command is killed on the third interrupt, not detached from */
    bool waiting; /* for a reply of the daemon */
    bool gave_up;
};

/* ---- setting up ---- */

static void sink_open(struct sink *s, int fd)
{
    struct stat st;

    s->fd = fd;
    s->whole = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int attached_new(const struct attached_options *o, struct attached **ret, struct err *err)
{
    struct attached *a = calloc(1, sizeof(*a));
    int r;

    if (a == NULL)
        return err_errno(err, -ENOMEM, "attach");
    a->options = *o;
    if (o->tty && o->input)
        a->keys = o->detach;
    a->terminal.fd = a->signal_fd = FD_NONE;
    a->input_open = o->input;
    a->input_over = a->input_ended = o->no_input;
    sink_open(&a->sinks[1], STDOUT_FILENO);
    sink_open(&a->sinks[2], STDERR_FILENO);
    /* SIGTSTP is taken, too: the terminal is restored before stopping. */
    r = a->signal_fd = terminal_take_signals(o->tty, &a->before);
    if (r < 0) {
        free(a);
        return err_errno(err, r, "signals");
    }
    *ret = a;
    return 0;
}

void attached_free(struct attached *a)
{
    if (a == NULL)
        return;
    terminal_end(&a->terminal);
    (void)close(a->signal_fd);
    (void)sigprocmask(SIG_SETMASK, &a->before, NULL);
    frames_done(&a->frames);
    free(a);
}

/* ---- frames to the daemon ---- */

static void put_frame(struct attached *a, enum exec_frame type, const void *data, size_t len)
{
    exec_frame_head((unsigned char *)a->up + a->up_len, type, len);
    a->up_len += EXEC_FRAME_HEAD;
    if (len > 0)
        (void)memcpy(a->up + a->up_len, data, len);
    a->up_len += len;
}

static void put_size(struct attached *a)
{
    uint16_t rows, cols;

    terminal_size(&rows, &cols);

    const unsigned char size[] = {(unsigned char)(rows >> 8), (unsigned char)rows,
                                  (unsigned char)(cols >> 8), (unsigned char)cols};

    put_frame(a, EXEC_FRAME_RESIZE, size, sizeof(size));
}

static void put_signals(struct attached *a)
{
    for (int signo = 1; a->signals != 0; signo++, a->signals >>= 1) {
        char text[SIGNAL_TEXT_MAX];

        if ((a->signals & 1) == 0)
            continue;
        signal_format(signo, text);
        put_frame(a, EXEC_FRAME_SIGNAL, text, strlen(text));
    }
}

/* Collects the small notices into `up`, which is empty, ahead of the next input. */
static void put_pending(struct attached *a)
{
    a->up_at = a->up_len = 0;
    if (a->resize)
        put_size(a);
    put_signals(a);
    for (unsigned char i = 1; i <= 2; i++)
        if (a->output_closed[i])
            put_frame(a, EXEC_FRAME_OUTPUT_CLOSE, &i, 1);
    if (a->input_ended)
        put_frame(a, EXEC_FRAME_STDIN_CLOSE, NULL, 0);
    if (a->detach)
        put_frame(a, EXEC_FRAME_DETACH, NULL, 0);
    a->detached |= a->detach;
    a->resize = a->input_ended = a->detach = a->output_closed[1] = a->output_closed[2] = false;
}

static void want_signal(struct attached *a, int signo)
{
    if (signo >= 1 && signo <= 64)
        a->signals |= UINT64_C(1) << (signo - 1);
}

/*
 * Our terminal has hung up. The command gets SIGHUP and TERMINAL_HANGUP_MS, as in a shell's
 * session.
 */
static void check_hangup(struct attached *a)
{
    if (!a->options.tty || a->hung_up || !terminal_has_hung_up())
        return;
    a->hung_up = true;
    want_signal(a, SIGHUP);
    a->deadline = clock_mono_ms() + TERMINAL_HANGUP_MS;
}

/* Detaches: the command continues without this client. */
static void attached_detach(struct attached *a)
{
    a->detach = true;
    a->input_open = false;
    a->deadline = clock_mono_ms() + DETACH_MS;
}

static void end_input(struct attached *a)
{
    check_hangup(a);
    a->input_open = false;
    if (!a->hung_up)
        a->input_over = a->input_ended = true;
}

/* Reads input into `up`, which is empty: one frame. */
static void read_input(struct attached *a)
{
    char bytes[PIECE];
    size_t len = 0;
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    a->up_at = 0;
    if (n <= 0) {
        if (a->keys.matched > 0)
            put_frame(a, EXEC_FRAME_STDIN, a->keys.keys, a->keys.matched);
        a->keys.matched = 0;
        end_input(a);
        return;
    }
    if (keys_filter(&a->keys, bytes, (size_t)n, a->up + EXEC_FRAME_HEAD, &len)) {
        attached_detach(a);
    }
    if (len == 0)
        return;
    exec_frame_head((unsigned char *)a->up, EXEC_FRAME_STDIN, len);
    a->up_len = EXEC_FRAME_HEAD + len;
    a->input_sent = true;
}

static void send_to_daemon(struct attached *a)
{
    ssize_t n = send(a->sock, a->up + a->up_at, a->up_len - a->up_at, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n > 0)
        a->up_at += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        a->up_at = a->up_len; /* recv returns the error's cause */
    if (a->up_at == a->up_len)
        a->up_at = a->up_len = 0;
}

/* ---- frames from the daemon ---- */

static size_t on_frames_output(void *data, int stream, const char *bytes, size_t len)
{
    struct sink *s = &((struct attached *)data)->sinks[stream];
    size_t n = sizeof(s->data) - s->len;

    if (s->closed)
        return len;
    if (s->at == s->len) {
        s->at = s->len = 0;
        n = sizeof(s->data);
    }
    n = n < len ? n : len;
    (void)memcpy(s->data + s->len, bytes, n);
    s->len += n;
    return n;
}

/* The stream's reader has gone. OUTPUT_CLOSE makes the command see a closed pipe, too. */
static void sink_lost(struct attached *a, int i)
{
    a->sinks[i].closed = true;
    a->sinks[i].at = a->sinks[i].len = 0;
    check_hangup(a);
    a->output_closed[i] = !a->options.tty;
}

static void write_sink(struct attached *a, int i)
{
    struct sink *s = &a->sinks[i];

    while (s->at < s->len) {
        ssize_t n = terminal_write(s->fd, s->whole, s->data + s->at, s->len - s->at);

        if (n == -EINTR || n == -EAGAIN)
            return;
        if (n < 0) {
            sink_lost(a, i);
            return;
        }
        s->at += (size_t)n;
    }
}

static bool sinks_empty(const struct attached *a)
{
    return a->sinks[1].at == a->sinks[1].len && a->sinks[2].at == a->sinks[2].len;
}

/* Decodes until all input is decoded, or a sink is full and must be waited for. */
static int attached_decode(struct attached *a, struct err *err)
{
    size_t used;
    int r;

    do {
        r = frames_feed(&a->frames, a->in + a->in_at, a->in_len - a->in_at, on_frames_output, a,
                        &used, err);
        a->in_at += used;
        write_sink(a, 1);
        write_sink(a, 2);
    } while (r == 0 && a->in_at < a->in_len && a->frames.end_type == 0 &&
             (used > 0 || sinks_empty(a)));
    if (a->in_at == a->in_len || a->frames.end_type != 0)
        a->in_at = a->in_len = 0;
    return r;
}

/* Reads from the daemon. -ECONNRESET: the connection is lost. */
static int attached_receive(struct attached *a, struct err *err)
{
    ssize_t n = recv(a->sock, a->in, sizeof(a->in), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -ECONNRESET;
    a->in_at = 0;
    a->in_len = (size_t)n;
    return attached_decode(a, err);
}

/* ---- signals ---- */

/*
 * SIGTSTP: restores the terminal while this process is stopped, since the shell does job control.
 */
static void stop_ourselves(struct attached *a)
{
    terminal_end(&a->terminal);
    (void)kill(getpid(), SIGSTOP);
    terminal_begin(&a->terminal, a->options.input);
    a->resize = true;
}

/* Called for the third and each later interrupt. */
static void on_repeated_interrupt(struct attached *a, unsigned times)
{
    const char *again = a->terminal.fd >= 0 ? "\r" : "";

    if (times > SIGNAL_ESCALATION_TIMES || a->waiting) {
        a->gave_up = true;
        return;
    }
    if (a->own)
        want_signal(a, SIGKILL);
    else
        attached_detach(a);
    (void)fprintf(stderr, "rind: interrupted %d times: %s\n%s", SIGNAL_ESCALATION_TIMES,
                  a->own ? "the command is killed" : "left; the command goes on", again);
}

static void read_signals(struct attached *a)
{
    struct signalfd_siginfo info;

    while (read(a->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        int signo = (int)info.ssi_signo;
        unsigned times;

        if (signo == SIGTSTP) {
            stop_ourselves(a);
            continue;
        }
        times = signal_escalation_note(&a->signal_escalation, signo, clock_mono_ms());
        if (signo == SIGWINCH && a->options.tty)
            a->resize = true;
        else if (times >= SIGNAL_ESCALATION_TIMES)
            on_repeated_interrupt(a, times);
        else
            want_signal(a, signo);
        if (signo == SIGHUP)
            check_hangup(a);
    }
}

/* ---- the loop ---- */

enum { AT_SOCK, AT_SIGNALS, AT_INPUT, AT_OUT, AT_ERR, AT_COUNT };

static void attached_prepare_poll(struct attached *a, struct pollfd p[AT_COUNT])
{
    bool room = a->in_len == 0 && a->frames.end_type == 0;

    if (a->up_len == 0)
        put_pending(a);
    p[AT_SOCK] = (struct pollfd){.fd = a->frames.end_type == 0 ? a->sock : -1};
    if (room)
        p[AT_SOCK].events |= POLLIN;
    if (a->up_len > 0)
        p[AT_SOCK].events |= POLLOUT;
    if (p[AT_SOCK].events == 0)
        p[AT_SOCK].fd = -1; /* poll would report POLLHUP endlessly */
    p[AT_SIGNALS] = (struct pollfd){.fd = a->signal_fd, .events = POLLIN};
    p[AT_INPUT] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (a->input_open && a->up_len == 0 && a->frames.end_type == 0)
        p[AT_INPUT].fd = STDIN_FILENO;
    for (int i = 1; i <= 2; i++)
        p[AT_OUT + i - 1] = (struct pollfd){
            .fd = a->sinks[i].at < a->sinks[i].len ? a->sinks[i].fd : -1, .events = POLLOUT};
}

static int timeout_of(const struct attached *a)
{
    int64_t left = a->deadline - clock_mono_ms();

    if (a->deadline == 0)
        return -1;
    return left < 0 ? 0 : (int)left;
}

static int gave_up(struct err *err)
{
    return err_set(err, -EINTR, "interrupted: the daemon was not waited for any longer");
}

static void check_deadline(struct attached *a)
{
    if (a->deadline == 0 || clock_mono_ms() < a->deadline || !a->hung_up)
        return;
    a->deadline = 0;
    want_signal(a, SIGKILL);
}

/* Runs one round of poll. 1: complete. -ECONNRESET: the connection is lost. */
static int attached_poll_once(struct attached *a, struct err *err)
{
    struct pollfd p[AT_COUNT];
    int r = 0;

    if (a->in_len > 0)
        r = attached_decode(a, err);
    if (r < 0)
        return r;
    if (a->frames.end_type != 0 && sinks_empty(a))
        return 1;
    attached_prepare_poll(a, p);
    if (poll(p, AT_COUNT, timeout_of(a)) < 0)
        return errno == EINTR ? 0 : err_errno(err, -errno, "poll");
    check_deadline(a);
    if (p[AT_SIGNALS].revents != 0)
        read_signals(a);
    if (a->gave_up)
        return gave_up(err);
    for (int i = 1; i <= 2; i++)
        if (p[AT_OUT + i - 1].revents != 0)
            write_sink(a, i);
    if (p[AT_INPUT].revents != 0)
        read_input(a);
    if (p[AT_SOCK].fd >= 0 && a->up_len > 0)
        send_to_daemon(a);
    if ((p[AT_SOCK].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && a->in_len == 0)
        r = attached_receive(a, err);
    if (a->detached && (r == -ECONNRESET || (a->deadline != 0 && clock_mono_ms() >= a->deadline)))
        return 1;
    return r;
}

static int attached_move(struct attached *a, struct err *err)
{
    int r;

    do
        r = attached_poll_once(a, err);
    while (r == 0);
    return r < 0 ? r : 0;
}

/* ---- reconnecting ---- */

/* Called by the client while it waits for a reply. */
static int on_reply_wait(void *data, struct err *err)
{
    struct attached *a = data;

    read_signals(a);
    return a->gave_up ? gave_up(err) : 0;
}

int attached_request(struct attached *a, struct client *c, const struct client_request *request,
                     struct err *err)
{
    int r;

    a->waiting = true;
    client_watch(c, a->signal_fd, on_reply_wait, a);
    r = client_send(c, request, err);
    if (r == 0)
        r = client_head(c, err);
    client_watch(c, FD_NONE, NULL, NULL);
    a->waiting = false;
    return r;
}

static int attached_read_head(struct attached *a, struct err *err)
{
    const char *bytes;
    size_t len;

    a->sock = client_upgraded(a->client, &bytes, &len, err);
    if (a->sock < 0)
        return a->sock;
    (void)memcpy(a->in, bytes, len);
    a->in_at = 0;
    a->in_len = len;
    return 0;
}

static int attached_reattach(struct attached *a, const char *again, bool own, struct err *err)
{
    const struct client_request request = {.method = "POST",
                                           .target = again,
                                           .json = json_pack("{s:b}", "own", own),
                                           .flags = CLIENT_UPGRADE};
    int r;

    if (request.json == NULL)
        return err_errno(err, -ENOMEM, "attach");
    r = attached_request(a, a->client, &request, err);
    return r < 0 ? r : attached_read_head(a, err);
}

/* True if the user does not want to wait: a signal, or Ctrl-C on a raw terminal. */
static bool is_impatient(struct attached *a)
{
    struct pollfd p[] = {
        {.fd = a->signal_fd, .events = POLLIN},
        {.fd = a->terminal.fd >= 0 && a->options.input ? STDIN_FILENO : -1, .events = POLLIN}};
    char keys[64];
    ssize_t n;

    if (poll(p, 2, AGAIN_PAUSE_MS) <= 0)
        return false;
    if (p[1].revents != 0) {
        n = read(STDIN_FILENO, keys, sizeof(keys));
        return n <= 0 || memchr(keys, CTRL_C, (size_t)n) != NULL;
    }
    read_signals(a);
    return (a->signals & ~(UINT64_C(1) << (SIGWINCH - 1) | UINT64_C(1) << (SIGCONT - 1))) != 0;
}

static bool is_worth_trying(int code)
{
    return client_is_lost(code) || code == -ENOENT || code == -ECONNREFUSED || code == -EBUSY ||
           code == -EAGAIN;
}

/* Resets the state of the connection; output in our sinks is kept. */
static void forget_connection(struct attached *a)
{
    if (a->up_at > 0)
        a->up_at = a->up_len = 0; /* a part was sent; the rest is no valid frame */
    frames_done(&a->frames);
    a->frames = (struct frames){.head_len = 0};
    a->in_at = a->in_len = 0;
    a->resize = a->options.tty;
    a->input_ended = a->input_over && !a->options.tty; /* the new daemon may not know of it */
}

static int attached_reconnect(struct attached *a, const char *again, bool own, struct err *err)
{
    int64_t end = clock_mono_ms() + AGAIN_MS;
    struct err why = ERR_NONE;
    int r;

    forget_connection(a);
    do {
        r = attached_reattach(a, again, own, &why);
        if (r == 0 || !is_worth_trying(r))
            break;
    } while (clock_mono_ms() < end && !is_impatient(a));
    if (r < 0)
        return err_set(err, r, "the connection to the daemon was lost, and not found again: %s",
                       why.msg);
    /*
     * Input already taken by the old daemon may be lost, and a gap in a pipe's data must not go
     * unnoticed.
     */
    if (a->input_sent && !a->options.tty)
        return err_set(err, -ECONNRESET,
                       "the connection to the daemon was lost while input was under way: ended, "
                       "because some of it may be missing");
    (void)fprintf(stderr,
                  "rind: the daemon was restarted, attached again; output of that moment "
                  "may be missing\n%s",
                  a->terminal.fd >= 0 ? "\r" : "");
    return 0;
}

/* ---- result ---- */

static int read_end(struct attached *a, struct attached_end *ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    const char *reason;
    json_t *code;
    int r = json_parse(a->frames.end, a->frames.end_len, FRAME_END_MAX, &root, err);

    if (r < 0)
        return err_wrap(err, r, "the daemon's last frame");
    code = json_object_get(root, "exitCode");
    reason = json_string_value(json_object_get(root, "reason"));
    if (json_is_integer(code))
        ret->status = (int)json_integer_value(code);
    ret->timed_out = json_is_true(json_object_get(root, "timedOut"));
    ret->oom_killed = json_is_true(json_object_get(root, "oomKilled"));
    ret->sandbox_ended = reason != NULL && strcmp(reason, "sandboxEnded") == 0;
    if (a->frames.end_type == EXEC_FRAME_EXIT && json_is_integer(code))
        return 0;
    reason = json_string_value(json_object_get(root, "message"));
    r = (int)json_integer_value(json_object_get(root, "errno"));
    return err_set(err, r > 0 && r < 4096 ? -r : -EPROTO, "%s",
                   reason != NULL ? reason : "the daemon's last frame says nothing");
}

int attached_run(struct attached *a, struct client *c, const char *again, bool own,
                 struct attached_end *ret, struct err *err)
{
    int r;

    *ret = (struct attached_end){.status = EXIT_RIND};
    a->client = c;
    a->own = own;
    r = attached_read_head(a, err);
    if (r < 0)
        return r;
    if (a->options.tty)
        terminal_begin(&a->terminal, a->options.input);
    a->resize = a->options.tty; /* the size may have changed since the request */
    while ((r = attached_move(a, err)) == -ECONNRESET) {
        r = attached_reconnect(a, again, own, err);
        if (r < 0)
            break;
    }
    terminal_end(&a->terminal);
    if (r == -EINTR)
        ret->status = 128 + SIGINT;
    if (r < 0)
        return r;
    if (a->frames.end_type == 0) {
        ret->detached = true;
        ret->status = 0;
        return 0;
    }
    return read_end(a, ret, err);
}
