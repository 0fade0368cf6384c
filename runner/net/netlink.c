#include "net/netlink.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/auto.h"
#include "base/err.h"

enum { SOCKET_BYTES = 4 << 20 };

int nl_open(int protocol)
{
    const int on = 1, bytes = SOCKET_BYTES;
    auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0)
        return -errno;
    /* The kernel adds a message to errors and does not copy the request. Older kernels lack these
     * options. */
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    return take_fd(&fd);
}

/* ---- building ---- */

void nlreq_init(struct nlreq *q)
{
    q->count = 0;
    q->failed = 0;
}

void nlreq_done(struct nlreq *q)
{
    while (q->count > 0)
        nlmsg_free(q->msgs[--q->count]);
}

static void nlreq_fail(struct nlreq *q, int code)
{
    if (q->failed == 0)
        q->failed = code;
}

void nlreq_add_large(struct nlreq *q, uint16_t type, uint16_t flags, const void *head, size_t len,
                     size_t bytes)
{
    struct nl_msg *m;
    void *at;

    if (q->count == NLREQ_MAX) {
        nlreq_fail(q, -E2BIG);
        return;
    }
    m = nlmsg_alloc_size(bytes);
    if (m == NULL || nlmsg_put(m, 0, q->count + 1, type, 0, flags | NLM_F_REQUEST) == NULL) {
        nlmsg_free(m);
        nlreq_fail(q, -ENOMEM);
        return;
    }
    q->msgs[q->count++] = m;
    at = nlmsg_reserve(m, len, NLMSG_ALIGNTO);
    if (at == NULL)
        nlreq_fail(q, -E2BIG);
    else
        (void)memcpy(at, head, len);
}

void nlreq_add(struct nlreq *q, uint16_t type, uint16_t flags, const void *head, size_t len)
{
    nlreq_add_large(q, type, flags, head, len, NLMSG_BYTES);
}

static struct nl_msg *nlreq_current(struct nlreq *q)
{
    return q->failed == 0 && q->count > 0 ? q->msgs[q->count - 1] : NULL;
}

void nl_put(struct nlreq *q, int attr, const void *data, size_t len)
{
    struct nl_msg *m = nlreq_current(q);

    if (m != NULL && nla_put(m, attr, (int)len, data) < 0)
        nlreq_fail(q, -E2BIG);
}

void nl_put_u8(struct nlreq *q, int attr, uint8_t value)
{
    nl_put(q, attr, &value, sizeof(value));
}

void nl_put_u32(struct nlreq *q, int attr, uint32_t value)
{
    nl_put(q, attr, &value, sizeof(value));
}

void nl_put_be32(struct nlreq *q, int attr, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                              (uint8_t)value};

    nl_put(q, attr, bytes, sizeof(bytes));
}

void nl_put_string(struct nlreq *q, int attr, const char *text)
{
    nl_put(q, attr, text, strlen(text) + 1);
}

struct nlattr *nl_nest(struct nlreq *q, int attr)
{
    struct nl_msg *m = nlreq_current(q);
    struct nlattr *nest = m != NULL ? nla_nest_start(m, attr) : NULL;

    if (nest == NULL)
        nlreq_fail(q, -E2BIG);
    return nest;
}

void nl_nest_end(struct nlreq *q, struct nlattr *nest)
{
    struct nl_msg *m = nlreq_current(q);

    if (m != NULL && nest != NULL && nla_nest_end_keep_empty(m, nest) < 0)
        nlreq_fail(q, -E2BIG);
}

void nl_append(struct nlreq *q, const void *data, size_t len)
{
    struct nl_msg *m = nlreq_current(q);
    void *at = m != NULL ? nlmsg_reserve(m, len, NLMSG_ALIGNTO) : NULL;

    if (at == NULL)
        nlreq_fail(q, -E2BIG);
    else
        (void)memcpy(at, data, len);
}

/* ---- replies ---- */

/* Copies the kernel's error message, an attribute after the error. */
static void replies_take_text(struct nl_answers *a, const struct nlmsghdr *h)
{
    const size_t fixed = NLMSG_LENGTH(sizeof(struct nlmsgerr));
    const struct nlattr *attr, *words;

    if ((h->nlmsg_flags & NLM_F_ACK_TLVS) == 0 || h->nlmsg_len < fixed)
        return;
    attr = (const struct nlattr *)(const void *)((const char *)h + fixed);
    words = nla_find(attr, (int)(h->nlmsg_len - fixed), NLMSGERR_ATTR_MSG);
    if (words != NULL)
        (void)snprintf(a->text, sizeof(a->text), "%.*s", nla_len(words),
                       (const char *)nla_data(words));
}

static int replies_take_error(struct nl_answers *a, const struct nlmsghdr *h)
{
    struct nlmsgerr e;

    if (h->nlmsg_len < NLMSG_LENGTH(sizeof(e.error)))
        return -EBADMSG;
    (void)memcpy(&e.error, NLMSG_DATA(h), sizeof(e.error));
    a->acks++;
    if (e.error == 0 || a->error != 0)
        return 0;
    if (e.error > 0)
        return -EBADMSG;
    a->error = e.error;
    a->index = h->nlmsg_seq > 0 ? h->nlmsg_seq - 1 : 0;
    replies_take_text(a, h);
    return 0;
}

int nl_feed(struct nl_answers *a, const void *data, size_t len, nl_message_fn *fn, void *fn_data)
{
    const char *at = data;
    int r = 0;

    while (r == 0 && len >= sizeof(struct nlmsghdr)) {
        const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)at;
        size_t step;

        if (h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len)
            return -EBADMSG;
        if (h->nlmsg_type == NLMSG_ERROR)
            r = replies_take_error(a, h);
        else if (h->nlmsg_type == NLMSG_DONE)
            a->done = true;
        else if (h->nlmsg_type != NLMSG_NOOP && fn != NULL)
            r = fn(h, fn_data);
        step = NLMSG_ALIGN((size_t)h->nlmsg_len);
        at += step < len ? step : len;
        len -= step < len ? step : len;
    }
    return r < 0 ? r : len == 0 ? 0 : -EBADMSG;
}

/* ---- sending ---- */

/* The request is processed before sendmsg returns, so an empty queue is the end. Only a dump
 * continues with each read. */
static int nlreq_receive_all(int sock, struct nl_answers *a, nl_message_fn *fn, void *data)
{
    _Alignas(struct nlmsghdr) char reply[NLREPLY_BYTES];

    for (;;) {
        ssize_t n = recv(sock, reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        if ((size_t)n > sizeof(reply))
            return -EMSGSIZE;
        r = nl_feed(a, reply, (size_t)n, fn, data);
        if (r < 0)
            return r;
    }
}

/* Replies of an earlier, failed request must not be taken for this one's. */
static void socket_drain(int sock)
{
    char byte;

    while (recv(sock, &byte, sizeof(byte), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
        ;
}

static int nlreq_send_all(const struct nlreq *q, int sock, unsigned *ret_wanted)
{
    struct iovec iov[NLREQ_MAX];
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct msghdr hdr = {
        .msg_name = &kernel, .msg_namelen = sizeof(kernel), .msg_iov = iov, .msg_iovlen = q->count};
    ssize_t n;

    *ret_wanted = 0;
    for (unsigned i = 0; i < q->count; i++) {
        struct nlmsghdr *h = nlmsg_hdr(q->msgs[i]);

        *ret_wanted += (h->nlmsg_flags & NLM_F_ACK) != 0;
        iov[i] = (struct iovec){.iov_base = h, .iov_len = NLMSG_ALIGN((size_t)h->nlmsg_len)};
    }
    do
        n = sendmsg(sock, &hdr, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

int nlreq_send(struct nlreq *q, int sock, nl_message_fn *fn, void *data, unsigned *ret_index,
               struct err *err)
{
    struct nl_answers a = {.acks = 0};
    unsigned wanted = 0;
    int r = q->failed;

    if (ret_index != NULL)
        *ret_index = 0;
    if (r < 0)
        return err_errno(err, r, "netlink request");
    socket_drain(sock);
    r = nlreq_send_all(q, sock, &wanted);
    if (r == 0)
        r = nlreq_receive_all(sock, &a, fn, data);
    if (r < 0)
        return err_errno(err, r, "netlink");
    if (a.error < 0) {
        if (ret_index != NULL)
            *ret_index = a.index;
        if (a.text[0] == '\0')
            return err_errno(err, a.error, "netlink");
        return err_errno(err, a.error, "netlink: %s", a.text);
    }
    if (a.acks < wanted)
        return err_set(err, -EPROTO, "netlink: %u of %u answers", a.acks, wanted);
    return 0;
}
