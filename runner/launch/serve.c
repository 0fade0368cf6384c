/* The launcher behind a socket: one reply per request. An invalid request gets an error reply and
 * does not end the launcher. Runs in the launcher of `rind serve`. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "base/socket.h"
#include "launch/janitor.h"
#include "launch/launcher.h"
#include "launch/network.h"
#include "launch/request.h"
#include "launch/sandbox.h"

enum {
    SERVE_FDS_MAX = 4,
    REQUEST_FDS_MAX = 2, /* the request's memfd, and a client's connection */
};

/* Receives one message and up to REQUEST_FDS_MAX fds; *ret_count is the number that was sent.
 * Returns 1, 0 at EOF, or a negative errno. *ret_full: the launcher's fd table was full. */
static int request_receive(int sock, int fds[REQUEST_FDS_MAX], unsigned *ret_count, bool *ret_full)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * SERVE_FDS_MAX)];
        struct cmsghdr align;
    } control;
    char byte[8];
    struct iovec iov = {.iov_base = byte, .iov_len = sizeof(byte)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    fds[0] = fds[1] = FD_NONE;
    *ret_count = 0;
    do
        n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&hdr); c != NULL; c = CMSG_NXTHDR(&hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;

            (void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (*ret_count < REQUEST_FDS_MAX)
                fds[*ret_count] = fd;
            else
                (void)close(fd);
            (*ret_count)++;
        }
    }
    /* The kernel drops fds that do not fit. If fewer than expected arrived, the fd table was full;
     * otherwise too many were sent. */
    *ret_full = (hdr.msg_flags & MSG_CTRUNC) != 0 && *ret_count < REQUEST_FDS_MAX;
    if ((hdr.msg_flags & MSG_CTRUNC) != 0 && !*ret_full)
        *ret_count = REQUEST_FDS_MAX + 1;
    return n > 0;
}

/* Copies the request out of its memfd, so that it cannot change after its checks. */
static int request_read(int fd, char **ret, size_t *ret_len, struct err *err)
{
    const int want = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    auto_free char *data = NULL;
    struct stat st;
    int seals;

    if (fd < 0)
        return err_set(err, -EPROTO, "request: no memfd came with it");
    seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & want) != want)
        return err_set(err, -EPROTO, "request: its memfd is not sealed");
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "request");
    if (st.st_size <= 0 || st.st_size > LAUNCH_SIZE_MAX)
        return err_set(err, -EPROTO, "request: %lld bytes", (long long)st.st_size);
    data = malloc((size_t)st.st_size);
    if (data == NULL)
        return err_errno(err, -ENOMEM, "request");
    if (pread(fd, data, (size_t)st.st_size, 0) != st.st_size)
        return err_set(err, -EIO, "request: short read");
    *ret_len = (size_t)st.st_size;
    *ret = take(data);
    return 0;
}

struct serve_answer {
    struct launch_reply reply;
    int fds[LAUNCH_REPLY_FDS_MAX]; /* owned */
    int fd_count;
};

static void answer_take_result(struct serve_answer *a, const struct launch_result *res)
{
    a->reply.pid = res->pid;
    a->reply.base = res->base;
    a->reply.net = res->net;
    (void)memcpy(a->reply.net_owner, res->net_owner, sizeof(a->reply.net_owner));
    a->fds[a->fd_count++] = res->pidfd;
    a->fds[a->fd_count++] = res->control;
}

static int do_start(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                    struct err *err)
{
    struct launch_result res;
    const struct launch_sandbox *left;
    int r = launcher_start(l, q, &res, err);

    if (r == 0) {
        answer_take_result(a, &res);
        return 0;
    }
    left = launcher_find(l, q->id);
    a->reply.remains = left != NULL && left->failed;
    return r;
}

static int do_reattach(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                       struct err *err)
{
    struct launch_result res;
    bool frozen = false;
    int r = launcher_reattach(l, q->id, &res, &frozen, err);

    a->reply.frozen = frozen;
    if (r == 0)
        answer_take_result(a, &res);
    return r;
}

static int do_kill(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                   struct err *err)
{
    int r = launcher_end(l, q->id, err);

    if (r == 0)
        r = launcher_pidfd(l, q->id, err);
    if (r < 0)
        return r;
    a->fds[a->fd_count++] = r;
    return 0;
}

static int do_end(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                  struct err *err)
{
    (void)a;
    return launcher_end(l, q->id, err);
}

static int do_release(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                      struct err *err)
{
    a->reply.oom_kills = launcher_oom_kills(l, q->id);
    return launcher_release(l, q->id, err);
}

static int do_stop(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                   struct err *err)
{
    int fd = FD_NONE, r;

    a->reply.oom_kills = launcher_oom_kills(l, q->id);
    r = launcher_stop(l, q->id, &fd, err);
    if (fd >= 0)
        a->fds[a->fd_count++] = fd;
    return r;
}

static int do_freeze(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                     struct err *err)
{
    (void)a;
    return launcher_freeze(l, q->id, q->verb == LAUNCH_FREEZE, err);
}

static int do_limits(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                     struct err *err)
{
    (void)a;
    return launcher_limits(l, q, err);
}

static int do_stats(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                    struct err *err)
{
    a->reply.oom_kills = launcher_oom_kills(l, q->id);
    return launcher_stats(l, q->id, &a->reply, err);
}

static int do_written(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                      struct err *err)
{
    return launcher_written(l, q->id, &a->reply.disk.used, err);
}

static int do_list(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                   struct err *err)
{
    int fd = launcher_list(l, err);

    (void)q;
    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_processes(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                        struct err *err)
{
    int fd = launcher_processes(l, q->id, err);

    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_connect(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                      struct err *err)
{
    int n = launcher_sockets(l, q, a->fds, err);

    if (n < 0)
        return n;
    a->fd_count = n;
    return 0;
}

static int do_listen(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                     struct err *err)
{
    int fd = q->id != NULL ? launcher_listen_inside(l, q->id, &q->bind, err)
                           : launcher_listen(l, &q->bind, q->udp, err);

    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_certificate(struct launcher *l, const struct launch_request *q,
                          struct serve_answer *a, struct err *err)
{
    int r = launcher_certificate(l, a->fds, err);

    (void)q;
    if (r == 0)
        a->fd_count = 2;
    return r;
}

static int do_worker(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                     struct err *err)
{
    struct launch_worker w;
    int r = launcher_worker(l, q, &w, err);

    if (r < 0)
        return r;
    a->fds[a->fd_count++] = w.pidfd;
    a->fds[a->fd_count++] = w.control;
    return 0;
}

static int do_layer_commit(struct launcher *l, const struct launch_request *q,
                           struct serve_answer *a, struct err *err)
{
    (void)a;
    return launcher_layer_commit(l, q, err);
}

static int do_layer_drop(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                         struct err *err)
{
    (void)a;
    return launcher_layer_drop(l, q->id, err);
}

static int do_layer_remove(struct launcher *l, const struct launch_request *q,
                           struct serve_answer *a, struct err *err)
{
    (void)a;
    return launcher_layer_remove(l, q->image_layers[0], err);
}

static int do_layer_list(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                         struct err *err)
{
    int fd = launcher_layer_list(l, err);

    (void)q;
    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_volume_make(struct launcher *l, const struct launch_request *q,
                          struct serve_answer *a, struct err *err)
{
    int r;

    if (q->verb == LAUNCH_VOLUME_WRITE)
        return launcher_volume_write(l, q, err);
    r = launcher_volume_make(l, q, a->fds, err);
    if (r > 0)
        a->fd_count = 2;
    return r < 0 ? r : 0;
}

static int do_volume_remove(struct launcher *l, const struct launch_request *q,
                            struct serve_answer *a, struct err *err)
{
    (void)a;
    return launcher_volume_remove(l, q->volume_name, err);
}

static int do_volume_read(struct launcher *l, const struct launch_request *q,
                          struct serve_answer *a, struct err *err)
{
    int fd = q->verb == LAUNCH_VOLUME_LIST ? launcher_volume_list(l, err)
                                           : launcher_volume_read(l, q->volume_name, err);

    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_egress(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                     struct err *err)
{
    int fds[2] = {FD_NONE, FD_NONE};
    int r = launcher_egress(l, q, fds, err);

    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            a->fds[a->fd_count++] = fds[i];
    return r;
}

static int do_dial(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                   struct err *err)
{
    int fd = launcher_dial(l, q->id, q->handler, err);

    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_volume_fill(struct launcher *l, const struct launch_request *q,
                          struct serve_answer *a, struct err *err)
{
    int r = launcher_volume_fill(l, q, a->fds, err);

    if (r > 0)
        a->fd_count = 2;
    return r < 0 ? r : 0;
}

static int do_resolver(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                       struct err *err)
{
    int fd = launcher_resolver(l, q->index, q->udp, err);

    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_over(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                   struct err *err)
{
    int fd = network_conn_limit(l, err);

    (void)q;
    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int do_closed(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                     struct err *err)
{
    int r = network_closed(l, a->fds, err);

    (void)q;
    if (r == 0)
        a->fd_count = 2;
    return r;
}

static int do_networks(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                       struct err *err)
{
    const struct launch_sandbox *s;
    int r = network_change(l, q, err);

    s = r == 0 ? launcher_find(l, q->id) : NULL;
    if (s != NULL)
        a->reply.net = network_place(s);
    return r;
}

static int do_names(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                    struct err *err)
{
    int r = launcher_names(l, q->id, a->fds, err);

    if (r == 0)
        a->fd_count = 2;
    return r;
}

static int do_ask(struct launcher *l, const struct launch_request *q, struct serve_answer *a,
                  struct err *err)
{
    int fd = launcher_ask(l, q, err);

    if (fd < 0)
        return fd;
    a->fds[a->fd_count++] = fd;
    return 0;
}

static int (*const verbs[LAUNCH_VERB_MAX])(struct launcher *, const struct launch_request *,
                                           struct serve_answer *, struct err *) = {
    [LAUNCH_START] = do_start,
    [LAUNCH_KILL] = do_kill,
    [LAUNCH_RELEASE] = do_release,
    [LAUNCH_STOP] = do_stop,
    [LAUNCH_FREEZE] = do_freeze,
    [LAUNCH_THAW] = do_freeze,
    [LAUNCH_STATS] = do_stats,
    [LAUNCH_LIMITS] = do_limits,
    [LAUNCH_WRITTEN] = do_written,
    [LAUNCH_PROCESSES] = do_processes,
    [LAUNCH_REATTACH] = do_reattach,
    [LAUNCH_LIST] = do_list,
    [LAUNCH_CONNECT] = do_connect,
    [LAUNCH_END] = do_end,
    [LAUNCH_LISTEN] = do_listen,
    [LAUNCH_CERTIFICATE] = do_certificate,
    [LAUNCH_EGRESS] = do_egress,
    [LAUNCH_DIAL] = do_dial,
    [LAUNCH_RESOLVER] = do_resolver,
    [LAUNCH_CONN_LIMIT] = do_over,
    [LAUNCH_CLOSED] = do_closed,
    [LAUNCH_WORKER] = do_worker,
    [LAUNCH_LAYER_COMMIT] = do_layer_commit,
    [LAUNCH_LAYER_DROP] = do_layer_drop,
    [LAUNCH_LAYER_REMOVE] = do_layer_remove,
    [LAUNCH_LAYER_LIST] = do_layer_list,
    [LAUNCH_VOLUME_MAKE] = do_volume_make,
    [LAUNCH_VOLUME_WRITE] = do_volume_make,
    [LAUNCH_VOLUME_READ] = do_volume_read,
    [LAUNCH_VOLUME_LIST] = do_volume_read,
    [LAUNCH_VOLUME_REMOVE] = do_volume_remove,
    [LAUNCH_VOLUME_FILL] = do_volume_fill,
    [LAUNCH_NETWORKS] = do_networks,
    [LAUNCH_NAMES] = do_names,
    [LAUNCH_ASK] = do_ask,
};

static int answer_send(int sock, const struct serve_answer *a)
{
    _Static_assert((int)LAUNCH_REPLY_FDS_MAX <= (int)SOCKET_FDS_MAX, "all go with one message");
    union socket_fds control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)&a->reply, .iov_len = sizeof(a->reply)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    socket_attach_fds(&hdr, &control, a->fds, (size_t)a->fd_count);
    return sendmsg(sock, &hdr, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void request_handle(struct launcher *l, const int fds[REQUEST_FDS_MAX], unsigned fd_count,
                           bool full, struct serve_answer *a)
{
    auto_free char *data = NULL;
    struct launch_request q;
    struct err err = ERR_NONE;
    size_t len = 0;
    int r;

    if (full)
        r = err_set(
            &err, -EMFILE,
            "request: the launcher has no descriptors left (raise the limit of open files)");
    else if (fd_count > REQUEST_FDS_MAX)
        r = err_set(&err, -EPROTO, "request: too many descriptors came with it");
    else
        r = request_read(fds[0], &data, &len, &err);
    if (r == 0)
        r = launch_decode(data, len, &q, &err);
    if (r == 0 && fd_count > 1 && q.verb != LAUNCH_START && q.verb != LAUNCH_VOLUME_MAKE &&
        q.verb != LAUNCH_VOLUME_FILL)
        r = err_set(&err, -EPROTO, "request: more than one descriptor came with it");
    if (r == 0)
        q.client_fd = fds[1];
    if (r == 0)
        r = verbs[q.verb](l, &q, a, &err); /* launch_decode has checked the verb */
    a->reply.code = r;
    if (r < 0)
        (void)snprintf(a->reply.message, sizeof(a->reply.message), "%s", err.msg);
}

static int earlier_timeout(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Waits for a request. Meanwhile it handles changes of the host's firewall, reaps children (and
 * logs failed removals), and repeats due sweeps and firewall restores. */
static int wait_request(struct launcher *l, int sock)
{
    enum { SOCK, WATCH, JANITOR, CHILDREN };
    struct pollfd p[CHILDREN + CHILDREN_MAX] = {{.fd = sock, .events = POLLIN},
                                                {.fd = launcher_watch(l), .events = POLLIN}};

    for (;;) {
        const int until = earlier_timeout(sweep_wait(l), launcher_watch_wait(l));

        const size_t children = child_table_poll(&l->children, p + CHILDREN);

        p[JANITOR] = (struct pollfd){.fd = l->janitor, .events = POLLIN};
        if (poll(p, CHILDREN + children, until) < 0 && errno != EINTR)
            return -errno;
        if (p[JANITOR].revents != 0)
            janitor_on_event(l);
        sweep_due(l);
        child_table_reap(&l->children);
        if ((p[WATCH].fd >= 0 && (p[WATCH].revents & (POLLIN | POLLERR)) != 0) ||
            launcher_watch_wait(l) == 0)
            launcher_watched(l);
        if (p[SOCK].revents != 0)
            return 0;
    }
}

int launcher_serve(struct launcher *l, int sock, struct err *err)
{
    if (l->clients.len > 0 && l->janitor < 0)
        (void)janitor_start(l);
    for (;;) {
        struct serve_answer a = {.fd_count = 0};
        int fds[REQUEST_FDS_MAX], r;
        unsigned fd_count;
        bool full = false;

        r = wait_request(l, sock);
        if (r < 0)
            return err_errno(err, r, "launcher socket");
        r = request_receive(sock, fds, &fd_count, &full);
        if (r > 0)
            request_handle(l, fds, fd_count, full, &a);
        for (int i = 0; i < REQUEST_FDS_MAX; i++)
            if (fds[i] >= 0)
                (void)close(fds[i]);
        if (r <= 0)
            return r < 0 ? err_errno(err, r, "launcher socket") : 0;
        r = answer_send(sock, &a);
        for (int i = 0; i < a.fd_count; i++)
            (void)close(a.fds[i]);
        if (r < 0)
            return r == -EPIPE ? 0 : err_errno(err, r, "launcher socket");
        if (a.reply.code == -ENOTRECOVERABLE)
            return err_set(err, a.reply.code, "%s", a.reply.message);
    }
}
