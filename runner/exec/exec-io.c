#include "exec/exec-io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum {
    ENDS = 3,
    TTY_EOF = 4, /* ^D */
    /* A program writes to its terminal line by line, and each line would be a frame of its own:
     * what follows closely upon another is left to gather for a moment. Not where a full terminal
     * would wait for us meanwhile. */
    PACE_MS = 1,
    PACE_FULL = 4096, /* bytes at a time from which on nothing is gained */
    PACE_SMALL = 1024,
    PACE_OFF = 64, /* so many times it is left alone then, or until it says little again */
};

struct end {
    uv_poll_t poll;
    int fd;     /* owned; the socket to init; -1 = closed, or there is none */
    int events; /* that are watched: to say so again costs two system calls */
    bool bulk;  /* the last piece of output was large */
};

struct exec_io {
    struct exec *exec; /* owned reference */
    const struct exec_io_ops *ops;
    void *data;
    struct end ends[ENDS]; /* a terminal's is [0] alone */
    uv_timer_t later;      /* goes on from the loop: at once, or after a moment */
    uint64_t read_at;      /* of a terminal, by uv_hrtime */
    unsigned pace_off;
    unsigned handles;
    bool tty, paused, exited, told, closing, input_ending;
    bool gathering;   /* a terminal's output, until `later` */
    bool mid_line;    /* the last input did not end with a line's end */
    bool deaf;        /* of a terminal: what it says is dropped */
    struct buf input; /* what the process has not taken yet */
};

/* Shared by all execs: the loop has one thread, and takers copy. */
static char chunk[EXEC_IO_CHUNK];

static void on_poll(uv_poll_t *h, int status, int events);
static void on_later(uv_timer_t *h);

/* ---- ends ---- */

static bool io_is_output(const struct exec_io *io, int i)
{
    return io->tty ? i == 0 : i > 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct exec_io *io = h->data;

    if (--io->handles > 0)
        return;
    buf_done(&io->input);
    free(io);
}

static void io_close_end(struct exec_io *io, int i)
{
    struct end *end = &io->ends[i];

    if (end->fd < 0)
        return;
    uv_close((uv_handle_t *)&end->poll, on_handle_closed);
    (void)close(take_fd(&end->fd));
}

/* Init keeps its own duplicate of the socket of a kept exec: to close ours would not tell it. */
static void io_end_stream(struct exec_io *io, int i)
{
    if (io->ends[i].fd >= 0)
        (void)shutdown(io->ends[i].fd, SHUT_RDWR);
    io_close_end(io, i);
}

static int io_open_end(struct exec_io *io, int i, int fd)
{
    int r = uv_poll_init(io->later.loop, &io->ends[i].poll, fd);

    if (r < 0) {
        (void)close(fd);
        return r;
    }
    io->ends[i].poll.data = io;
    io->ends[i].fd = fd;
    io->handles++;
    return 0;
}

static void io_watch(struct exec_io *io, int i)
{
    struct end *end = &io->ends[i];
    int events = 0;

    if (end->fd < 0)
        return;
    if (io_is_output(io, i) && !io->paused && !io->gathering)
        events |= UV_READABLE;
    if (i == 0 && io->input.len > 0)
        events |= UV_WRITABLE;
    if (events == end->events)
        return;
    end->events = events;
    if (events == 0)
        (void)uv_poll_stop(&end->poll);
    else
        (void)uv_poll_start(&end->poll, events, on_poll);
}

static void io_watch_all(struct exec_io *io)
{
    for (int i = 0; i < ENDS; i++)
        io_watch(io, i);
}

/* ---- output ---- */

/* Called after a terminal was read: decides whether its output is left to gather for a moment. */
static void io_pace(struct exec_io *io, size_t len)
{
    uint64_t now = uv_hrtime();
    bool close_upon = now - io->read_at < PACE_MS * UINT64_C(2000000);

    io->read_at = now;
    if (len >= PACE_FULL)
        io->pace_off = PACE_OFF;
    else if (io->pace_off > 0)
        io->pace_off = len < PACE_SMALL ? io->pace_off / 4 : io->pace_off - 1;
    else if (close_upon && !io->exited)
        io->gathering = true;
    if (io->gathering)
        (void)uv_timer_start(&io->later, on_later, PACE_MS, 0);
}

static int *io_stage(const struct exec_io *io)
{
    return supervisor_stage(sandbox_supervisor(exec_sandbox(io->exec)));
}

/* Whether the next piece goes by pipe. */
static bool io_goes_by_pipe(const struct exec_io *io, int i)
{
    return !io->tty && io->ends[i].bulk && io->ops->takes_pipe != NULL && io_stage(io)[0] >= 0 &&
           io->ops->takes_pipe(io->data);
}

/* Nothing that one process has said may be left there for the client of the next. */
static void stage_empty(int stage[2])
{
    char rest[4096];
    ssize_t n;

    do
        n = read(stage[0], rest, sizeof(rest));
    while (n > 0 || (n < 0 && errno == EINTR));
    if (n < 0 && errno == EAGAIN)
        return;
    for (int i = 0; i < 2; i++)
        (void)close(take_fd(&stage[i]));
    if (pipe2(stage, O_CLOEXEC | O_NONBLOCK) < 0)
        log_warn("exec", "no pipe for output (%s), all of it is copied from now on",
                 strerror(errno));
}

/* As read(2), but not interrupted by signals. */
static ssize_t io_read(const struct exec_io *io, int i)
{
    ssize_t n;

    do
        n = read(io->ends[i].fd, chunk, sizeof(chunk));
    while (n < 0 && errno == EINTR);
    return n;
}

/* As io_read, but through the stage pipe. *ret_piped: the taker has had the piece from that pipe.
 * It goes through a pipe because its length is announced to the client first, and a pipe tells it.
 */
static ssize_t io_pass(struct exec_io *io, int i, bool *ret_piped)
{
    int *stage = io_stage(io);
    ssize_t n;

    n = splice(io->ends[i].fd, NULL, stage[1], NULL, sizeof(chunk),
               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n <= 0)
        return n < 0 && errno != EAGAIN ? io_read(io, i) : n;
    *ret_piped = n >= EXEC_IO_BULK;
    if (!*ret_piped)
        n = (ssize_t)read_held(stage[0], chunk, (size_t)n);
    else if (!io->ops->piped(io->data, i == 2 ? 2 : 1, stage[0], (size_t)n) && !io->closing)
        io->paused = true;
    stage_empty(stage);
    return n;
}

/* Reads once. 1: something; 0: nothing now; -1: it has ended. */
static int io_read_once(struct exec_io *io, int i)
{
    bool piped = false;
    ssize_t n = io_goes_by_pipe(io, i) ? io_pass(io, i, &piped) : io_read(io, i);

    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0) /* an init that ended with input unread resets the connection */
        return -1;
    io->ends[i].bulk = n >= EXEC_IO_BULK;
    if (piped)
        return 1;
    if (io->tty)
        io_pace(io, (size_t)n);
    if (io->deaf)
        return 1;
    if (!io->ops->output(io->data, i == 2 ? 2 : 1, chunk, (size_t)n) && !io->closing)
        io->paused = true;
    return 1;
}

/* Tells the end, if it is the end. */
static void io_check_end(struct exec_io *io)
{
    for (int i = 0; i < ENDS; i++)
        if (io->ends[i].fd >= 0 && io_is_output(io, i))
            return;
    if (!io->exited || io->told || io->closing)
        return;
    io_close_end(io, 0);
    io->told = true;
    exec_output_read(io->exec);
    io->ops->ended(io->data);
}

/* Reads what has come of one stream. */
static void io_read_all(struct exec_io *io, int i)
{
    int r = 1;

    while (io->ends[i].fd >= 0 && !io->paused && !io->gathering && r > 0) {
        r = io_read_once(io, i);
        if (io->closing)
            return;
    }
    if (r < 0)
        io_close_end(io, i);
}

static void on_later(uv_timer_t *h)
{
    struct exec_io *io = h->data;

    io->gathering = false;
    io_watch_all(io);
    io_check_end(io);
}

/* Most often all of its output, and the end of it, are there already. */
static void on_exited(void *data, struct exec *e)
{
    struct exec_io *io = data;

    (void)e;
    io->exited = true;
    io->gathering = false;
    for (int i = 0; i < ENDS && !io->closing; i++)
        if (io_is_output(io, i))
            io_read_all(io, i);
    if (io->closing)
        return;
    io_watch_all(io);
    io_check_end(io);
}

/* ---- input ---- */

static void io_input_done(struct exec_io *io)
{
    buf_done(&io->input);
    io->input.max = EXEC_IO_INPUT_MAX;
    if (!io->input_ending)
        return;
    io->input_ending = false;
    if (!io->tty) /* else its end of file is among the bytes */
        io_end_stream(io, 0);
}

/* Returns the bytes written; -1: the process will never read any. */
static ssize_t io_write_some(struct exec_io *io, const char *data, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n;

        n = write(io->ends[0].fd, data + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* The process has closed its stdin, or is gone: as with a pipe in a shell, that is its own affair.
 */
static void io_drop_input(struct exec_io *io)
{
    buf_done(&io->input);
    io->input.max = EXEC_IO_INPUT_MAX;
    if (!io->tty)
        io_close_end(io, 0);
}

static void io_flush_input(struct exec_io *io)
{
    ssize_t n = io_write_some(io, io->input.data, io->input.len);

    if (n < 0) {
        io_drop_input(io);
    } else {
        buf_consume(&io->input, (size_t)n);
        if (io->input.len > 0)
            return;
        io_input_done(io);
    }
    if (io->ops->writable != NULL)
        io->ops->writable(io->data);
}

bool exec_io_write(struct exec_io *io, const void *data, size_t len)
{
    ssize_t n = 0;

    if (io->ends[0].fd < 0 || io->input_ending || io->exited || len == 0)
        return true;
    io->mid_line = ((const char *)data)[len - 1] != '\n' && ((const char *)data)[len - 1] != '\r';
    if (io->input.len == 0)
        n = io_write_some(io, data, len);
    if (n < 0) {
        io_drop_input(io);
        return true;
    }
    if ((size_t)n == len)
        return true;
    if (buf_append(&io->input, (const char *)data + n, len - (size_t)n) < 0) {
        /* A hole in its input would be a lie: it sees the end early, and a signal why. */
        (void)exec_signal(io->exec, SIGKILL, true);
        io_drop_input(io);
        return true;
    }
    io_watch(io, 0);
    return false;
}

/* Types ^D as a user does: the first ends an unfinished line, the next the input. They queue behind
 * earlier input. */
static void io_type_end(struct exec_io *io)
{
    static const char eof[] = {TTY_EOF, TTY_EOF};

    (void)exec_io_write(io, eof, io->mid_line ? 2 : 1);
    io->mid_line = false;
}

void exec_io_end_input(struct exec_io *io)
{
    if (io->ends[0].fd < 0 || io->input_ending)
        return;
    if (io->tty)
        io_type_end(io);
    io->input_ending = true;
    if (io->input.len == 0)
        io_input_done(io);
}

void exec_io_give(struct exec_io *io, struct buf *input)
{
    io->input = *input;
    *input = (struct buf){.max = 0};
    io->input_ending = true;
}

/* ---- the loop calls ---- */

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct exec_io *io = h->data;
    int i = 0;

    while (&io->ends[i].poll != h)
        i++;
    if (status < 0)
        io->ends[i].events = 0; /* libuv has stopped it */
    if (i == 0 && io->input.len > 0 && (status < 0 || (events & UV_WRITABLE) != 0))
        io_flush_input(io);
    if (io->closing || io->ends[i].fd < 0)
        return;
    if (io_is_output(io, i) && !io->paused && (status < 0 || (events & UV_READABLE) != 0) &&
        io_read_once(io, i) < 0)
        io_close_end(io, i);
    if (io->closing)
        return;
    if (io->paused)
        io_watch_all(io);
    else
        io_watch(io, i);
    io_check_end(io);
}

static int io_open_ends(struct exec_io *io, struct exec *e, struct err *err)
{
    int fds[ENDS], r = 0;

    io->tty = exec_is_tty(e);
    exec_take_sockets(e, fds);
    for (int i = 0; i < ENDS; i++)
        if (fds[i] >= 0 && r == 0)
            r = io_open_end(io, i, fds[i]);
        else if (fds[i] >= 0)
            (void)close(fds[i]);
    if (r < 0)
        (void)exec_signal(e, SIGKILL, true);
    return r < 0 ? err_errno(err, r, "exec: watch its output") : 0;
}

static void on_started(void *data, struct exec *e)
{
    struct exec_io *io = data;
    struct err err = ERR_NONE;

    if (io_open_ends(io, e, &err) < 0) {
        io->ops->failed(io->data, &err, -1);
        return;
    }
    io->ops->started(io->data);
    if (!io->closing && io->input_ending)
        io_flush_input(io);
    if (!io->closing)
        io_watch_all(io);
}

static void on_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct exec_io *io = data;

    (void)e;
    io->told = true;
    io->ops->failed(io->data, err, exit_code);
}

static const struct exec_events exec_events = {
    .started = on_started, .failed = on_failed, .exited = on_exited};

/* ---- life ---- */

static struct exec_io *io_new(uv_loop_t *loop, const struct exec_io_ops *ops, void *data)
{
    struct exec_io *io = calloc(1, sizeof(*io));

    if (io == NULL)
        return NULL;
    *io = (struct exec_io){.ops = ops,
                           .data = data,
                           .ends = {{.fd = FD_NONE}, {.fd = FD_NONE}, {.fd = FD_NONE}},
                           .input = BUF_INIT(EXEC_IO_INPUT_MAX),
                           .handles = 1};
    (void)uv_timer_init(loop, &io->later); /* cannot fail */
    io->later.data = io;
    return io;
}

int exec_io_start(struct sandbox *s, const struct exec_options *o, const struct exec_io_ops *ops,
                  void *data, struct exec_io **ret, struct err *err)
{
    struct exec_io *io = io_new(supervisor_loop(sandbox_supervisor(s)), ops, data);
    int r;

    if (io == NULL)
        return err_errno(err, -ENOMEM, "exec");
    r = exec_start(s, o, &exec_events, io, &io->exec, err);
    if (r < 0) {
        exec_io_close(io);
        return r;
    }
    *ret = io;
    return 0;
}

int exec_io_attach(struct exec *e, const struct exec_io_ops *ops, void *data, struct exec_io **ret,
                   struct err *err)
{
    struct exec_io *io = io_new(supervisor_loop(sandbox_supervisor(exec_sandbox(e))), ops, data);
    int r;

    if (io == NULL)
        return err_errno(err, -ENOMEM, "exec");
    r = exec_attach(e, &exec_events, io, err);
    if (r < 0) {
        exec_io_close(io);
        return r;
    }
    io->exec = exec_ref(e);
    *ret = io;
    return 0;
}

int exec_io_take(struct exec *e, const struct exec_io_ops *ops, void *data, struct exec_io **ret,
                 struct err *err)
{
    struct exec_io *io = io_new(supervisor_loop(sandbox_supervisor(exec_sandbox(e))), ops, data);
    int r;

    if (io == NULL)
        return err_errno(err, -ENOMEM, "exec");
    exec_listen(e, &exec_events, io);
    io->exec = exec_ref(e);
    r = io_open_ends(io, e, err);
    if (r < 0) {
        exec_io_close(io);
        return r;
    }
    io_watch_all(io);
    *ret = io;
    return 0;
}

void exec_io_close_output(struct exec_io *io, int stream)
{
    if (io->tty) {
        io->deaf = true;
        return;
    }
    io_end_stream(io, stream);
    (void)uv_timer_start(&io->later, on_later, 0, 0); /* it may be the last that was waited for */
}

void exec_io_hang_up(struct exec_io *io)
{
    for (int i = 0; i < ENDS; i++)
        io_close_end(io, i);
    (void)uv_timer_start(&io->later, on_later, 0, 0);
}

struct exec *exec_io_exec(const struct exec_io *io)
{
    return io->exec;
}

void exec_io_resume(struct exec_io *io)
{
    if (!io->paused || io->closing)
        return;
    io->paused = false;
    io_watch_all(io);
}

void exec_io_close(struct exec_io *io)
{
    if (io == NULL || io->closing)
        return;
    io->closing = true;
    if (io->exec != NULL) {
        exec_silence(io->exec);
        exec_unref(io->exec);
        io->exec = NULL;
    }
    for (int i = 0; i < ENDS; i++)
        io_close_end(io, i);
    uv_close((uv_handle_t *)&io->later, on_handle_closed);
}
