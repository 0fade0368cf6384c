/*
 * One worker process for archives, from the request to the launcher to the worker's last message.
 * Runs on the event loop of images_new.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/list.h"
#include "images/images-internal.h"
#include "launch/launcher.h"
#include "sandbox/launcher-client.h"
#include "sandbox/limits.h"

enum {
    ID_LEN = 24,
    TURN_MSGS =
        32, /* messages of one worker handled at a time; a fast worker must not starve the loop */
};

struct image_worker {
    struct images *im; /* counted reference */
    char id[ID_LEN + 1];
    enum launch_work kind;
    struct worker_msg start; /* sent as soon as the worker runs */
    struct worker_msg done;  /* the DONE or FAILED message, once received */
    int fd;                  /* owned; the archive, until it is sent to the worker */
    int sock, pidfd;         /* owned */
    uv_poll_t poll;
    bool polling,
        launching; /* launching: the launcher's reply is pending, with a pointer to this */
    bool dropped, ended;
    const struct image_worker_events *events;
    void *data;
    struct image_worker *next, **link;
};

static void worker_free(struct image_worker *w)
{
    struct images *im = w->im;

    if (w->link != NULL)
        list_remove(w);
    if (w->fd >= 0)
        (void)close(w->fd);
    if (w->pidfd >= 0)
        (void)close(w->pidfd);
    if (w->sock >= 0)
        (void)close(w->sock);
    free(w);
    images_release(im);
}

static void on_poll_closed(uv_handle_t *h)
{
    worker_free(h->data);
}

/* Closes the worker's handles and frees it; deferred while the launcher's reply is pending. */
static void worker_close(struct image_worker *w)
{
    if (w->launching)
        return; /* on_launcher_worker continues */
    if (w->polling) {
        w->polling = false;
        uv_close((uv_handle_t *)&w->poll, on_poll_closed);
    } else {
        worker_free(w);
    }
}

static void on_verb_done(void *data, int r, const struct launch_reply *reply, int fds[2],
                         const struct err *err)
{
    (void)r;
    (void)reply;
    (void)fds;
    (void)err; /* the worker has gone already, or the launcher has */
    images_release(data);
}

static void send_drop(struct image_worker *w)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);

    launch_begin(&b, LAUNCH_LAYER_DROP);
    launch_put_string(&b, TAG_ID, w->id);
    images_hold(w->im);
    if (launch_end(&b) < 0 || images_send(w->im, &b, on_verb_done, w->im, NULL) < 0)
        images_release(w->im);
}

/* Calls on_end once. The worker of a layer is kept until it is committed or dropped. */
static void worker_end(struct image_worker *w, int r, const struct err *err)
{
    if (w->ended || w->dropped)
        return;
    w->ended = true;
    if (w->polling)
        (void)uv_poll_stop(&w->poll);
    w->events->on_end(w->data, r, r == 0 ? &w->done : NULL, err);
    if (r < 0 || w->kind != LAUNCH_WORK_LAYER)
        image_worker_drop(w);
}

void image_worker_drop(struct image_worker *w)
{
    if (w == NULL || w->dropped)
        return;
    w->dropped = true;
    if (!w->launching && (!w->ended || w->kind == LAUNCH_WORK_LAYER))
        send_drop(w);
    worker_close(w);
}

static void on_worker_message(struct image_worker *w, const struct worker_msg *m)
{
    struct err err = ERR_NONE;

    switch (m->type) {
    case WORKER_ENTRY:
    case WORKER_STORED:
    case WORKER_PROGRESS:
        w->events->on_msg(w->data, m);
        return;
    case WORKER_DONE:
        w->done = *m;
        return; /* EOF follows; the worker's files may change until then */
    case WORKER_FAILED:
        if (m->name[0] != '\0')
            (void)err_set(&err, m->code, "entry '%.200s': %.240s", m->name, m->text);
        else
            (void)err_set(&err, m->code, "%.400s", m->text);
        if (m->code == -ENOMEM)
            (void)err_wrap(&err, m->code, "limit imageWorkerMemory");
        break;
    case WORKER_INVALID:
    case WORKER_START:
    case WORKER_TAKE:
    case WORKER_SKIP:
    default:
        (void)err_set(&err, -EPROTO, "the worker has said what is not for it to say");
        break;
    }
    worker_end(w, err.code, &err);
}

static void on_socket_readable(uv_poll_t *h, int status, int events)
{
    struct image_worker *w = h->data;
    struct worker_msg *m = malloc(sizeof(*m)); /* too large for a stack frame of a loop */
    struct err err = ERR_NONE;
    int r = m != NULL ? 1 : -ENOMEM, heard = 0;

    (void)events;
    /* The read itself gives the errno, after any messages still queued. */
    while (r == 1 && heard++ < TURN_MSGS && !w->ended && !w->dropped) {
        int fd = FD_NONE;

        r = worker_msg_recv(w->sock, m, &fd, &err);
        if (fd >= 0)
            (void)close(fd); /* workers have no fd to send */
        if (r == 1)
            on_worker_message(w, m);
    }
    free(m);
    if (!w->ended && !w->dropped && status < 0 && (r == -EAGAIN || r == 1)) {
        int again =
            uv_poll_start(h, UV_READABLE,
                          on_socket_readable); /* libuv has stopped polling because of the error */

        r = again < 0 ? again : r;
    }
    if (r == -EAGAIN || r == 1 || w->dropped)
        return;
    if (r == 0 && w->done.type == WORKER_DONE)
        worker_end(w, 0, NULL);
    else if (r == 0)
        worker_end(
            w,
            err_set(&err, -ECHILD,
                    "limit imageWorkerMemory: the worker was killed, for want of memory if the log "
                    "has no other reason"),
            &err);
    else
        worker_end(w, err.code < 0 ? r : err_errno(&err, r, "worker"), &err);
}

static int worker_begin(struct image_worker *w, int fds[2], struct err *err)
{
    int r;

    w->pidfd = take_fd(&fds[0]);
    w->sock = take_fd(&fds[1]);
    if (w->sock < 0)
        return err_set(err, -EPROTO, "the launcher gave no socket to its worker");
    r = uv_poll_init(w->im->config.loop, &w->poll, w->sock);
    if (r < 0)
        return err_errno(err, r, "worker");
    w->poll.data = w;
    w->polling = true;
    r = uv_poll_start(&w->poll, UV_READABLE, on_socket_readable);
    if (r < 0)
        return err_errno(err, r, "worker");
    r = worker_msg_send(w->sock, &w->start, w->fd, err);
    if (w->fd >= 0)
        (void)close(take_fd(&w->fd));
    /* If the worker could not even start, its FAILED message tells the cause. */
    return r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static void on_launcher_worker(void *data, int r, const struct launch_reply *reply, int fds[2],
                               const struct err *err)
{
    struct image_worker *w = data;
    struct err own = ERR_NONE;

    (void)reply;
    w->launching = false;
    if (w->dropped) {
        if (r == 0)
            send_drop(w);
        worker_close(w);
        return;
    }
    if (r == 0) {
        r = worker_begin(w, fds, &own);
        err = &own;
    }
    if (r < 0)
        worker_end(w, r, err);
}

static int make_id(char id[ID_LEN + 1])
{
    unsigned char bytes[ID_LEN / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

static void put_request(struct buf *b, const struct image_worker *w, const struct image_work *work)
{
    launch_begin(b, LAUNCH_WORKER);
    launch_put_string(b, TAG_ID, w->id);
    launch_put_number(b, TAG_WORKER, (uint64_t)work->kind);
    launch_put_number(b, TAG_MEMORY, w->im->config.limits->image_worker_bytes);
    if (work->kind == LAUNCH_WORK_LAYER)
        launch_put_number(b, TAG_BYTES, work->start.files);
    if (work->sandbox != NULL)
        launch_put_string(b, TAG_SANDBOX, work->sandbox);
    if (work->volume != NULL)
        launch_put_string(b, TAG_VOLUME_NAME, work->volume);
    for (const char *const *l = work->layers; l != NULL && *l != NULL; l++)
        launch_put_string(b, TAG_IMAGE_LAYER, *l);
    for (const char *const *l = work->base_layers; l != NULL && *l != NULL; l++)
        launch_put_string(b, TAG_LAYER, *l);
}

int image_worker_start(struct images *im, struct image_work *work,
                       const struct image_worker_events *events, void *data,
                       struct image_worker **ret, struct err *err)
{
    struct image_worker *w = im->closing ? NULL : calloc(1, sizeof(*w));
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r = 0;

    if (w == NULL) {
        if (work->fd >= 0)
            (void)close(take_fd(&work->fd));
        return im->closing ? err_set(err, -ECANCELED, "the daemon stops")
                           : err_errno(err, -ENOMEM, "worker");
    }
    images_hold(im);
    w->im = im;
    w->kind = work->kind;
    w->start = work->start;
    w->start.type = WORKER_START;
    w->fd = take_fd(&work->fd);
    w->sock = w->pidfd = FD_NONE;
    w->events = events;
    w->data = data;
    r = make_id(w->id);
    if (r == 0) {
        put_request(&b, w, work);
        r = launch_end(&b);
    }
    if (r < 0)
        (void)err_errno(err, r, "worker");
    else
        r = images_send(im, &b, on_launcher_worker, w, err);
    if (r < 0) {
        worker_free(w);
        return r;
    }
    w->launching = true;
    list_add(&im->workers, w);
    *ret = w;
    return 0;
}

int image_worker_take(struct image_worker *w, int fd, struct err *err)
{
    const struct worker_msg m = {.type = fd >= 0 ? WORKER_TAKE : WORKER_SKIP};

    return worker_msg_send(w->sock, &m, fd, err);
}

/* For images_close: calls on_end of every worker, as if the worker had been killed. */
void image_workers_end(struct images *im)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, -ECANCELED, "the daemon stops");
    for (struct image_worker *w = im->workers, *next; w != NULL; w = next) {
        next = w->next;
        if (!w->ended)
            worker_end(w, err.code, &err);
    }
}

/* ---- committing a layer under its name ---- */

enum { COMMIT_AGAIN_MS = 5, COMMIT_AGAIN_MOST = 80 };

struct image_commit {
    struct images *im;          /* counted reference */
    char id[LAUNCH_ID_MAX + 1]; /* id of the worker */
    char name[LAUNCH_LAYER_NAME + 1];
    int64_t bytes;
    images_done_cb cb;
    void *data;
    uv_timer_t again;
    unsigned wait_ms;
};

static void on_commit_closed(uv_handle_t *h)
{
    struct image_commit *c = h->data;

    images_release(c->im);
    free(c);
}

static void commit_done(struct image_commit *c, int r, const struct err *err)
{
    /* -EEXIST: another worker has committed the same layer meanwhile. */
    if (r == -EEXIST || r == 0) {
        r = image_names_add_sized(&c->im->present, c->name, c->bytes);
        err = NULL;
    }
    c->cb(c->data, r, err);
    uv_close((uv_handle_t *)&c->again, on_commit_closed);
}

static int commit_ask(struct image_commit *c, struct err *err);

static void on_commit_retry(uv_timer_t *h)
{
    struct image_commit *c = h->data;
    struct err err = ERR_NONE;
    int r = commit_ask(c, &err);

    if (r < 0)
        commit_done(c, r, &err);
}

static void on_launcher_committed(void *data, int r, const struct launch_reply *reply, int fds[2],
                                  const struct err *err)
{
    struct image_commit *c = data;

    (void)reply;
    (void)fds;
    if (r != -EAGAIN) {
        commit_done(c, r, err);
        return;
    }
    (void)uv_timer_start(&c->again, on_commit_retry, c->wait_ms, 0);
    if (c->wait_ms < COMMIT_AGAIN_MOST)
        c->wait_ms *= 2;
}

static int commit_ask(struct image_commit *c, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(LAUNCH_SIZE_MAX);
    int r;

    launch_begin(&b, LAUNCH_LAYER_COMMIT);
    launch_put_string(&b, TAG_ID, c->id);
    launch_put_string(&b, TAG_IMAGE_LAYER, c->name);
    launch_put_number(&b, TAG_BYTES, (uint64_t)c->bytes);
    r = launch_end(&b);
    return r < 0 ? err_errno(err, r, "layer")
                 : images_send(c->im, &b, on_launcher_committed, c, err);
}

int image_worker_commit(struct image_worker *w, const char *name, int64_t bytes, images_done_cb cb,
                        void *data, struct err *err)
{
    struct image_commit *c = calloc(1, sizeof(*c));
    int r;

    if (c == NULL) {
        image_worker_drop(w);
        return err_errno(err, -ENOMEM, "layer");
    }
    *c = (struct image_commit){
        .im = w->im, .bytes = bytes, .cb = cb, .data = data, .wait_ms = COMMIT_AGAIN_MS};
    (void)snprintf(c->id, sizeof(c->id), "%s", w->id);
    (void)snprintf(c->name, sizeof(c->name), "%s", name);
    r = commit_ask(c, err);
    if (r < 0) {
        free(c);
        image_worker_drop(w);
        return r;
    }
    (void)uv_timer_init(c->im->config.loop, &c->again);
    c->again.data = c;
    images_hold(c->im);
    w->dropped = true; /* the launcher owns the worker's tree from now on */
    worker_close(w);
    return 0;
}
