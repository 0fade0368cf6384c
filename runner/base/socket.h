#pragma once

#include <sys/socket.h>

/* From now on close() resets the connection, and throws away what waits: the peer is to see that
 * something went wrong. */
static inline void socket_reset_on_close(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}
