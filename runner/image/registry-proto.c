/*
 * The codec of the messages of rind-registry, and their transfer over a socket. Used by the
 * supervisor and by the program.
 */

#include "image/registry-proto.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/socket.h"

/* Wire format; the four texts follow, without a NUL. */
struct registry_wire {
    uint32_t magic;
    uint16_t version, type;
    uint32_t id, flags, kind;
    int32_t code;
    uint32_t status;
    uint16_t digest_len, media_type_len, name_len, text_len;
    uint32_t zero;
    int64_t size, offset;
};
static_assert(sizeof(struct registry_wire) == 56, "no padding");

enum {
    WIRE_MAGIC = 0x47524e52, /* "RNRG" */
    FLAGS_ALL = (REGISTRY_IDENTITY << 1) - 1,
    STATUS_MAX = 999,
};

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static const char *problem_of_request(const struct registry_msg *m)
{
    if ((m->type == REGISTRY_RESOLVE || m->type == REGISTRY_PUSH_MANIFEST) && m->name[0] == '\0')
        return "a request without a name";
    if ((m->type == REGISTRY_FETCH || m->type == REGISTRY_PUSH_BLOB) && m->digest[0] == '\0')
        return "a blob without a digest";
    return m->offset > m->size ? "an offset behind the end" : NULL;
}

static const char *problem_of_answer(const struct registry_msg *m)
{
    if (m->type == REGISTRY_DOCUMENT && (m->kind <= REGISTRY_DOCUMENT_INVALID ||
                                         m->kind >= REGISTRY_DOCUMENT_MAX || m->digest[0] == '\0'))
        return "a document of no kind or digest";
    if (m->type == REGISTRY_FAILED &&
        (m->kind <= REGISTRY_FAULT_INVALID || m->kind >= REGISTRY_FAULT_MAX || m->code >= 0 ||
         m->code < -4095 || m->text[0] == '\0'))
        return "a failure without its cause";
    return NULL;
}

static const char *problem_of(const struct registry_msg *m)
{
    const bool request = m->type > REGISTRY_INVALID && m->type <= REGISTRY_CANCEL;

    if (!request && (m->type < REGISTRY_READY || m->type > REGISTRY_FAILED))
        return "a type that is not known";
    if ((m->flags & ~(uint32_t)FLAGS_ALL) != 0)
        return "a flag that is not known";
    if (m->size < 0 || m->offset < 0 || m->status > STATUS_MAX)
        return "a number out of range";
    if (m->digest[0] != '\0' && !digest_ok(m->digest))
        return "a digest that is none";
    if (!is_printable(m->media_type) || !is_printable(m->name) || !is_printable(m->text))
        return "a text that is not printable";
    if ((m->id == 0) != (m->type == REGISTRY_JOB || m->type == REGISTRY_READY) &&
        m->type != REGISTRY_FAILED)
        return "an id of no request";
    return request ? problem_of_request(m) : problem_of_answer(m);
}

ssize_t registry_msg_encode(const struct registry_msg *m, uint8_t out[REGISTRY_MSG_MAX])
{
    const char *texts[] = {m->digest, m->media_type, m->name, m->text};
    const size_t sizes[] = {sizeof(m->digest), sizeof(m->media_type), sizeof(m->name),
                            sizeof(m->text)};
    struct registry_wire w = {
        .magic = WIRE_MAGIC,
        .version = REGISTRY_VERSION,
        .type = (uint16_t)m->type,
        .id = m->id,
        .flags = m->flags,
        .kind = m->kind,
        .code = m->code,
        .status = m->status,
        .size = m->size,
        .offset = m->offset,
    };
    uint16_t *lens[] = {&w.digest_len, &w.media_type_len, &w.name_len, &w.text_len};
    size_t at = sizeof(w);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t len = strnlen(texts[i], sizes[i]);

        if (len == sizes[i])
            return -EINVAL;
        (void)memcpy(out + at, texts[i], len);
        *lens[i] = (uint16_t)len;
        at += len;
    }
    if (problem_of(m) != NULL)
        return -EINVAL;
    (void)memcpy(out, &w, sizeof(w));
    return (ssize_t)at;
}

/* Copies one text of the message and moves *at behind it. */
static bool msg_get_text(const char **at, size_t *left, size_t len, char *ret, size_t size)
{
    if (len >= size || len > *left || memchr(*at, '\0', len) != NULL)
        return false;
    (void)memcpy(ret, *at, len);
    ret[len] = '\0';
    *at += len;
    *left -= len;
    return true;
}

int registry_msg_decode(const void *in, size_t len, struct registry_msg *ret, struct err *err)
{
    struct registry_wire w;
    struct registry_msg m;
    const char *at, *problem;
    size_t left;

    if (len < sizeof(w))
        return err_set(err, -EPROTO, "a message of rind-registry of %zu bytes", len);
    (void)memcpy(&w, in, sizeof(w));
    if (w.magic != WIRE_MAGIC || w.version != REGISTRY_VERSION || w.zero != 0)
        return err_set(err, -EPROTO, "a message of another version of rind-registry");
    at = (const char *)in + sizeof(w);
    left = len - sizeof(w);
    (void)memset(&m, 0, sizeof(m));
    m.type = (enum registry_type)w.type;
    m.id = w.id;
    m.flags = w.flags;
    m.kind = w.kind;
    m.code = w.code;
    m.status = w.status;
    m.size = w.size;
    m.offset = w.offset;
    if (!msg_get_text(&at, &left, w.digest_len, m.digest, sizeof(m.digest)) ||
        !msg_get_text(&at, &left, w.media_type_len, m.media_type, sizeof(m.media_type)) ||
        !msg_get_text(&at, &left, w.name_len, m.name, sizeof(m.name)) ||
        !msg_get_text(&at, &left, w.text_len, m.text, sizeof(m.text)) || left != 0)
        return err_set(err, -EPROTO, "a message of rind-registry with texts of another length");
    problem = problem_of(&m);
    if (problem != NULL)
        return err_set(err, -EPROTO, "a message of rind-registry with %s", problem);
    *ret = m;
    return 0;
}

int registry_msg_send(int sock, const struct registry_msg *m, int fd, struct err *err)
{
    union socket_fds control;
    uint8_t bytes[REGISTRY_MSG_MAX];
    ssize_t len = registry_msg_encode(m, bytes), n;
    struct iovec iov = {.iov_base = bytes, .iov_len = len > 0 ? (size_t)len : 0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (len < 0)
        return err_errno(err, (int)len, "a message of rind-registry");
    socket_attach_fds(&msg, &control, &fd, fd >= 0 ? 1 : 0);
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? err_errno(err, -errno, "the socket of rind-registry") : 0;
}

/* Takes the fds of a message: the first is *ret_fd; more are an error, and closed. */
static int msg_get_fds(struct msghdr *msg, int *ret_fd)
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

int registry_msg_recv(int sock, struct registry_msg *ret, int *ret_fd, struct err *err)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    uint8_t bytes[REGISTRY_MSG_MAX];
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof(control.space)};
    auto_close int fd = FD_NONE;
    int reset = 0;
    ssize_t n;
    int r;

    /* If the peer closes with unread data, the first recvmsg returns ECONNRESET, before messages
     * that are still queued. */
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
    if (n < 0)
        return err_errno(err, -errno, "the socket of rind-registry");
    if (n == 0)
        return 0;
    r = msg_get_fds(&msg, &fd);
    if (r < 0)
        return err_set(err, r,
                       "a message of rind-registry that is too long, or with more descriptors");
    r = registry_msg_decode(bytes, (size_t)n, ret, err);
    if (r < 0)
        return r;
    *ret_fd = take_fd(&fd);
    return 1;
}
