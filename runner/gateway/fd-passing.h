#pragma once

/* Passes an fd to a client on a unix socket (SCM_RIGHTS). The kernel allows a user only as many
 * fds in flight as RLIMIT_NOFILE, and starts and execs need some. A client can shut down its
 * connection both ways and still leave the message unread. So our end stays open, and is
 * counted, until the client has read everything or closed its end: fds in flight never exceed
 * our open fds.
 *
 * Runs in the supervisor's loop thread. */

struct buf;
struct fd_passing_hub;
struct evloop;

/* Called once, from the loop or fd_passing_hub_close: the client has read everything or closed. */
typedef void fd_passing_fn(void *data);

int fd_passing_hub_new(struct evloop *evloop, struct fd_passing_hub **ret);
/* Called before evloop_close. Calls every on_end. NULL is allowed. */
void fd_passing_hub_close(struct fd_passing_hub *hub);
unsigned fd_passing_count(const struct fd_passing_hub *hub);

/* Sends text with fd attached to its first byte; fd stays the caller's. On success client is
 * taken, and closed before on_end. -EAGAIN: the socket has no room for all of it, and the
 * connection must be closed. Other negative errnos as of sendmsg(2). */
int fd_passing_start(struct fd_passing_hub *hub, int client, int fd, const struct buf *text,
                     fd_passing_fn *on_end, void *data);
