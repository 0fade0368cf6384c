#pragma once

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

/* Makes close() send a RST and drop unsent bytes, so that the peer sees a failure. */
static inline void socket_reset_on_close(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* Control message buffer for fds sent over a unix socket. */
enum { SOCKET_FDS_MAX = 16 };
union socket_fds {
    char bytes[CMSG_SPACE(sizeof(int) * SOCKET_FDS_MAX)];
    struct cmsghdr first; /* keeps CMSG_FIRSTHDR from looking NULL to an analyzer */
};

/* Attaches fds to the first byte of the message; count 0: none. */
static inline void socket_attach_fds(struct msghdr *msg, union socket_fds *room, const int *fds,
                                     size_t count)
{
    assert(count <= SOCKET_FDS_MAX);
    if (count == 0)
        return;
    (void)memset(room, 0, sizeof(*room));
    room->first = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                   .cmsg_type = SCM_RIGHTS,
                                   .cmsg_len = CMSG_LEN(sizeof(int) * count)};
    (void)memcpy(CMSG_DATA(&room->first), fds, sizeof(int) * count);
    msg->msg_control = room->bytes;
    msg->msg_controllen = CMSG_SPACE(sizeof(int) * count);
}
