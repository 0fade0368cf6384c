#pragma once

/*
 * For whom a sandbox is made, as far as the launcher can prove it. Volumes and root directories of
 * whoever is not the daemon's owner are opened with their rights: a member of the group may show a
 * sandbox what they can see themselves, and nothing else.
 *
 * The supervisor passes on the client's connection; who is at its other end the kernel says
 * (SO_PEERCRED, SO_PEERGROUPS), and that it is a connection to our own socket its name says, which
 * nobody else can bind. A supervisor that was taken over can therefore only act for those who have
 * connected to it. (It can act for the owner, then, once the owner has connected: what was asked
 * for over that connection the launcher does not know.) It is written down with the sandbox's
 * files, where the supervisor cannot write, and counts for all its later starts. Private to
 * launch/.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct err;

enum { CREATOR_GROUPS_MAX = 1024 };

enum creator_kind {
    CREATOR_OWNER = 0, /* whoever runs the launcher: its own rights */
    CREATOR_NONE,      /* nobody has been named: may open nothing */
    CREATOR_CLIENT,
};

struct creator {
    enum creator_kind kind;
    uid_t uid; /* and so on: of CREATOR_CLIENT */
    gid_t gid;
    gid_t groups[CREATOR_GROUPS_MAX];
    size_t group_count;
};

/* The name of a listening socket, which its connections have, too. */
struct creator_socket {
    struct sockaddr_un name;
    socklen_t len; /* 0: there is none, and everything is asked by ourselves */
};
int creator_socket_of(int listen_fd, struct creator_socket *ret, struct err *err);

/* Who is at the other end of fd, a connection to that socket; fd -1: CREATOR_NONE. -EPROTO: it is
 * none. */
int creator_ask(int fd, const struct creator_socket *expected, struct creator *ret,
                struct err *err);

/* As text, and from it. An empty file, which a loss of power can leave, is CREATOR_NONE: who must
 * not be more than they were may be nobody. */
int creator_save(int dir_fd, const char *name, const struct creator *c, struct err *err);
int creator_load(int dir_fd, const char *name, struct creator *ret, struct err *err);

bool creator_in_group(const struct creator *c, gid_t gid);

/*
 * openat2(dir_fd, path, O_PATH) beneath dir_fd, through no link, with the creator's rights; and the
 * creator may read what is there (enter it, when it is a directory), and with `write` write it.
 * Returns the fd, or a negative errno: -EPERM of CREATOR_NONE. cached: -EAGAIN rather than asking a
 * file system, and of one that has no disk of its own below it, which may take for ever to answer.
 */
int creator_open(const struct creator *c, int dir_fd, const char *path, bool write, bool cached);

/* connect(2) to a unix socket, which needs the right to write to it, with the creator's rights. */
int creator_connect(const struct creator *c, int fd, const struct sockaddr_un *name);

/* What call(data) returns, when file accesses are checked with these rights; it must leave them as
 * they are. Or a negative errno. */
int rights_do(uid_t uid, gid_t gid, const gid_t *groups, size_t count, int (*call)(void *),
              void *data);
