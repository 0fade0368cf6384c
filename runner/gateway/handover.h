#pragma once

/* Passes an fd to a client on a unix socket (SCM_RIGHTS). The kernel allows a user only as many
 * fds in flight as RLIMIT_NOFILE, and starts and execs need some. A client can shut down its
 * connection both ways and still leave the message unread. So our end stays open, and is
 * counted, until the client has read everything or closed its end: fds in flight never exceed
 * our open fds.
 *
 * Runs in the supervisor's loop thread. */

struct buf;
struct handover_hub;
struct poller;

/* Called once, from the loop or handover_hub_close: the client has read everything or closed. */
typedef void handover_fn(void *data);

int handover_hub_new(struct poller *poller, struct handover_hub **ret);
/* Called before poller_close. Calls every on_end. NULL is allowed. */
void handover_hub_close(struct handover_hub *hub);
unsigned handover_count(const struct handover_hub *hub);

/* Sends text with fd attached to its first byte; fd stays the caller's. On success client is
 * taken, and closed before on_end. -EAGAIN: the socket has no room for all of it, and the
 * connection must be closed. Other negative errnos as of sendmsg(2). */
int handover_start(struct handover_hub *hub, int client, int fd, const struct buf *text,
                   handover_fn *on_end, void *data);
