#include "gateway/fd-passing.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/evloop.h"
#include "base/list.h"
#include "base/socket.h"

struct fd_passing {
    struct fd_watch watch; /* first */
    struct fd_passing_hub *hub;
    struct fd_passing *next, **link;
    int client; /* owned */
    fd_passing_fn *on_end;
    void *data;
};

struct fd_passing_hub {
    struct evloop *evloop; /* borrowed */
    struct fd_passing *first;
    unsigned count;
};

int fd_passing_hub_new(struct evloop *evloop, struct fd_passing_hub **ret)
{
    struct fd_passing_hub *hub = calloc(1, sizeof(*hub));

    if (hub == NULL)
        return -ENOMEM;
    hub->evloop = evloop;
    *ret = hub;
    return 0;
}

unsigned fd_passing_count(const struct fd_passing_hub *hub)
{
    return hub->count;
}

static void fd_passing_finish(struct fd_passing *h)
{
    watch_remove(&h->watch);
    (void)close(h->client);
    list_remove(h);
    h->hub->count--;
    h->on_end(h->data);
    free(h);
}

void fd_passing_hub_close(struct fd_passing_hub *hub)
{
    if (hub == NULL)
        return;
    while (hub->first != NULL)
        fd_passing_finish(hub->first);
    free(hub);
}

/* True if the client has read everything. The queue may still count one byte while the kernel
 * frees the last buffer, which is when it wakes us (sock_wfree). */
static bool queue_is_empty(int fd)
{
    int waiting = 0;

    return ioctl(fd, SIOCOUTQ, &waiting) < 0 || waiting <= 1;
}

/* Only the queue's length matters, whatever happens to the socket, a shutdown included. Each
 * read by the peer, and its close, frees queue space and raises an event. */
static void on_handover_event(struct fd_watch *w, unsigned events)
{
    struct fd_passing *h = (struct fd_passing *)(void *)w;

    (void)events;
    if (queue_is_empty(h->client))
        fd_passing_finish(h);
}

static int send_fd(int client, int fd, const struct buf *text)
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

int fd_passing_start(struct fd_passing_hub *hub, int client, int fd, const struct buf *text,
                     fd_passing_fn *on_end, void *data)
{
    struct fd_passing *h = calloc(1, sizeof(*h));
    int r;

    if (h == NULL)
        return -ENOMEM;
    *h = (struct fd_passing){.hub = hub, .client = client, .on_end = on_end, .data = data};
    r = watch_add(hub->evloop, &h->watch, client, on_handover_event);
    if (r == 0)
        r = send_fd(client, fd, text);
    if (r < 0) {
        watch_remove(&h->watch);
        free(h);
        return r;
    }
    list_add(&hub->first, h);
    hub->count++;
    return 0;
}
