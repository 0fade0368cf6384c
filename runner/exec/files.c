#include "exec/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "proto/file-msg.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"

enum {
    READ_BYTES = 64 << 10,
    ARGS_MAX = 12,
    NOTE_MAX = 160, /* bytes of stderr that are kept for an error message */
    ERRNO_MAX = 4095,
    INPUT_MAX = 4 * FILES_INPUT_PAUSE, /* the writer pauses long before */
};

enum op_state { OP_QUEUED = 1, OP_INIT, OP_RUNNING, OP_OVER };
enum { IN = 0, OUT, ERR, STREAMS };

struct file_op {
    struct sandbox *sandbox;      /* a reference */
    struct file_op *next, **link; /* in its queue */
    enum op_state state;
    struct file_request request;
    char *argv[ARGS_MAX + 1]; /* owned */
    char *user;               /* owned, or NULL */
    struct file_events events;
    void *data;

    struct exec *exec; /* a reference, or NULL */
    uv_poll_t in;
    int in_fd;                /* owned; while open[IN] */
    struct buf queue;         /* what it has not taken yet */
    uv_pipe_t pipes[STREAMS]; /* OUT and ERR */
    bool open[STREAMS], reading[STREAMS], ended[STREAMS];
    unsigned handles; /* not closed yet */
    bool exited, paused, counted, cancelled, calling, init_pending;
    bool want_drain, input_ended;

    struct frame_decoder decoder;
    bool succeeded; /* the last frame was success */
    int error;      /* negative: of an error frame, or of ours */
    char message[ERR_MSG_MAX];
    char note[NOTE_MAX + 1]; /* the beginning of a stderr that carries no frames */
    size_t note_len;
};

static void op_start_next(struct sandbox *s);
static void op_check(struct file_op *op);

/* ---- life ---- */

static void op_free(struct file_op *op)
{
    for (size_t i = 0; i < ARGS_MAX; i++)
        free(op->argv[i]);
    free(op->user);
    frame_decoder_done(&op->decoder);
    sandbox_unref(op->sandbox);
    free(op);
}

static void op_maybe_free(struct file_op *op)
{
    if (op->state == OP_OVER && op->handles == 0 && !op->init_pending && !op->calling)
        op_free(op);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct file_op *op = h->data;

    op->handles--;
    op_maybe_free(op);
}

static void op_close_stream(struct file_op *op, int i)
{
    op->ended[i] = true;
    if (!op->open[i])
        return;
    op->open[i] = op->reading[i] = false;
    if (i == IN) {
        uv_close((uv_handle_t *)&op->in, on_handle_closed);
        (void)close(take_fd(&op->in_fd));
        buf_done(&op->queue);
    } else {
        uv_close((uv_handle_t *)&op->pipes[i], on_handle_closed);
    }
}

/* Lets go of everything; frees when the handles are closed. */
static void op_over(struct file_op *op)
{
    struct sandbox *s = op->sandbox;

    op->state = OP_OVER;
    for (int i = 0; i < STREAMS; i++)
        op_close_stream(op, i);
    if (op->exec != NULL) {
        exec_silence(op->exec);
        exec_unref(take(op->exec)); /* kills what still runs */
    }
    if (op->counted) {
        op->counted = false;
        s->parts.files.running--;
        sandbox_ref(s);
        op_start_next(s);
        sandbox_unref(s);
    }
    op_maybe_free(op);
}

static void op_leave_queue(struct file_op *op)
{
    queue_remove(&op->sandbox->parts.files.queue, op);
    op->sandbox->parts.files.waiting--;
}

void file_op_cancel(struct file_op *op)
{
    if (op->state == OP_OVER)
        return;
    op->cancelled = true;
    if (op->state == OP_QUEUED)
        op_leave_queue(op);
    op_over(op);
}

static void op_done(struct file_op *op, int r, const struct err *err)
{
    bool tell = !op->cancelled;

    if (op->state == OP_OVER)
        return;
    op->calling = true; /* the callback may take its time with what err points to */
    op_over(op);
    if (tell)
        op->events.on_done(op->data, r, err);
    op->calling = false;
    op_maybe_free(op);
}

static void op_fail(struct file_op *op, const struct err *err)
{
    op_done(op, err->code, err);
}

/* ---- what the process says ---- */

static void op_set_error(struct file_op *op, int code, const char *message)
{
    if (op->error != 0)
        return;
    op->error = code;
    (void)snprintf(op->message, sizeof(op->message), "%s", message);
}

/* The stream breaks the protocol: whatever runs there is not to be listened to. */
static void op_broken(struct file_op *op, int code, const char *why)
{
    char message[ERR_MSG_MAX];

    (void)snprintf(message, sizeof(message), "sandbox-shim's answer: %s", why);
    op->error = 0;
    op->succeeded = false;
    op_set_error(op, code == -ENOMEM ? code : -EPROTO, message);
    for (int i = 0; i < STREAMS; i++)
        op_close_stream(op, i);
    (void)exec_signal(op->exec, SIGKILL, true);
}

/* " (os error 2)" is for the package's clients. */
static void op_take_error(struct file_op *op, const struct frame *f)
{
    size_t len = strnlen(f->text, f->text_len);
    const char *tail = memmem(f->text, len, " (os error ", 11);
    char text[ERR_MSG_MAX];

    if (tail != NULL)
        len = (size_t)(tail - f->text);
    (void)snprintf(text, sizeof(text), "%.*s", (int)(len < sizeof(text) ? len : sizeof(text) - 1),
                   f->text);
    op_set_error(op, f->code <= ERRNO_MAX ? -f->code : -EIO, text);
}

static void op_take_frame(struct file_op *op, const struct frame *f)
{
    /* A transfer begins with success, and nothing else does. */
    bool last = op->decoder.place < 0;

    if (f->kind == FRAME_ERROR)
        op_take_error(op, f);
    else if (f->kind == FRAME_SUCCESS && last)
        op->succeeded = true;
    else {
        op->succeeded = op->request.stream == FRAME_STREAM_DATA;
        if (op->events.on_frame != NULL)
            op->events.on_frame(op->data, f);
    }
}

static void op_take_control(struct file_op *op, const char *bytes, size_t len)
{
    while (len > 0 && op->state == OP_RUNNING) {
        struct frame f;
        size_t used = 0;
        int r = frame_feed(&op->decoder, bytes, len, &used, &f);

        if (r < 0) {
            op_broken(op, r, op->decoder.why);
            return;
        }
        if (r > 0)
            op_take_frame(op, &f);
        bytes += used;
        len -= used;
    }
}

static void op_take_note(struct file_op *op, const char *bytes, size_t len)
{
    if (len > NOTE_MAX - op->note_len)
        len = NOTE_MAX - op->note_len;
    (void)memcpy(op->note + op->note_len, bytes, len);
    op->note_len += len;
    while (op->note_len > 0 && op->note[op->note_len - 1] == '\n')
        op->note_len--;
    op->note[op->note_len] = '\0';
}

static int op_control_stream(const struct file_op *op)
{
    return op->request.raw ? ERR : OUT;
}

static void op_update_reading(struct file_op *op);

static void op_take_bytes(struct file_op *op, int i, const char *bytes, size_t len)
{
    if (i == op_control_stream(op))
        op_take_control(op, bytes, len);
    else if (i == ERR)
        op_take_note(op, bytes, len);
    else if (op->events.on_bytes != NULL && op->events.on_bytes(op->data, bytes, len))
        file_op_pause(op);
}

static int op_stream_of(const struct file_op *op, const uv_stream_t *h)
{
    return h == (const uv_stream_t *)&op->pipes[OUT] ? OUT : ERR;
}

/* All operations share the buffer: it is used up before the next read. */
static void on_stream_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char buffer[READ_BYTES];

    (void)h;
    (void)suggested;
    *buf = uv_buf_init(buffer, sizeof(buffer));
}

static void on_stream_read(uv_stream_t *h, ssize_t n, const uv_buf_t *buf)
{
    struct file_op *op = h->data;
    int i = op_stream_of(op, h);

    if (n == 0 || op->state != OP_RUNNING || !op->open[i])
        return;
    op->calling = true;
    if (n > 0)
        op_take_bytes(op, i, buf->base, (size_t)n);
    else
        op_close_stream(op, i);
    op->calling = false;
    op_update_reading(op);
    op_check(op);
    op_maybe_free(op);
}

/* Bytes of files come behind the first frame, which is in another pipe. */
static bool op_wants(const struct file_op *op, int i)
{
    if (op->paused && (i == OUT || i == op_control_stream(op)))
        return false;
    return i == op_control_stream(op) || i == ERR || !op->request.raw || op->decoder.place != 0 ||
           op->ended[ERR];
}

/* A paused stream waits in its socket; every other is read. */
static void op_update_reading(struct file_op *op)
{
    for (int i = OUT; i <= ERR; i++) {
        bool want = op->open[i] && op_wants(op, i);

        if (want == op->reading[i])
            continue;
        op->reading[i] = want;
        if (want)
            (void)uv_read_start((uv_stream_t *)&op->pipes[i], on_stream_alloc, on_stream_read);
        else
            (void)uv_read_stop((uv_stream_t *)&op->pipes[i]);
    }
}

/* ---- its end ---- */

static void op_conclude(struct file_op *op)
{
    const struct exec *e = op->exec;
    int code = exec_exit_code(e);
    struct err err = ERR_NONE;

    /* A success is the process's last word: a signal that comes behind it undoes nothing. */
    if (op->error == 0 && op->succeeded && op->request.stream == FRAME_STREAM_RECORDS &&
        !op->request.raw) {
        op_done(op, 0, &err);
        return;
    }
    if (op->error < 0)
        (void)err_set(&err, op->error, "%s", op->message);
    else if (exec_timed_out(e))
        (void)err_set(&err, -ETIMEDOUT, "the file operation took too long");
    else if (exec_term_signal(e) != 0)
        (void)err_set(&err, -ECANCELED,
                      "the file operation was ended by signal %d, or the sandbox was",
                      exec_term_signal(e));
    else if (code != 0)
        (void)err_set(&err, -EPROTO, "%s", op->note_len > 0 ? op->note : "sandbox-shim failed");
    else if (!op->succeeded)
        (void)err_set(&err, -EPROTO, "sandbox-shim's answer: it ended early");
    op_done(op, err.code, &err);
}

/* An operation is over when its process has ended and all that it wrote was taken. */
static void op_check(struct file_op *op)
{
    if (op->state == OP_RUNNING && op->exited && !op->calling && op->ended[OUT] && op->ended[ERR])
        op_conclude(op);
}

/* Takes fd. */
static int op_open_stream(struct file_op *op, int i, int fd)
{
    uv_loop_t *loop = supervisor_loop(op->sandbox->sup);
    int r = i == IN ? uv_poll_init(loop, &op->in, fd) : uv_pipe_init(loop, &op->pipes[i], 0);

    if (r == 0) {
        op->in.data = op->pipes[i].data = op;
        op->handles++;
        op->open[i] = true;
        if (i == IN)
            op->in_fd = fd;
        else
            r = uv_pipe_open(&op->pipes[i], fd);
    }
    if (r < 0)
        (void)close(fd);
    return r;
}

static void on_exec_started(void *data, struct exec *e)
{
    struct file_op *op = data;
    int fds[STREAMS], r = 0;

    exec_take_sockets(e, fds);
    for (int i = 0; i < STREAMS; i++) {
        if (fds[i] < 0)
            op->ended[i] = true;
        else if (r < 0)
            (void)close(fds[i]);
        else
            r = op_open_stream(op, i, fds[i]);
    }
    if (r < 0) {
        struct err err = ERR_NONE;

        (void)err_errno(&err, r, "file operation");
        op_fail(op, &err);
        return;
    }
    op_update_reading(op);
}

static void on_exec_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct file_op *op = data;
    struct err own = *err;

    (void)e;
    (void)exit_code;
    /* "No such file" would be taken for the file's. */
    if (own.code == -ENOENT)
        own.code = -EIO;
    (void)err_wrap(&own, own.code, "start sandbox-shim");
    op_fail(op, &own);
}

static void on_exec_exited(void *data, struct exec *e)
{
    struct file_op *op = data;

    (void)e;
    op->exited = true;
    if (op->state != OP_RUNNING)
        return;
    op_close_stream(op, IN);
    /* Without sockets (it was lost before it started) there is nothing to wait for. */
    for (int i = OUT; i <= ERR; i++)
        if (!op->open[i])
            op->ended[i] = true;
    op_check(op);
}

/* ---- starting ---- */

static void op_launch(struct file_op *op)
{
    static const struct exec_events events = {
        .started = on_exec_started, .failed = on_exec_failed, .exited = on_exec_exited};
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;

    o.argv = op->argv;
    o.user = op->user != NULL ? op->user : "";
    o.cwd = "/";
    o.with_stdin = op->request.input;
    o.helper = true;
    o.program_fd = supervisor_shim(op->sandbox->sup);
    o.timeout_ms = op->request.timeout_ms;
    op->state = OP_RUNNING;
    if (exec_start(op->sandbox, &o, &events, op, &op->exec, &err) < 0)
        op_fail(op, &err);
}

static void on_init_ready(void *data, int r, const struct err *err)
{
    struct file_op *op = data;
    struct err own = ERR_NONE;

    op->init_pending = false;
    if (op->state == OP_OVER) {
        op_maybe_free(op);
        return;
    }
    if (r == 0) {
        op_launch(op);
        return;
    }
    if (err == NULL)
        (void)err_errno(&own, r, "sandbox %s", sandbox_name(op->sandbox));
    op_fail(op, err != NULL ? err : &own);
}

/* Negative: on_done has not been called. */
static int op_begin(struct file_op *op, struct err *err)
{
    int r;

    op->state = OP_INIT;
    op->counted = !op->request.watch;
    if (op->counted)
        op->sandbox->parts.files.running++;
    op->init_pending = true;
    r = sandbox_with_init(op->sandbox, on_init_ready, op, err);
    if (r < 0)
        op->init_pending = false;
    return r;
}

/* Starts queued operations while there is room. Called from callbacks only, so no on_done runs
 * within file_op_start. */
static void op_start_next(struct sandbox *s)
{
    while (s->parts.files.queue.first != NULL &&
           s->parts.files.running < supervisor_limits(s->sup)->file_operations) {
        struct file_op *op = s->parts.files.queue.first;
        struct err err = ERR_NONE;

        op_leave_queue(op);
        if (op_begin(op, &err) < 0)
            op_fail(op, &err);
    }
}

static void op_enqueue(struct file_op *op)
{
    queue_add(&op->sandbox->parts.files.queue, op);
    op->sandbox->parts.files.waiting++;
    op->state = OP_QUEUED;
}

static int op_copy_request(struct file_op *op, const struct file_request *request)
{
    size_t n = 0;

    op->request = *request;
    if (request->user != NULL) {
        op->user = strdup(request->user);
        if (op->user == NULL)
            return -ENOMEM;
    }
    for (; request->argv[n] != NULL; n++)
        if (n == ARGS_MAX - 1)
            return -E2BIG;
    for (size_t i = 0; i <= n; i++) {
        op->argv[i] = strdup(i == 0 ? "sandbox-shim" : request->argv[i - 1]);
        if (op->argv[i] == NULL)
            return -ENOMEM;
    }
    op->request.argv = NULL;
    op->request.user = NULL;
    return 0;
}

int file_op_start(struct sandbox *s, const struct file_request *request,
                  const struct file_events *events, void *data, struct file_op **ret,
                  struct err *err)
{
    const struct supervisor_limits *limits = supervisor_limits(s->sup);
    bool wait = !request->watch && s->parts.files.running >= limits->file_operations;
    struct file_op *op;
    int r;

    if (wait && s->parts.files.waiting >= limits->file_queue)
        return err_set(err, -EAGAIN,
                       "limit maxFileQueue: %u file operations wait in sandbox %s already",
                       s->parts.files.waiting, sandbox_name(s));
    op = calloc(1, sizeof(*op));
    if (op == NULL)
        return err_errno(err, -ENOMEM, "file operation");
    op->sandbox = s;
    sandbox_ref(s);
    op->events = *events;
    op->data = data;
    op->state = OP_OVER;
    op->in_fd = FD_NONE;
    op->queue = (struct buf)BUF_INIT(INPUT_MAX);
    frame_decoder_init(&op->decoder, request->stream, request->max_frame);
    r = op_copy_request(op, request);
    if (r < 0)
        (void)err_errno(err, r, "file operation");
    else if (wait)
        op_enqueue(op);
    else
        r = op_begin(op, err);
    if (r < 0) {
        op->cancelled = true;
        op_over(op);
        return r;
    }
    *ret = op;
    return 0;
}

/* ---- input ---- */

/* Returns the bytes written now; -1: the process will never read any. */
static ssize_t op_write_now(struct file_op *op, const struct iovec *iov, int count)
{
    ssize_t n;

    do
        n = writev(op->in_fd, iov, count);
    while (n < 0 && errno == EINTR);
    return n < 0 && errno == EAGAIN ? 0 : n;
}

static void on_input_room(uv_poll_t *h, int status, int events)
{
    struct file_op *op = h->data;
    const struct iovec iov = {.iov_base = op->queue.data, .iov_len = op->queue.len};
    ssize_t n = status < 0 ? -1 : op_write_now(op, &iov, 1);

    (void)events;
    if (n > 0)
        buf_consume(&op->queue, (size_t)n);
    if (op->queue.len == 0)
        (void)uv_poll_stop(h);
    /* The process reads no more: its answer says why. */
    if (n < 0 || (op->queue.len == 0 && op->input_ended))
        op_close_stream(op, IN);
    if (!op->want_drain || op->queue.len >= FILES_INPUT_PAUSE)
        return;
    op->want_drain = false;
    if (op->events.on_drain != NULL)
        op->events.on_drain(op->data);
}

/* Writes a piece; bytes that do not fit are queued. */
static void op_send_piece(struct file_op *op, const void *data, size_t len)
{
    uint8_t head[FILE_CHUNK_HEAD];
    const struct iovec iov[] = {
        {.iov_base = head, .iov_len = op->request.pieces ? sizeof(head) : 0},
        {.iov_base = (void *)(uintptr_t)data, .iov_len = len}};
    ssize_t n = 0;
    int r = 0;

    file_put_chunk(head, (uint32_t)len);
    if (op->queue.len == 0)
        n = op_write_now(op, iov, 2);
    for (int i = 0; n >= 0 && r == 0 && i < 2; i++) {
        size_t done = (size_t)n < iov[i].iov_len ? (size_t)n : iov[i].iov_len;

        n -= (ssize_t)done;
        if (iov[i].iov_len > done)
            r = buf_append(&op->queue, (const char *)iov[i].iov_base + done, iov[i].iov_len - done);
    }
    if (n < 0 || r < 0) {
        /* Without the last piece the process takes the end for a client that has gone. */
        op_close_stream(op, IN);
        if (r < 0)
            op_set_error(op, r, "out of memory");
    } else if (op->queue.len > 0) {
        (void)uv_poll_start(&op->in, UV_WRITABLE, on_input_room);
    }
}

bool file_op_write(struct file_op *op, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0 && op->state == OP_RUNNING && op->open[IN]) {
        size_t n = len < FILE_CHUNK_MAX ? len : FILE_CHUNK_MAX;

        op_send_piece(op, at, n);
        at += n;
        len -= n;
    }
    op->want_drain = op->queue.len >= FILES_INPUT_PAUSE;
    return op->want_drain;
}

void file_op_write_end(struct file_op *op)
{
    if (op->state != OP_RUNNING || !op->open[IN] || op->input_ended)
        return;
    op->input_ended = true;
    if (op->request.pieces)
        op_send_piece(op, NULL, 0);
    if (op->open[IN] && op->queue.len == 0)
        op_close_stream(op, IN);
}

/* ---- pace ---- */

void file_op_pause(struct file_op *op)
{
    op->paused = true;
    op_update_reading(op);
}

void file_op_resume(struct file_op *op)
{
    op->paused = false;
    op_update_reading(op);
}
