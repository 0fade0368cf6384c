#include "launch/creator.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/syscalls.h"

enum { TEXT_MAX = 16 << 10 /* 1024 groups of 10 digits, and the words before them */ };

/* ---- identifying the client ---- */

int creator_socket_of(int listen_fd, struct creator_socket *ret, struct err *err)
{
    struct creator_socket s = {.len = sizeof(s.name)};

    if (getsockname(listen_fd, (struct sockaddr *)&s.name, &s.len) < 0)
        return err_errno(err, -errno, "the name of the socket");
    /* Without a unique name, any other socket's connections could be taken for this one's. */
    if (s.name.sun_family != AF_UNIX || s.len <= offsetof(struct sockaddr_un, sun_path) + 1 ||
        s.len > sizeof(s.name))
        return err_set(err, -EINVAL, "the socket is no unix socket with a name");
    *ret = s;
    return 0;
}

static bool is_connection(int fd, const struct creator_socket *expected)
{
    struct creator_socket s = {.len = sizeof(s.name)};
    int listens = 1;
    socklen_t len = sizeof(listens);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens == 0 &&
           getsockname(fd, (struct sockaddr *)&s.name, &s.len) == 0 && s.len == expected->len &&
           memcmp(&s.name, &expected->name, s.len) == 0;
}

int creator_ask(int fd, const struct creator_socket *expected, struct creator *ret, struct err *err)
{
    struct ucred cred;
    socklen_t len = sizeof(cred), groups = sizeof(ret->groups);

    *ret = (struct creator){.kind = CREATOR_NONE};
    if (fd < 0)
        return 0;
    if (expected->len == 0 || !is_connection(fd, expected))
        return err_set(err, -EPROTO,
                       "request: what came as a client is no connection to our socket");
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || len != sizeof(cred))
        return err_errno(err, -errno, "the client's credentials");
    if (cred.uid == 0 || cred.uid == geteuid()) {
        ret->kind = CREATOR_OWNER;
        return 0;
    }
    /* All groups or none: a group can also deny access. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret->groups, &groups) < 0)
        return err_errno(err, -errno, "the client's groups");
    ret->kind = CREATOR_CLIENT;
    ret->uid = cred.uid;
    ret->gid = cred.gid;
    ret->group_count = groups / sizeof(gid_t);
    return 0;
}

/* ---- saving and loading ---- */

int creator_save(int dir_fd, const char *name, const struct creator *c, struct err *err)
{
    auto_buf struct buf text = BUF_INIT(TEXT_MAX);
    auto_close int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "write down the creator");
    if (c->kind == CREATOR_CLIENT)
        r = buf_printf(&text, "client %u %u", (unsigned)c->uid, (unsigned)c->gid);
    else
        r = buf_append_str(&text, c->kind == CREATOR_OWNER ? "owner" : "none");
    for (size_t i = 0; r == 0 && i < c->group_count; i++)
        r = buf_printf(&text, " %u", (unsigned)c->groups[i]);
    if (r == 0)
        r = buf_append(&text, "\n", 1);
    if (r == 0)
        r = write_all(fd, text.data, text.len);
    return r < 0 ? err_errno(err, r, "write down the creator") : 0;
}

/* Parses the next number of the line, which creator_save has written. */
static bool creator_parse_number(const char **at, unsigned *ret)
{
    char *end;
    unsigned long n;

    if (**at != ' ' || (*at)[1] < '0' || (*at)[1] > '9')
        return false;
    errno = 0;
    n = strtoul(*at + 1, &end, 10);
    if (errno != 0 || n > UINT32_MAX)
        return false;
    *at = end;
    *ret = (unsigned)n;
    return true;
}

static int creator_parse_client(const char *at, struct creator *ret)
{
    struct creator c = {.kind = CREATOR_CLIENT};
    unsigned n;

    if (!creator_parse_number(&at, &c.uid) || !creator_parse_number(&at, &c.gid))
        return -EUCLEAN;
    while (creator_parse_number(&at, &n)) {
        if (c.group_count == CREATOR_GROUPS_MAX)
            return -EUCLEAN;
        c.groups[c.group_count++] = n;
    }
    if (strcmp(at, "\n") != 0)
        return -EUCLEAN;
    *ret = c;
    return 0;
}

int creator_load(int dir_fd, const char *name, struct creator *ret, struct err *err)
{
    static const char client[] = "client";
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = file_read_at(dir_fd, name, TEXT_MAX, &text, &len, err);
    if (r < 0)
        return r;
    /* Empty: the host lost power before the text was on disk. */
    *ret = (struct creator){.kind = CREATOR_NONE};
    if (strcmp(text, "owner\n") == 0)
        ret->kind = CREATOR_OWNER;
    else if (strncmp(text, client, sizeof(client) - 1) == 0)
        r = creator_parse_client(text + sizeof(client) - 1, ret);
    else if (len > 0 && strcmp(text, "none\n") != 0)
        r = -EUCLEAN;
    return r < 0 ? err_errno(err, r, "who made the sandbox") : 0;
}

bool creator_in_group(const struct creator *c, gid_t gid)
{
    for (size_t i = 0; i < c->group_count; i++)
        if (c->groups[i] == gid)
            return true;
    return c->gid == gid;
}

/* ---- acting with the creator's rights ---- */

/* Sets the ids that file accesses are checked with. setfsuid(2) shows a failure only in a second
 * call. The kernel drops and restores the capabilities that override permissions together with the
 * fsuid. */
static int rights_set(uid_t uid, gid_t gid, const gid_t *groups, size_t count)
{
    if (setgroups(count, groups) < 0)
        return -errno;
    (void)setfsgid(gid);
    (void)setfsuid(uid);
    return setfsgid((gid_t)-1) == (int)gid && setfsuid((uid_t)-1) == (int)uid ? 0 : -EPERM;
}

/* The kernel answers this from its cache (AT_STATX_DONT_SYNC), without asking the file system. */
static bool has_disk(int fd)
{
    struct statx st;

    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 &&
           st.stx_dev_major != 0;
}

static int open_path(int dir_fd, const char *path, bool cached)
{
    const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    auto_close int fd = sys_openat2(dir_fd, path, O_PATH | O_CLOEXEC, 0,
                                    resolve | (cached ? (uint64_t)RESOLVE_CACHED : 0));

    /* -EINVAL: a kernel without RESOLVE_CACHED. */
    if (cached && (fd == -EINVAL || (fd >= 0 && !has_disk(fd))))
        return -EAGAIN;
    return take_fd(&fd);
}

/* Opens the path and checks that the current fsuid may read (enter, write) it. */
static int open_checked(int dir_fd, const char *path, bool write, bool cached)
{
    auto_close int fd = open_path(dir_fd, path, cached);
    int mode = R_OK | (write ? W_OK : 0);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        mode |= X_OK;
    if (syscall(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH | AT_EACCESS) < 0)
        return -errno;
    return take_fd(&fd);
}

int rights_do(uid_t uid, gid_t gid, const gid_t *groups, size_t count, int (*call)(void *),
              void *data)
{
    gid_t own[CREATOR_GROUPS_MAX];
    int own_count = getgroups(CREATOR_GROUPS_MAX, own), r;

    if (own_count < 0)
        return -errno;
    r = rights_set(uid, gid, groups, count);
    if (r == 0)
        r = call(data);
    /* With any other rights the launcher would be useless and dangerous. */
    if (rights_set(geteuid(), getegid(), own, (size_t)own_count) < 0)
        abort();
    return r;
}

struct open_call {
    int dir_fd;
    const char *path;
    bool write, cached;
};

static int call_open(void *data)
{
    const struct open_call *o = data;

    return open_checked(o->dir_fd, o->path, o->write, o->cached);
}

int creator_open(const struct creator *c, int dir_fd, const char *path, bool write, bool cached)
{
    struct open_call o = {.dir_fd = dir_fd, .path = path, .write = write, .cached = cached};

    if (c->kind == CREATOR_NONE)
        return -EPERM;
    if (c->kind == CREATOR_OWNER)
        return open_path(dir_fd, path, cached);
    return rights_do(c->uid, c->gid, c->groups, c->group_count, call_open, &o);
}

struct connect_call {
    int fd;
    const struct sockaddr_un *name;
};

static int call_connect(void *data)
{
    const struct connect_call *k = data;
    const struct sockaddr *to = (const struct sockaddr *)(const void *)k->name;

    return connect(k->fd, to, sizeof(*k->name)) < 0 ? -errno : 0;
}

int creator_connect(const struct creator *c, int fd, const struct sockaddr_un *name)
{
    struct connect_call k = {.fd = fd, .name = name};

    if (c->kind == CREATOR_NONE)
        return -EPERM;
    if (c->kind == CREATOR_OWNER)
        return call_connect(&k);
    return rights_do(c->uid, c->gid, c->groups, c->group_count, call_connect, &k);
}
