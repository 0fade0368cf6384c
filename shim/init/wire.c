#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init.h"

enum { WIRE_FDS_MAX = 8 };

union control {
    char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
    struct cmsghdr first;
};

int wire_send(int sock, const void *data, size_t len, const int *fds, int fd_count)
{
    union control control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (fd_count > WIRE_FDS_MAX)
        return -E2BIG;
    if (fd_count > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = (socklen_t)CMSG_SPACE(sizeof(int) * (size_t)fd_count);
        control.first.cmsg_level = SOL_SOCKET;
        control.first.cmsg_type = SCM_RIGHTS;
        control.first.cmsg_len = (socklen_t)CMSG_LEN(sizeof(int) * (size_t)fd_count);
        (void)memcpy(CMSG_DATA(&control.first), fds, sizeof(int) * (size_t)fd_count);
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* The kernel puts all descriptors of a message into one header. */
static int wire_take_fds(struct msghdr *msg, int *fds, int fd_max)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    size_t n;

    if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return 0;
    n = ((size_t)c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; i++) {
        int fd;

        (void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
        if (i < (size_t)fd_max)
            fds[i] = fd;
        else
            (void)close(fd);
    }
    return (int)n;
}

int wire_recv(int sock, void *data, size_t len, int *fds, int fd_max, int *ret_fd_count)
{
    union control control;
    struct iovec iov = {.iov_base = data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    int count;

    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;

    count = wire_take_fds(&msg, fds, fd_max);
    if (n == 0) {
        /*
         * This is the end of the connection, or an empty message, which an honest peer never sends.
         */
        for (int i = 0; i < count && i < fd_max; i++)
            (void)close(fds[i]);
        *ret_fd_count = 0;
        return 0;
    }
    if (count > fd_max || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        for (int i = 0; i < count && i < fd_max; i++)
            (void)close(fds[i]);
        return -EPROTO;
    }
    *ret_fd_count = count;
    return (int)n;
}
