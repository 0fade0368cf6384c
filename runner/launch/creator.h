#pragma once

/*
 * The creator of a sandbox, as far as the launcher can verify it. Volumes and root directories of
 * a client other than the daemon's owner are opened with the client's rights. So a member of the
 * group may show a sandbox what that member can access, and nothing else.
 *
 * The supervisor passes on the client's connection. The kernel names its peer (SO_PEERCRED,
 * SO_PEERGROUPS). The connection's own name proves that it came in at the daemon's socket, as no
 * other process can bind that name.
 *
 * So a compromised supervisor can act only for clients that are connected to it. Once the owner has
 * connected, it can act for the owner: the launcher does not see what was requested over that
 * connection.
 *
 * The creator is saved beside the sandbox's files, where the supervisor cannot write, and applies
 * to all its later starts. Private to launch/.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct err;

enum { CREATOR_GROUPS_MAX = 1024 };

enum creator_kind {
    CREATOR_OWNER = 0, /* the user that runs the launcher: the launcher's own rights */
    CREATOR_NONE,      /* no client was named: may open nothing */
    CREATOR_CLIENT,
};

struct creator {
    enum creator_kind kind;
    uid_t uid; /* uid, gid, groups: of CREATOR_CLIENT */
    gid_t gid;
    gid_t groups[CREATOR_GROUPS_MAX];
    size_t group_count;
};

/* The name of a listening socket, which its connections have, too. */
struct creator_socket {
    struct sockaddr_un name;
    socklen_t len; /* 0: no socket, all requests are the launcher's own */
};
int creator_socket_of(int listen_fd, struct creator_socket *ret, struct err *err);

/* Identifies the peer of fd, a connection accepted at `expected`; fd -1: CREATOR_NONE. -EPROTO: fd
 * is not such a connection. */
int creator_ask(int fd, const struct creator_socket *expected, struct creator *ret,
                struct err *err);

/* Writes the creator as text, and reads it. An empty file, which a power failure can leave, is read
 * as CREATOR_NONE, because a creator must never gain rights. */
int creator_save(int dir_fd, const char *name, const struct creator *c, struct err *err);
int creator_load(int dir_fd, const char *name, struct creator *ret, struct err *err);

bool creator_in_group(const struct creator *c, gid_t gid);

/*
 * openat2(dir_fd, path, O_PATH) beneath dir_fd, without following links, with the creator's rights.
 * The creator must be allowed to read the target (enter a directory) and with `write` to write it.
 * Returns the fd, or a negative errno: -EPERM for CREATOR_NONE. cached: -EAGAIN if this would ask a
 * file system, or if the file system has no disk and so may never answer.
 */
int creator_open(const struct creator *c, int dir_fd, const char *path, bool write, bool cached);

/* connect(2) to a unix socket with the creator's rights; it needs write permission on the socket.
 */
int creator_connect(const struct creator *c, int fd, const struct sockaddr_un *name);

/* Calls call(data) with these rights for file accesses, and returns its result; call must not
 * change the rights. Or returns a negative errno without the call. */
int rights_do(uid_t uid, gid_t gid, const gid_t *groups, size_t count, int (*call)(void *),
              void *data);
