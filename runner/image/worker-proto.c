/*
 * The codec of worker messages, and their transfer over a socket. Used by the supervisor and by the
 * worker.
 */

#include "image/worker-proto.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/socket.h"

/* Wire format; both texts follow, without a NUL. */
struct wire {
    uint32_t magic;
    uint16_t version, type;
    uint32_t flags, op, kind;
    int32_t code;
    uint64_t bytes, files, entries, packed, devices, xattrs;
    uint8_t digest[WORKER_DIGEST], packed_digest[WORKER_DIGEST];
    uint16_t name_len, text_len;
    uint32_t zero;
};
static_assert(sizeof(struct wire) == 144, "no padding");
static_assert(sizeof(struct wire) + (size_t)2 * WORKER_PATH_MAX <= WORKER_MSG_MAX,
              "the longest message");

enum { WIRE_MAGIC = 0x46524e52, /* "RNRF" */ FLAGS_ALL = (WORKER_PARTIAL << 1) - 1 };

static const char *problem_of_start(const struct worker_msg *m)
{
    if (m->op <= WORKER_OP_INVALID || m->op >= WORKER_OP_MAX)
        return "an operation that is not known";
    if (m->kind >= WORKER_COMPRESSION_MAX)
        return "a compression that is not known";
    if ((m->op == WORKER_CHANGES || m->op == WORKER_SIZE) && m->kind != WORKER_PLAIN)
        return "a compression of what is no archive";
    if ((m->flags & (WORKER_OF_PARENTS | WORKER_PARTIAL)) != 0)
        return "a flag of the result in a request";
    return NULL;
}

static const char *problem_of(const struct worker_msg *m)
{
    if ((m->flags & ~(uint32_t)FLAGS_ALL) != 0)
        return "a flag that is not known";
    switch (m->type) {
    case WORKER_START:
        return problem_of_start(m);
    case WORKER_ENTRY:
        return m->kind <= WORKER_ENTRY_INVALID || m->kind >= WORKER_ENTRY_MAX
                   ? "a kind of entry that is not known"
                   : NULL;
    case WORKER_DONE:
        return m->kind >= WORKER_COMPRESSION_MAX ? "a compression that is not known" : NULL;
    case WORKER_FAILED:
        return m->code >= 0 || m->code < -4095 ? "a failure without its cause" : NULL;
    case WORKER_TAKE:
    case WORKER_SKIP:
    case WORKER_PROGRESS:
    case WORKER_STORED:
        return NULL;
    case WORKER_INVALID:
    default:
        return "a type that is not known";
    }
}

ssize_t worker_msg_encode(const struct worker_msg *m, uint8_t out[WORKER_MSG_MAX])
{
    size_t name_len = strnlen(m->name, sizeof(m->name)),
           text_len = strnlen(m->text, sizeof(m->text));
    struct wire w = {
        .magic = WIRE_MAGIC,
        .version = WORKER_VERSION,
        .type = (uint16_t)m->type,
        .flags = m->flags,
        .op = m->op,
        .kind = m->kind,
        .code = m->code,
        .bytes = m->bytes,
        .files = m->files,
        .entries = m->entries,
        .packed = m->packed,
        .devices = m->devices,
        .xattrs = m->xattrs,
        .name_len = (uint16_t)name_len,
        .text_len = (uint16_t)text_len,
    };

    if (name_len > WORKER_PATH_MAX || text_len > WORKER_PATH_MAX || problem_of(m) != NULL)
        return -EINVAL;
    (void)memcpy(w.digest, m->digest, sizeof(w.digest));
    (void)memcpy(w.packed_digest, m->packed_digest, sizeof(w.packed_digest));
    (void)memcpy(out, &w, sizeof(w));
    (void)memcpy(out + sizeof(w), m->name, name_len);
    (void)memcpy(out + sizeof(w) + name_len, m->text, text_len);
    return (ssize_t)(sizeof(w) + name_len + text_len);
}

/* Decodes the texts behind the fixed part. */
static bool get_texts(const struct wire *w, const char *at, size_t left, struct worker_msg *m)
{
    if (w->name_len > WORKER_PATH_MAX || w->text_len > WORKER_PATH_MAX ||
        left != (size_t)w->name_len + w->text_len || memchr(at, '\0', left) != NULL)
        return false;
    (void)memcpy(m->name, at, w->name_len);
    m->name[w->name_len] = '\0';
    (void)memcpy(m->text, at + w->name_len, w->text_len);
    m->text[w->text_len] = '\0';
    return true;
}

int worker_msg_decode(const void *in, size_t len, struct worker_msg *ret, struct err *err)
{
    struct worker_msg m;
    const char *problem;
    struct wire w;

    if (len < sizeof(w))
        return err_set(err, -EPROTO, "a worker's message of %zu bytes", len);
    (void)memcpy(&w, in, sizeof(w));
    if (w.magic != WIRE_MAGIC || w.version != WORKER_VERSION || w.zero != 0)
        return err_set(err, -EPROTO, "a worker's message of another version");
    (void)memset(&m, 0, sizeof(m));
    m.type = (enum worker_type)w.type;
    m.flags = w.flags;
    m.op = w.op;
    m.kind = w.kind;
    m.code = w.code;
    m.bytes = w.bytes;
    m.files = w.files;
    m.entries = w.entries;
    m.packed = w.packed;
    m.devices = w.devices;
    m.xattrs = w.xattrs;
    (void)memcpy(m.digest, w.digest, sizeof(m.digest));
    (void)memcpy(m.packed_digest, w.packed_digest, sizeof(m.packed_digest));
    if (!get_texts(&w, (const char *)in + sizeof(w), len - sizeof(w), &m))
        return err_set(err, -EPROTO, "a worker's message with texts of another length");
    problem = problem_of(&m);
    if (problem != NULL)
        return err_set(err, -EPROTO, "a worker's message with %s", problem);
    *ret = m;
    return 0;
}

int worker_msg_send(int sock, const struct worker_msg *m, int fd, struct err *err)
{
    union socket_fds control;
    uint8_t bytes[WORKER_MSG_MAX];
    ssize_t len = worker_msg_encode(m, bytes), n;
    struct iovec iov = {.iov_base = bytes, .iov_len = len > 0 ? (size_t)len : 0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (len < 0)
        return err_errno(err, (int)len, "a message to the worker");
    socket_attach_fds(&msg, &control, &fd, fd >= 0 ? 1 : 0);
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? err_errno(err, -errno, "the worker's socket") : 0;
}

/* Takes the fds of a message: the first is *ret_fd; more are an error, and closed. */
static int receive_fds(struct msghdr *msg, int *ret_fd)
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                       ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                       : 0;

        for (size_t i = 0; i < n; i++) {
            int fd;

            (void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (count++ == 0)
                *ret_fd = fd;
            else
                (void)close(fd);
        }
    }
    return count > 1 || (msg->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ? -EPROTO : 0;
}

int worker_msg_recv(int sock, struct worker_msg *ret, int *ret_fd, struct err *err)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    uint8_t bytes[WORKER_MSG_MAX];
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    auto_close int fd = FD_NONE;
    int reset = 0;
    ssize_t n;
    int r;

    /*
     * If the peer closes with unread data, the first recvmsg returns ECONNRESET, before messages
     * that are still queued.
     */
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
    if (n < 0)
        return err_errno(err, -errno, "the worker's socket");
    if (n == 0)
        return 0;
    r = receive_fds(&msg, &fd);
    if (r < 0)
        return err_set(err, r, "a worker's message that is too long, or with more descriptors");
    r = worker_msg_decode(bytes, (size_t)n, ret, err);
    if (r < 0)
        return r;
    *ret_fd = take_fd(&fd);
    return 1;
}
