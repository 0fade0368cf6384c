/* A FUSE server that waits for itself. */

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "payload.h"

enum { REQUEST_MAX = 1 << 20, UNIQUE_AT = 8, NODE_SIZE = 16 + 64, MINOR = 31 };

static char request[REQUEST_MAX];

/* Takes requests, and never answers. One that has not been taken yet a signal does end. */
static void *silent(void *arg)
{
    const int fd = *(int *)arg;

    for (bool said = false; read(fd, request, sizeof(request)) > 0; said = true)
        if (!said) {
            (void)puts("stuck");
            (void)fflush(stdout);
        }
    return NULL;
}

/* The answer to FUSE_INIT, which comes first. */
static int shake_hands(int fd)
{
    uint32_t answer[NODE_SIZE / 4] = {NODE_SIZE,    0,       0, 0, 7, MINOR, 1 << 17, 0,
                                      12 | 9 << 16, 1 << 17, 1};

    if (read(fd, request, sizeof(request)) < 0)
        return -1;
    (void)memcpy(&answer[2], request + UNIQUE_AT, sizeof(uint64_t));
    return write(fd, answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : -1;
}

/* The descriptor of a new file system at dir, or -1: that has been said. */
static int mount_at(const char *dir)
{
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    char options[96];

    if (fd < 0) {
        (void)complain("/dev/fuse");
        return -1;
    }
    (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0", fd);
    if (mount("silent", dir, "fuse", MS_NOSUID | MS_NODEV, options) == 0 && shake_hands(fd) == 0)
        return fd;
    (void)complain("mount");
    (void)close(fd);
    return -1;
}

/* "mounted" on stdout; -1 when it is not. */
static int mount_for(int argc, char **argv)
{
    int fd = argc < 2 ? -1 : mount_at(argv[1]);

    if (fd >= 0)
        (void)puts("mounted");
    (void)fflush(stdout);
    return fd;
}

/* fuse-silent DIR: "stuck" on stdout at the first request, which no signal ends. */
static int cmd_fuse_silent(int argc, char **argv)
{
    int fd = mount_for(argc, argv);

    if (fd < 0)
        return 1;
    (void)silent(&fd);
    return 0;
}

/* fuse-unread DIR: requests stay where they are, and SIGKILL ends who waits for one. */
static int cmd_fuse_unread(int argc, char **argv)
{
    if (mount_for(argc, argv) < 0)
        return 1;
    for (;;)
        (void)pause();
}

/* fuse-deadlock DIR: "stuck" on stdout, then it asks its own file system, and no signal ends that.
 * DIR is unmounted lazily before, so that no list of mounts has it. */
static int cmd_fuse_deadlock(int argc, char **argv)
{
    struct stat st;
    pthread_t thread;
    int fd, dir;

    if (argc < 2)
        return 2;
    fd = mount_at(argv[1]);
    if (fd < 0)
        return 1;
    dir = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || umount2(argv[1], MNT_DETACH) < 0)
        return complain("umount");
    if (pthread_create(&thread, NULL, silent, &fd) != 0)
        return complain("thread");
    (void)fstatat(dir, "x", &st, 0);
    (void)puts("answered"); /* the connection was aborted, and nobody has killed us */
    return 0;
}

/* ---- memory that does not come ---- */

/* Answers what it takes to open and map "f", and never a READ. */
static void *serve_one_file(void *arg)
{
    enum { LOOKUP = 1, FORGET = 2, GETATTR = 3, OPEN = 14, READ = 15, ENTRY = 40, OUT = 16 };
    const int fd = *(int *)arg;
    uint32_t answer[2 * (2 + 5 + 11)]; /* the kernel has numbers of 64 bits */

    while (read(fd, request, sizeof(request)) > 0) {
        uint32_t in[2];
        uint64_t node;
        size_t at = OUT / 4; /* behind the head, in words */

        (void)memcpy(in, request, sizeof(in));
        (void)memcpy(&node, request + 16, sizeof(node));
        if (in[1] == READ || in[1] == FORGET)
            continue;
        (void)memset(answer, 0, sizeof(answer));
        (void)memcpy(&answer[2], request + UNIQUE_AT, sizeof(uint64_t));
        if (in[1] == LOOKUP)
            answer[at] = (uint32_t)(node = 2);
        at += in[1] == LOOKUP ? ENTRY / 4 : in[1] == GETATTR ? 4 : in[1] == OPEN ? 4 : 0;
        if (in[1] == LOOKUP || in[1] == GETATTR) { /* struct fuse_attr */
            answer[at] = (uint32_t)node;
            answer[at + 2] = node == 2 ? 1 << 16 : 0;
            answer[at + 15] = node == 2 ? S_IFREG | 0644 : S_IFDIR | 0755;
            answer[at + 16] = 1;
            at += 22;
        }
        answer[0] = (uint32_t)(at * 4);
        if (write(fd, answer, at * 4) != (ssize_t)(at * 4))
            return NULL;
    }
    return NULL;
}

/* A page that whoever touches it waits for, or MAP_FAILED: that has been said. */
static void *page_that_does_not_come(int argc, char **argv)
{
    static int fd;
    char path[4096];
    pthread_t thread;
    void *page;
    int file;

    fd = mount_for(argc, argv);
    if (fd < 0 || pthread_create(&thread, NULL, serve_one_file, &fd) != 0) {
        (void)complain("serve");
        return MAP_FAILED;
    }
    (void)snprintf(path, sizeof(path), "%s/f", argv[1]);
    file = open(path, O_RDONLY | O_CLOEXEC);
    page = file < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (page == MAP_FAILED)
        (void)complain("map");
    return page;
}

/* fuse-write DIR PATH: sleeps in a write to PATH, with the locks that this takes, for a page of a
 * file of its own. */
static int cmd_fuse_write(int argc, char **argv)
{
    const void *page;
    int out = argc < 3 ? -1 : open(argv[2], O_WRONLY | O_CLOEXEC);

    if (out < 0)
        return complain("open");
    page = page_that_does_not_come(argc, argv);
    if (page == MAP_FAILED)
        return 1;
    (void)puts("writes");
    (void)fflush(stdout);
    (void)!write(out, page, 4096);
    return 0;
}

/* fuse-winsize DIR: the same, asking for the size of its terminal. */
static int cmd_fuse_winsize(int argc, char **argv)
{
    void *page = page_that_does_not_come(argc, argv);

    if (page == MAP_FAILED)
        return 1;
    (void)puts("asks");
    (void)fflush(stdout);
    (void)ioctl(0, TIOCGWINSZ, page);
    return 0;
}

const struct cmd fuse_cmds[] = {
    {"fuse-deadlock", cmd_fuse_deadlock, "DIR: stuck in a file system of its own"},
    {"fuse-silent", cmd_fuse_silent, "DIR: a file system that answers nobody"},
    {"fuse-write", cmd_fuse_write,
     "DIR PATH: sleeps in a write, for a page of its own file system"},
    {"fuse-winsize", cmd_fuse_winsize,
     "DIR: sleeps with the lock of its terminal's size, for such a page"},
    {"fuse-unread", cmd_fuse_unread, "DIR: a file system whose requests nobody reads"},
    {0},
};
