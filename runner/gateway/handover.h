#pragma once

/*
 * A descriptor on its way to a client on a unix socket (SCM_RIGHTS). The kernel lets us have no
 * more of them under way than descriptors open, and we need some for starts and execs; and a client
 * that takes none can shut its connection, both ways, and still keep what it has not read. So ours
 * of it stays open, and is counted, until all has been read or the client's end is closed: what is
 * under way is then always less than what we have open.
 */

struct buf;
struct handover_hub;
struct poller;

/* The client has it, or has gone; or handover_hub_close. From the loop. */
typedef void handover_fn(void *data);

int handover_hub_new(struct poller *poller, struct handover_hub **ret);
/* Before the poller's. Calls every on_end. NULL is fine. */
void handover_hub_close(struct handover_hub *hub);
unsigned handover_count(const struct handover_hub *hub);

/*
 * Sends text, and fd with its first byte; fd stays the caller's. client is taken on success, and
 * closed before on_end. -EAGAIN: the client has no room for all of it, and the connection is of no
 * use any more; or why not.
 */
int handover_start(struct handover_hub *hub, int client, int fd, const struct buf *text,
                   handover_fn *on_end, void *data);
