/* Every way to a file with set-id bits or capabilities, by every table of system calls. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "payload.h"

enum {
    BITS = 06755,
    HIGH = 0x10000, /* the kernel takes 16 bits of a mode: what is above must not hide them */
    TMPFILE = 020200000,
    NODE = S_IFREG,
    X32 = 0x40000000,
};
#define HIGHER (1L << 40)

/* What an argument stands for, instead of its value. */
enum {
    PATH = -5000, /* the file, absolute */
    NAME,         /* its name in DIR */
    NOTHING,      /* "" */
    DIR,          /* a descriptor of its directory */
    FD,           /* one of the file */
    TOP,          /* the directory's path */
    HOW,          /* struct open_how of a file that is made */
};

/* There before: an attack on a file with the mode 0755; else it makes one. */
enum { THERE = 1, MADE = 0 };

/* clang-format off */
static const struct attack { const char *name; bool i386, there; long nr, a[4]; } attacks[] = {
#if defined(__x86_64__)
    {"chmod",           false, THERE, 90,  {PATH, BITS}},
    {"chmod-suid",      false, THERE, 90,  {PATH, 04755}},
    {"chmod-sgid",      false, THERE, 90,  {PATH, 02755}},
    {"chmod-high",      false, THERE, 90,  {PATH, HIGH | BITS}},
    {"chmod-higher",    false, THERE, 90,  {PATH, HIGHER | BITS}},
    {"fchmod",          false, THERE, 91,  {FD, BITS}},
    {"fchmod-high",     false, THERE, 91,  {FD, HIGH | BITS}},
    {"fchmodat",        false, THERE, 268, {AT_FDCWD, PATH, BITS}},
    {"fchmodat-dir",    false, THERE, 268, {DIR, NAME, BITS}},
    {"fchmodat-high",   false, THERE, 268, {DIR, NAME, HIGHER | BITS}},
    {"fchmodat2",       false, THERE, 452, {DIR, NAME, BITS, 0}},
    {"fchmodat2-link",  false, THERE, 452, {DIR, NAME, BITS, AT_SYMLINK_NOFOLLOW}},
    {"fchmodat2-fd",    false, THERE, 452, {FD, NOTHING, BITS, 0x1000 /* AT_EMPTY_PATH */}},
    {"fchmodat2-high",  false, THERE, 452, {DIR, NAME, HIGH | BITS, 0}},
    {"open",            false, MADE,  2,   {PATH, O_CREAT | O_WRONLY, BITS}},
    {"open-excl",       false, MADE,  2,   {PATH, O_CREAT | O_EXCL | O_WRONLY, BITS}},
    {"open-high",       false, MADE,  2,   {PATH, O_CREAT | O_WRONLY, HIGH | BITS}},
    {"open-there",      false, THERE, 2,   {PATH, O_CREAT | O_WRONLY, BITS}},
    {"open-tmpfile",    false, MADE,  2,   {TOP, TMPFILE | O_WRONLY, BITS}},
    {"openat",          false, MADE,  257, {DIR, NAME, O_CREAT | O_WRONLY, BITS}},
    {"openat-high",     false, MADE,  257, {DIR, NAME, O_CREAT | O_WRONLY, HIGHER | BITS}},
    {"openat-tmpfile",  false, MADE,  257, {AT_FDCWD, TOP, TMPFILE | O_RDWR, BITS}},
    {"openat2",         false, MADE,  437, {DIR, NAME, HOW, 24}},
    {"creat",           false, MADE,  85,  {PATH, BITS}},
    {"creat-high",      false, MADE,  85,  {PATH, HIGH | BITS}},
    {"mknod",           false, MADE,  133, {PATH, NODE | BITS, 0}},
    {"mknod-plain",     false, MADE,  133, {PATH, BITS, 0}},
    {"mknod-high",      false, MADE,  133, {PATH, HIGH | NODE | BITS, 0}},
    {"mknodat",         false, MADE,  259, {DIR, NAME, NODE | BITS, 0}},
    {"x32-chmod",       false, THERE, X32 | 90,  {PATH, BITS}},
    {"x32-fchmodat",    false, THERE, X32 | 268, {DIR, NAME, BITS}},
    {"x32-openat",      false, MADE,  X32 | 257, {DIR, NAME, O_CREAT | O_WRONLY, BITS}},
    {"i386-chmod",      true,  THERE, 15,  {PATH, BITS}},
    {"i386-chmod-high", true,  THERE, 15,  {PATH, HIGH | BITS}},
    {"i386-fchmod",     true,  THERE, 94,  {FD, BITS}},
    {"i386-fchmodat",   true,  THERE, 306, {DIR, NAME, BITS}},
    {"i386-fchmodat2",  true,  THERE, 452, {DIR, NAME, BITS, 0}},
    {"i386-open",       true,  MADE,  5,   {PATH, O_CREAT | O_WRONLY, BITS}},
    {"i386-openat",     true,  MADE,  295, {DIR, NAME, O_CREAT | O_WRONLY, BITS}},
    {"i386-openat2",    true,  MADE,  437, {DIR, NAME, HOW, 24}},
    {"i386-creat",      true,  MADE,  8,   {PATH, BITS}},
    {"i386-mknod",      true,  MADE,  14,  {PATH, NODE | BITS, 0}},
    {"i386-mknodat",    true,  MADE,  297, {DIR, NAME, NODE | BITS, 0}},
#else
    {"fchmod",          false, THERE, SYS_fchmod,   {FD, BITS}},
    {"fchmodat",        false, THERE, SYS_fchmodat, {DIR, NAME, BITS}},
    {"fchmodat2",       false, THERE, 452,          {DIR, NAME, BITS, 0}},
    {"openat",          false, MADE,  SYS_openat,   {DIR, NAME, O_CREAT | O_WRONLY, BITS}},
    {"openat2",         false, MADE,  437,          {DIR, NAME, HOW, 24}},
    {"mknodat",         false, MADE,  SYS_mknodat,  {DIR, NAME, NODE | BITS, 0}},
#endif
};
/* clang-format on */

/* Below 4 GiB, for the calls of i386. */
struct block {
    char top[256], path[512], name[256], nothing[1];
    uint64_t how[3];
};
static struct block *at;

static int place(const char *dir)
{
#if defined(__x86_64__)
    at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
              -1, 0);
#else
    at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#endif
    if (at == MAP_FAILED)
        return -1;
    snprintf(at->top, sizeof(at->top), "%s", dir);
    at->how[0] = O_CREAT | O_WRONLY;
    at->how[1] = BITS;
    return 0;
}

static void name_file(const char *name)
{
    snprintf(at->name, sizeof(at->name), "%s", name);
    snprintf(at->path, sizeof(at->path), "%s/%s", at->top, name);
}

static long argument(long a)
{
    switch (a) {
    case PATH:
        return (long)at->path;
    case NAME:
        return (long)at->name;
    case NOTHING:
        return (long)at->nothing;
    case TOP:
        return (long)at->top;
    case HOW:
        return (long)at->how;
    case DIR:
        return open(at->top, O_RDONLY | O_DIRECTORY);
    case FD:
        return open(at->path, O_RDWR);
    default:
        return a;
    }
}

static void make_file(mode_t mode)
{
    int fd = open(at->path, O_WRONLY | O_CREAT | O_TRUNC, mode);

    if (fd >= 0)
        close(fd);
}

/* A file without a name gets one. */
static void name_it(long fd)
{
    char self[64];

    snprintf(self, sizeof(self), "/proc/self/fd/%ld", fd);
    (void)linkat(AT_FDCWD, self, AT_FDCWD, at->path, AT_SYMLINK_FOLLOW);
}

static long attack(void *arg)
{
    const struct attack *k = arg;
    struct raw r = {.nr = k->nr};
    long ret;

    umask(0);
    if (k->there)
        make_file(0755);
    for (int i = 0; i < 4; i++)
        r.a[i] = argument(k->a[i]);
    ret = k->i386 ? i386_call(&r) : raw_call(&r);
    if (ret >= 0 && strstr(k->name, "tmpfile") != NULL)
        name_it(ret);
    return ret;
}

/* ---- the same by other ways to the file ---- */

static long by_link(void *arg)
{
    (void)arg;
    make_file(0755);
    (void)unlink("/tmp/setid-link");
    return symlink(at->path, "/tmp/setid-link") < 0 ? -1 : chmod("/tmp/setid-link", BITS);
}

static long by_proc(void *arg)
{
    char self[64];

    (void)arg;
    make_file(0755);
    snprintf(self, sizeof(self), "/proc/self/fd/%d", open(at->path, O_PATH));
    return chmod(self, BITS);
}

static long by_directory(void *arg)
{
    (void)arg;
    make_file(0755);
    return chdir(at->top) < 0 ? -1 : chmod(at->name, BITS);
}

static long by_root(void *arg)
{
    (void)arg;
    make_file(0755);
    return chroot(at->top) < 0 || chdir("/") < 0 ? -1 : chmod(at->name, BITS);
}

static long by_rename(void *arg)
{
    char own[] = "/tmp/setid-own";
    int fd = open(own, O_WRONLY | O_CREAT, 0755);

    (void)arg;
    return fd < 0 || chmod(own, BITS) < 0 ? -1 : rename(own, at->path);
}

static long by_hard_link(void *arg)
{
    char own[] = "/tmp/setid-own";
    int fd = open(own, O_WRONLY | O_CREAT, 0755);

    (void)arg;
    return fd < 0 || chmod(own, BITS) < 0 ? -1 : link(own, at->path);
}

/* ---- capabilities ---- */

static const unsigned char caps2[20] = {1, 0, 0, 2, 0xff, 0xff};
static const unsigned char caps3[24] = {1, 0, 0, 3, 0xff, 0xff};

static long caps_by_path(void *arg)
{
    (void)arg;
    make_file(0755);
    return setxattr(at->path, "security.capability", caps2, sizeof(caps2), 0);
}

static long caps_rooted(void *arg)
{
    (void)arg;
    make_file(0755);
    return setxattr(at->path, "security.capability", caps3, sizeof(caps3), 0);
}

static long caps_by_fd(void *arg)
{
    (void)arg;
    make_file(0755);
    return fsetxattr(open(at->path, O_RDWR), "security.capability", caps2, sizeof(caps2), 0);
}

static long caps_by_at(void *arg)
{
    struct {
        uint64_t value;
        uint32_t size, flags;
    } args = {(uint64_t)(uintptr_t)caps2, sizeof(caps2), 0};

    (void)arg;
    make_file(0755);
    return syscall(463, AT_FDCWD, at->path, 0, "security.capability", &args, sizeof(args));
}

/* ---- in a user namespace of one's own, with every capability over what it maps ---- */

static void put(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY);

    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

static long as_its_root(void)
{
    long r;

    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 0 1");
    put("/proc/self/gid_map", "0 0 1");
    make_file(0755);
    r = setxattr(at->path, "security.capability", caps2, sizeof(caps2), 0);
    return chmod(at->path, BITS) == 0 || r == 0 ? 0 : -1;
}

static long userns_by_unshare(void *arg)
{
    (void)arg;
    return unshare(CLONE_NEWUSER) < 0 ? -1 : as_its_root();
}

static long userns_by_clone(void *arg)
{
    const unsigned long flags = CLONE_NEWUSER | SIGCHLD;
    long pid = syscall(SYS_clone, flags, 0, 0, 0, 0);

    (void)arg;
    if (pid == 0)
        _exit(as_its_root() < 0);
    if (pid > 0)
        (void)waitpid((pid_t)pid, NULL, 0);
    return pid;
}

static long userns_by_clone3(void *arg)
{
    uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long pid = syscall(435, args, sizeof(args));

    (void)arg;
    if (pid == 0)
        _exit(as_its_root() < 0);
    if (pid > 0)
        (void)waitpid((pid_t)pid, NULL, 0);
    return pid;
}

static const struct {
    const char *name;
    long (*probe)(void *);
} ways[] = {
    {"by-link", by_link},
    {"by-proc", by_proc},
    {"by-directory", by_directory},
    {"by-root", by_root},
    {"by-rename", by_rename},
    {"by-hard-link", by_hard_link},
    {"caps-by-path", caps_by_path},
    {"caps-rooted", caps_rooted},
    {"caps-by-fd", caps_by_fd},
    {"caps-by-at", caps_by_at},
    {"userns-by-unshare", userns_by_unshare},
    {"userns-by-clone", userns_by_clone},
    {"userns-by-clone3", userns_by_clone3},
};

/* setid DIR: each way by its name, on a file of that name. */
static int cmd_setid(int argc, char **argv)
{
    if (argc != 2 || place(argv[1]) < 0)
        return 2;
    umask(0);
    js_open(NULL, '{');
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        struct attack k = attacks[i];

        name_file(k.name);
        js_outcome(k.name, in_child(attack, &k));
    }
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        name_file(ways[i].name);
        js_outcome(ways[i].name, in_child(ways[i].probe, NULL));
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* ---- races ---- */

/* Until it is killed: what a call is about is now one file, now the other. */
static void swap_link(const char *a, const char *b)
{
    for (;;) {
        (void)unlink("/tmp/setid-next");
        (void)symlink(a, "/tmp/setid-next");
        (void)rename("/tmp/setid-next", "/tmp/setid-race");
        (void)symlink(b, "/tmp/setid-next");
        (void)rename("/tmp/setid-next", "/tmp/setid-race");
    }
}

static void put_text(volatile char *shared, const char *text)
{
    size_t len = strlen(text) + 1;

    for (size_t i = 0; i < len; i++)
        shared[i] = text[i];
    for (volatile int i = 0; i < 500; i++) /* long enough for a call to see all of it */
        ;
}

static void swap_text(volatile char *shared, const char *a, const char *b)
{
    for (;;) {
        put_text(shared, a);
        put_text(shared, b);
    }
}

/* setid-race A B SECONDS: chmods of a link, and of a path in memory, that are swapped meanwhile
 * between A and B; how many of each succeeded, and how many did not. */
static int cmd_setid_race(int argc, char **argv)
{
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (argc != 4 || shared == MAP_FAILED)
        return 2;
    js_open(NULL, '{');
    for (int kind = 0; kind < 2; kind++) {
        const double end = now() + (double)number(argv[3]);
        pid_t other = fork();
        long done = 0, failed = 0;

        if (other == 0) {
            if (kind == 0)
                swap_link(argv[1], argv[2]);
            swap_text(shared, argv[1], argv[2]);
        }
        while (now() < end)
            if (chmod(kind == 0 ? "/tmp/setid-race" : shared, 04755) == 0)
                done++;
            else
                failed++;
        kill(other, SIGKILL);
        waitpid(other, NULL, 0);
        js_int(kind == 0 ? "link" : "memory", done);
        js_int(kind == 0 ? "link failed" : "memory failed", failed);
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* later-write FILE: writes to it once stdin has ended. */
static int cmd_later_write(int argc, char **argv)
{
    char c;
    int fd;

    if (argc != 2)
        return 2;
    puts("ready");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        ;
    fd = open(argv[1], O_WRONLY);
    if (fd < 0 || write(fd, "changed", 7) != 7)
        return complain(argv[1]);
    return 0;
}

const struct cmd setid_cmds[] = {
    {"setid", cmd_setid, "DIR: every way to a set-id file, or one with capabilities, there"},
    {"setid-race", cmd_setid_race, "A B SECONDS: chmods of what is swapped meanwhile"},
    {"later-write", cmd_later_write, "FILE: once stdin has ended"},
    {0},
};
