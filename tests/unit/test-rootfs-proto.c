/* The messages of the worker: what one side encodes the other decodes, and nothing else is taken.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/worker-proto.h"
#include "tap.h"

static struct worker_msg full(enum worker_type type)
{
    struct worker_msg m = {.type = type,
                           .flags = WORKER_BOTTOM | WORKER_KEEP_OWNER,
                           .op = WORKER_PACK,
                           .kind = WORKER_ZSTD,
                           .code = type == WORKER_FAILED ? -ENOSPC : 0,
                           .bytes = UINT64_MAX,
                           .files = 2,
                           .entries = 3,
                           .packed = 4,
                           .devices = 5,
                           .xattrs = 6,
                           .name = "a name",
                           .text = "a text"};

    (void)memset(m.digest, 0xab, sizeof(m.digest));
    (void)memset(m.packed_digest, 0xcd, sizeof(m.packed_digest));
    return m;
}

static bool same(const struct worker_msg *a, const struct worker_msg *b)
{
    return a->type == b->type && a->flags == b->flags && a->op == b->op && a->kind == b->kind &&
           a->code == b->code && a->bytes == b->bytes && a->files == b->files &&
           a->entries == b->entries && a->packed == b->packed && a->devices == b->devices &&
           a->xattrs == b->xattrs && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0 &&
           memcmp(a->packed_digest, b->packed_digest, sizeof(a->packed_digest)) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->text, b->text) == 0;
}

TEST(each_message_survives)
{
    static const enum worker_type types[] = {WORKER_START,    WORKER_TAKE,  WORKER_SKIP,
                                             WORKER_PROGRESS, WORKER_ENTRY, WORKER_STORED,
                                             WORKER_DONE,     WORKER_FAILED};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const struct worker_msg m = full(types[i]);
        uint8_t bytes[WORKER_MSG_MAX];
        ssize_t n = worker_msg_encode(&m, bytes);
        struct worker_msg back;
        struct err err = ERR_NONE;

        CHECK(n > 0);
        CHECK_INT(worker_msg_decode(bytes, (size_t)n, &back, &err), 0);
        CHECK(same(&m, &back));
    }
}

TEST(the_longest_texts_fit)
{
    struct worker_msg m = full(WORKER_ENTRY), back;
    uint8_t bytes[WORKER_MSG_MAX];
    ssize_t n;

    (void)memset(m.name, 'n', WORKER_PATH_MAX);
    (void)memset(m.text, 't', WORKER_PATH_MAX);
    n = worker_msg_encode(&m, bytes);
    CHECK(n > (ssize_t)2 * WORKER_PATH_MAX);
    CHECK_INT(worker_msg_decode(bytes, (size_t)n, &back, NULL), 0);
    CHECK(same(&m, &back));
    m.name[WORKER_PATH_MAX] = 'x'; /* without an end */
    CHECK_INT(worker_msg_encode(&m, bytes), -EINVAL);
}

TEST(refuses_values_that_mean_nothing)
{
    static const struct {
        enum worker_type type;
        uint32_t flags, op, kind;
        int32_t code;
        const char *message;
    } rows[] = {
        {WORKER_INVALID, 0, 0, 0, 0, "a type that is not known"},
        {(enum worker_type)7, 0, 0, 0, 0, "a type that is not known"},
        {WORKER_START, 0, 0, 0, 0, "an operation that is not known"},
        {WORKER_START, 0, WORKER_OP_MAX, 0, 0, "an operation that is not known"},
        {WORKER_START, 0, WORKER_PACK, WORKER_COMPRESSION_MAX, 0, "a compression"},
        {WORKER_START, 0, WORKER_CHANGES, WORKER_GZIP, 0, "a compression of what is no archive"},
        {WORKER_START, 0, WORKER_SIZE, WORKER_GZIP, 0, "a compression of what is no archive"},
        {WORKER_START, WORKER_OF_PARENTS, WORKER_PACK, 0, 0, "a flag of the result"},
        {WORKER_START, WORKER_PARTIAL, WORKER_SIZE, 0, 0, "a flag of the result"},
        {WORKER_START, 1 << 20, WORKER_PACK, 0, 0, "a flag that is not known"},
        {WORKER_ENTRY, 0, 0, 0, 0, "a kind of entry"},
        {WORKER_ENTRY, 0, 0, WORKER_ENTRY_MAX, 0, "a kind of entry"},
        {WORKER_DONE, 0, 0, WORKER_COMPRESSION_MAX, 0, "a compression"},
        {WORKER_FAILED, 0, 0, 0, 0, "a failure without its cause"},
        {WORKER_FAILED, 0, 0, 0, 5, "a failure without its cause"},
        {WORKER_FAILED, 0, 0, 0, -5000, "a failure without its cause"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct worker_msg m = full(WORKER_TAKE), back = full(WORKER_SKIP);
        uint8_t bytes[WORKER_MSG_MAX];
        ssize_t n = worker_msg_encode(&m, bytes);
        struct err err = ERR_NONE;

        /* Put where the encoder would not: type at 6, flags, op, kind, code from 8 on. */
        bytes[6] = (uint8_t)rows[i].type;
        (void)memcpy(bytes + 8, &rows[i].flags, 4);
        (void)memcpy(bytes + 12, &rows[i].op, 4);
        (void)memcpy(bytes + 16, &rows[i].kind, 4);
        (void)memcpy(bytes + 20, &rows[i].code, 4);
        CHECK_INT(worker_msg_decode(bytes, (size_t)n, &back, &err), -EPROTO);
        if (strstr(err.msg, rows[i].message) == NULL)
            tap_fail("row %zu: \"%s\"", i, err.msg);
        CHECK_INT(back.type, WORKER_SKIP); /* untouched */
        m.type = rows[i].type;
        m.flags = rows[i].flags;
        m.op = rows[i].op;
        m.kind = rows[i].kind;
        m.code = rows[i].code;
        CHECK_INT(worker_msg_encode(&m, bytes), -EINVAL);
    }
}

TEST(refuses_other_forms)
{
    const struct worker_msg m = full(WORKER_TAKE);
    uint8_t good[WORKER_MSG_MAX], bad[WORKER_MSG_MAX];
    ssize_t n = worker_msg_encode(&m, good);
    struct worker_msg back;
    struct err err = ERR_NONE;

    for (size_t len = 0; len < (size_t)n; len++)
        CHECK_INT(worker_msg_decode(good, len, &back, &err), -EPROTO);
    CHECK_INT(worker_msg_decode(good, (size_t)n + 1, &back, &err), -EPROTO);
    for (size_t i = 0; i < 6; i++) { /* magic and version */
        (void)memcpy(bad, good, sizeof(bad));
        bad[i] ^= 1;
        CHECK_INT(worker_msg_decode(bad, (size_t)n, &back, &err), -EPROTO);
    }
    (void)memcpy(bad, good, sizeof(bad));
    bad[n - 1] = '\0';
    CHECK_INT(worker_msg_decode(bad, (size_t)n, &back, &err), -EPROTO);
    CHECK_STR(err.msg, "a worker's message with texts of another length");
}

struct ends {
    int a, b;
};

static struct ends pair(void)
{
    int fds[2] = {FD_NONE, FD_NONE};

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    return (struct ends){fds[0], fds[1]};
}

TEST(crosses_a_socket_with_its_descriptor)
{
    const struct worker_msg m = full(WORKER_TAKE);
    struct ends s = pair();
    struct worker_msg back;
    struct err err = ERR_NONE;
    int fd = FD_NONE;

    CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), -EAGAIN);
    CHECK_INT(worker_msg_send(s.a, &m, s.a, &err), 0);
    CHECK_INT(worker_msg_send(s.a, &m, FD_NONE, &err), 0);
    CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), 1);
    CHECK(same(&m, &back));
    CHECK(fd >= 0);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    (void)close(fd);
    CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), 1);
    CHECK_INT(fd, FD_NONE);
    (void)close(s.a);
    CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), 0);
    (void)close(s.b);
}

/* The kernel tells of what was left unread in front of what was said: the reason must not be lost.
 */
TEST(hears_the_last_words_of_who_left_something_unread)
{
    const struct worker_msg start = full(WORKER_START), last = full(WORKER_FAILED);
    struct ends s = pair();
    struct worker_msg back;
    struct err err = ERR_NONE;
    int fd = FD_NONE;

    CHECK_INT(worker_msg_send(s.b, &start, FD_NONE, &err), 0);
    CHECK_INT(worker_msg_send(s.a, &last, FD_NONE, &err), 0);
    (void)close(s.a);
    CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), 1);
    CHECK_INT(back.type, WORKER_FAILED);
    CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), 0);
    (void)close(s.b);
}

TEST(refuses_more_descriptors_and_keeps_none)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } control = {.space = {0}};
    const struct worker_msg m = full(WORKER_TAKE);
    uint8_t bytes[WORKER_MSG_MAX];
    struct iovec iov = {bytes, (size_t)worker_msg_encode(&m, bytes)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space};
    struct ends s = pair();
    const int fds[3] = {s.a, s.a, s.a}, next = dup(s.a);
    struct worker_msg back;
    struct err err = ERR_NONE;
    int fd = FD_NONE;

    for (size_t n = 2; n <= 3; n++) {
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        (void)memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
        CHECK(sendmsg(s.a, &msg, 0) > 0);
        CHECK_INT(worker_msg_recv(s.b, &back, &fd, &err), -EPROTO);
        CHECK_INT(fd, FD_NONE);
        fd = dup(s.a);
        CHECK_INT(fd, next + 1); /* nothing is left open */
        (void)close(fd);
        fd = FD_NONE;
    }
    (void)close(next);
    (void)close(s.a);
    (void)close(s.b);
}

TAP_MAIN
