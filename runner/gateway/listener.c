#include "gateway/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

struct listener {
    struct fd_watch watch; /* first */
    struct evloop *evloop;
    int fd; /* owned */
    struct deadline pause;
    listener_fn *on_client;
    void *data;
};

static void on_listener_pause_over(struct deadline *d)
{
    struct listener *l = (struct listener *)(void *)((char *)d - offsetof(struct listener, pause));

    watch_again(&l->watch);
}

static bool errno_is_out_of_fds(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_listener_event(struct fd_watch *w, unsigned events)
{
    struct listener *l = (struct listener *)(void *)w;

    (void)events;
    for (int i = 0; i < LISTENER_BATCH; i++) {
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t len = sizeof(peer);
        int fd =
            accept4(l->fd, (struct sockaddr *)(void *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            l->on_client(l->data, fd, (const struct sockaddr *)(const void *)&peer);
            continue;
        }
        if (errno == EAGAIN)
            return;
        if (errno_is_out_of_fds(errno)) {
            deadline_set(l->evloop, &l->pause, LISTENER_PAUSE_MS, on_listener_pause_over);
            return;
        }
        /* Errors of a single connection (reset before accept): try the next. */
    }
    watch_again(w);
}

int listener_new(struct evloop *evloop, int fd, listener_fn *on_client, void *data,
                 struct listener **ret, struct err *err)
{
    struct listener *l = calloc(1, sizeof(*l));
    int flags = fcntl(fd, F_GETFL), r;

    if (l == NULL)
        return err_errno(err, -ENOMEM, "listen");
    l->evloop = evloop;
    l->on_client = on_client;
    l->data = data;
    r = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (r == 0)
        r = watch_add(evloop, &l->watch, fd, on_listener_event);
    if (r < 0) {
        free(l);
        return err_errno(err, r, "listen");
    }
    l->fd = fd;
    *ret = l;
    return 0;
}

void listener_close(struct listener *l)
{
    if (l == NULL)
        return;
    watch_remove(&l->watch);
    deadline_clear(&l->pause);
    (void)close(l->fd);
    free(l);
}

void address_text(const struct sockaddr *address, char ret[LISTENER_ADDRESS_MAX])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

    ret[0] = '\0';
    if (address->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &v4->sin_addr, ret, LISTENER_ADDRESS_MAX);
    else if (address->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        (void)inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], ret, LISTENER_ADDRESS_MAX);
    else if (address->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &v6->sin6_addr, ret, LISTENER_ADDRESS_MAX);
}

bool address_is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

    if (address->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
            (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}
