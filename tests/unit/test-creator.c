/* For whom the launcher opens what: who can be proven, what is written down, and what they get. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/creator.h"
#include "proto/rmtree.h"
#include "tap.h"

enum { MEMBER = 23456, MEMBERS = 23457, OTHERS = 23458 };

struct place {
    char dir[40];
    int fd, listener;
    struct creator_socket name;
};

static int listen_at(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    CHECK_INT(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    CHECK_INT(listen(fd, 8), 0);
    CHECK_INT(chmod(path, 0777), 0);
    return fd;
}

static int connect_to(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    CHECK_INT(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    return fd;
}

static void place_open(struct place *p)
{
    struct err err = ERR_NONE;
    char path[80];

    *p = (struct place){.dir = "/tmp/rind-creator-XXXXXX"};
    CHECK(mkdtemp(p->dir) != NULL);
    CHECK_INT(chmod(p->dir, 0755), 0);
    p->fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "%s/sock", p->dir);
    p->listener = listen_at(path);
    CHECK_INT(creator_socket_of(p->listener, &p->name, &err), 0);
}

static void place_close(struct place *p)
{
    (void)close(p->fd);
    (void)close(p->listener);
    CHECK_INT(rmtree_at(AT_FDCWD, p->dir, 0), 0);
}

/* A connection of a process with these ids; our end of it. */
static int client_of(struct place *p, uid_t uid, gid_t gid, const gid_t *groups, size_t count)
{
    char path[80];
    pid_t pid;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/sock", p->dir);
    pid = fork();
    if (pid == 0) {
        if (setgroups(count, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
            setresuid(uid, uid, uid) < 0)
            _exit(1);
        (void)connect_to(path);
        _exit(0);
    }
    fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    (void)waitpid(pid, NULL, 0);
    return fd;
}

TEST(who_it_is)
{
    const gid_t groups[] = {MEMBERS, 5};
    struct err err = ERR_NONE;
    struct creator c;
    struct place p;
    int fd;

    place_open(&p);
    CHECK_INT(creator_ask(-1, &p.name, &c, &err), 0);
    CHECK_INT(c.kind, CREATOR_NONE);
    fd = client_of(&p, 0, 0, NULL, 0);
    CHECK_INT(creator_ask(fd, &p.name, &c, &err), 0);
    CHECK_INT(c.kind, CREATOR_OWNER);
    (void)close(fd);
    fd = client_of(&p, MEMBER, MEMBERS, groups, 2);
    CHECK_INT(creator_ask(fd, &p.name, &c, &err), 0);
    CHECK_INT(c.kind, CREATOR_CLIENT);
    CHECK(c.uid == MEMBER && c.gid == MEMBERS && c.group_count == 2);
    CHECK(creator_in_group(&c, 5) && creator_in_group(&c, MEMBERS) && !creator_in_group(&c, 6));
    (void)close(fd);
    CHECK_STR(err.msg, "");
    place_close(&p);
}

/* What a supervisor could make by itself proves nothing. */
TEST(what_is_no_client)
{
    char other[80], abstract[] = "rind-creator-test";
    int pair[2], pipes[2], second, far;
    struct creator c;
    struct place p;

    place_open(&p);
    (void)snprintf(other, sizeof(other), "%s/other", p.dir);
    second = listen_at(other);
    far = connect_to(other);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_INT(pipe2(pipes, O_CLOEXEC), 0);

    const int fds[] = {pair[0],
                       pair[1],
                       pipes[0],
                       second,
                       far,
                       accept4(second, NULL, NULL, SOCK_CLOEXEC),
                       p.listener,
                       connect_to(other),
                       open("/dev/null", O_RDWR | O_CLOEXEC),
                       socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                       socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        struct err err = ERR_NONE;

        CHECK_INT(creator_ask(fds[i], &p.name, &c, &err), -EPROTO);
        CHECK_STR(err.msg, "request: what came as a client is no connection to our socket");
        CHECK_INT(c.kind, CREATOR_NONE);
        if (fds[i] != p.listener)
            (void)close(fds[i]);
    }
    (void)close(pair[1]);
    (void)close(pipes[1]);

    /* A socket without a name of its own would be like any other. */
    struct sockaddr_un none = {.sun_family = AF_UNIX};
    struct creator_socket name;
    int unnamed = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(creator_socket_of(unnamed, &name, NULL), -EINVAL);
    CHECK_INT(creator_socket_of(STDIN_FILENO, &name, NULL) < 0, 1);
    (void)memcpy(none.sun_path + 1, abstract, sizeof(abstract));
    (void)close(unnamed);
    place_close(&p);
}

TEST(written_down)
{
    struct creator c = {.kind = CREATOR_CLIENT, .uid = UINT32_MAX - 1, .gid = 7}, got;
    static const char *const garbled[] = {
        "client",        "client \n",      "client 1\n",    "client 1 2",
        "client 1 2 \n", "client 1 2 x\n", "client -1 2\n", "client 4294967296 2\n",
        "root\n",        "owner",          "owner\nx",      "client 1 2\n3"};
    struct err err = ERR_NONE;
    struct place p;

    place_open(&p);
    for (size_t i = 0; i < CREATOR_GROUPS_MAX; i++)
        c.groups[c.group_count++] = (gid_t)(UINT32_MAX - 1 - i);
    CHECK_INT(creator_save(p.fd, "a", &c, &err), 0);
    CHECK_INT(creator_load(p.fd, "a", &got, &err), 0);
    CHECK(got.kind == c.kind && got.uid == c.uid && got.gid == c.gid &&
          got.group_count == c.group_count && memcmp(got.groups, c.groups, sizeof(c.groups)) == 0);
    CHECK_INT(creator_save(p.fd, "a", &c, NULL), -EEXIST);
    for (int kind = CREATOR_OWNER; kind <= CREATOR_NONE; kind++) {
        c = (struct creator){.kind = (enum creator_kind)kind};
        CHECK_INT(creator_save(p.fd, "b", &c, &err), 0);
        CHECK_INT(creator_load(p.fd, "b", &got, &err), 0);
        CHECK_INT(got.kind, kind);
        CHECK_INT(unlinkat(p.fd, "b", 0), 0);
    }
    for (size_t i = 0; i < sizeof(garbled) / sizeof(garbled[0]); i++) {
        int fd = openat(p.fd, "c", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        CHECK_INT(write(fd, garbled[i], strlen(garbled[i])), strlen(garbled[i]));
        (void)close(fd);
        CHECK(creator_load(p.fd, "c", &got, NULL) < 0);
    }
    /* What a loss of power leaves makes nobody the owner. */
    (void)close(openat(p.fd, "c", O_WRONLY | O_TRUNC | O_CLOEXEC));
    CHECK_INT(creator_load(p.fd, "c", &got, &err), 0);
    CHECK_INT(got.kind, CREATOR_NONE);
    CHECK_INT(creator_load(p.fd, "none", &got, NULL), -ENOENT);
    CHECK_STR(err.msg, "");
    place_close(&p);
}

static void make(const struct place *p, const char *path, uid_t uid, gid_t gid, mode_t mode)
{
    CHECK_INT(mkdirat(p->fd, path, 0700), 0);
    CHECK_INT(fchownat(p->fd, path, uid, gid, 0), 0);
    CHECK_INT(fchmodat(p->fd, path, mode, 0), 0);
}

/* Row by row what a user could do with a path, and what the owner can. */
TEST(what_is_opened)
{
    struct creator client = {.kind = CREATOR_CLIENT,
                             .uid = MEMBER,
                             .gid = MEMBERS,
                             .groups = {OTHERS},
                             .group_count = 1},
                   owner = {.kind = CREATOR_OWNER}, none = {.kind = CREATOR_NONE};
    static const struct {
        const char *path;
        bool write;
        int want;
    } rows[] = {
        {"mine", true, 0},
        {"mine/sub", true, 0},
        {"root", false, -EACCES},
        {"root/inside", false, -EACCES},
        {"open", false, 0},
        {"open", true, -EACCES},
        {"shared", true, 0},
        {"groups", true, 0},
        {"forbidden", false, -EACCES},
        {"blind", false, -EACCES},
        {"link", false, -ELOOP},
        {"mine/../root", false, -EACCES},
        {"..", false, -EXDEV},
        {"nothing", false, -ENOENT},
    };
    struct place p;
    gid_t groups[64];
    int count = getgroups(64, groups);

    place_open(&p);
    make(&p, "mine", MEMBER, MEMBERS, 0700);
    make(&p, "mine/sub", MEMBER, MEMBERS, 0700);
    make(&p, "root", 0, 0, 0700);
    make(&p, "root/inside", MEMBER, MEMBERS, 0777);
    make(&p, "open", 0, 0, 0755);
    make(&p, "shared", 0, 0, 0777);
    make(&p, "groups", 0, OTHERS, 0770);
    make(&p, "forbidden", 0, OTHERS, 0707); /* whom the group forbids, others' rights do not help */
    make(&p, "blind", 0, 0, 0711);          /* can be passed through, not shown */
    CHECK_INT(symlinkat("mine", p.fd, "link"), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = creator_open(&client, p.fd, rows[i].path, rows[i].write, false);

        if ((fd < 0 ? fd : 0) != rows[i].want)
            tap_fail("%s: %d, want %d", rows[i].path, fd, rows[i].want);
        if (fd >= 0)
            (void)close(fd);
        CHECK_INT(creator_open(&none, p.fd, rows[i].path, rows[i].write, false), -EPERM);
        /* Our own rights are back. */
        fd = creator_open(&owner, p.fd, "root/inside", true, false);
        CHECK(fd >= 0);
        (void)close(fd);
        CHECK_INT(getgroups(64, groups), count);
    }
    place_close(&p);
}

TAP_MAIN
