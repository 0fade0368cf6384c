#include "gateway/handover.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/socket.h"
#include "gateway/poller.h"

struct handover {
    struct watch watch; /* first */
    struct handover_hub *hub;
    struct handover *next, **link;
    int client; /* owned */
    handover_fn *on_end;
    void *data;
};

struct handover_hub {
    struct poller *poller; /* borrowed */
    struct handover *first;
    unsigned count;
};

int handover_hub_new(struct poller *poller, struct handover_hub **ret)
{
    struct handover_hub *hub = calloc(1, sizeof(*hub));

    if (hub == NULL)
        return -ENOMEM;
    hub->poller = poller;
    *ret = hub;
    return 0;
}

unsigned handover_count(const struct handover_hub *hub)
{
    return hub->count;
}

static void finish(struct handover *h)
{
    watch_remove(&h->watch);
    (void)close(h->client);
    list_remove(h);
    h->hub->count--;
    h->on_end(h->data);
    free(h);
}

void handover_hub_close(struct handover_hub *hub)
{
    if (hub == NULL)
        return;
    while (hub->first != NULL)
        finish(hub->first);
    free(hub);
}

/* Of ours, nothing waits in the peer's queue. While the kernel frees the last of it, which is when
 * we are woken, it still counts one byte for that (sock_wfree). */
static bool all_taken(int fd)
{
    int waiting = 0;

    return ioctl(fd, SIOCOUTQ, &waiting) < 0 || waiting <= 1;
}

/* Whatever happens to the socket, a shutdown included: only the queue tells. Room in it, as a read
 * or the peer's end makes, is an event of its own each time. */
static void on_event(struct watch *w, unsigned events)
{
    struct handover *h = (struct handover *)(void *)w;

    (void)events;
    if (all_taken(h->client))
        finish(h);
}

static int send_all(int client, int fd, const struct buf *text)
{
    struct iovec iov = {.iov_base = text->data, .iov_len = text->len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union socket_fds room;
    ssize_t n;

    socket_attach_fds(&msg, &room, &fd, 1);
    do
        n = sendmsg(client, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == text->len ? 0 : -EAGAIN;
}

int handover_start(struct handover_hub *hub, int client, int fd, const struct buf *text,
                   handover_fn *on_end, void *data)
{
    struct handover *h = calloc(1, sizeof(*h));
    int r;

    if (h == NULL)
        return -ENOMEM;
    *h = (struct handover){.hub = hub, .client = client, .on_end = on_end, .data = data};
    r = watch_add(hub->poller, &h->watch, client, on_event);
    if (r == 0)
        r = send_all(client, fd, text);
    if (r < 0) {
        watch_remove(&h->watch);
        free(h);
        return r;
    }
    list_add(&hub->first, h);
    hub->count++;
    return 0;
}
