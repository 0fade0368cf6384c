#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "http/server-internal.h"

/* Reads the credentials of unix socket peers. SO_PEERCRED and SO_PEERGROUPS are those at
 * connect(2), whichever process holds the socket now; so is the permission to connect. */

void peer_ask(struct http_conn *c)
{
    int domain;
    socklen_t len = sizeof(domain);
    struct ucred cred;

    if (c->peer_asked)
        return;
    c->peer_asked = true;
    if (getsockopt(c->fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_UNIX)
        return;
    len = sizeof(cred);
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || len != sizeof(cred))
        return;
    c->peer.known = true;
    c->peer.pid = cred.pid;
    c->peer.uid = cred.uid;
    c->peer.gid = cred.gid;
}

/* Groups only grant more rights, so a peer whose groups cannot be read has none. */
static void peer_read_groups(struct http_conn *c)
{
    gid_t *groups;
    socklen_t len = 0;

    if (c->groups_asked || !c->peer.known || c->fd < 0)
        return;
    c->groups_asked = true;
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
        return;
    if (len > HTTP_MAX_GROUPS * sizeof(gid_t))
        return;
    groups = malloc(len);
    if (groups == NULL)
        return;
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0) {
        free(groups);
        return;
    }
    c->groups = groups;
    c->peer.groups = groups;
    c->peer.group_count = len / sizeof(gid_t);
}

bool http_client_left(const struct http_request *req)
{
    struct pollfd p = {.fd = req->conn->fd};

    if (req->gone || p.fd < 0)
        return true;
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

int http_peer_fd(const struct http_request *req)
{
    return req->conn->fd;
}

const struct http_peer *http_peer(struct http_request *req)
{
    struct http_conn *c = req->conn;

    peer_ask(c);
    peer_read_groups(c);
    return &c->peer;
}
