/* The floor's helpers: step clock, messages between the processes, the mount API. */

#include <stdarg.h>
#include <time.h>

#include "floor.h"

struct shared *shared;
static int64_t last;

int64_t clock_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void step(enum step s)
{
    if (!shared->clock_on)
        return;
    int64_t t = clock_now();
    shared->rows[shared->row][s] += t - last;
    last = t;
}

void step_begin(void)
{
    if (shared->clock_on)
        last = clock_now();
}

void die(const char *fmt, ...)
{
    int saved = errno;
    va_list ap;

    fprintf(stderr, "floor: ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, ": %s\n", strerror(saved));
    _exit(1);
}

void tell(int fd)
{
    if (write(fd, "x", 1) != 1)
        die("tell");
}

int heed(int fd)
{
    unsigned char c;

    if (read(fd, &c, 1) != 1) {
        errno = ECHILD;
        die("the other side ended early");
    }
    return c;
}

void poke(int dirfd, const char *path, const char *text)
{
    int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die("write '%s' to %s", text, path);
    (void)close(fd);
}

int fs_new(const char *type)
{
    return MUST(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}

void fs_set(int fs, const char *key, const char *value)
{
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0));
}

int fs_mount(int fs, unsigned attr)
{
    MUST(syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
    int m = MUST(syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attr));
    (void)close(fs);
    return m;
}

int tmpfs_new(const char *size, const char *mode, unsigned attr)
{
    int fs = fs_new("tmpfs");

    fs_set(fs, "size", size);
    fs_set(fs, "mode", mode);
    return fs_mount(fs, attr);
}

int tree_clone(int dirfd, const char *path)
{
    return MUST(syscall(SYS_open_tree, dirfd, path,
                        OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH)));
}

void tree_attr(int tree, uint64_t set, int userns)
{
    struct mount_attr attr = {.attr_set = set, .userns_fd = (unsigned)userns};

    MUST(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
}

int open_beneath(int root, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

void tree_put_on(int tree, int at)
{
    MUST(syscall(SYS_move_mount, tree, "", at, "",
                 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
    (void)close(at);
    (void)close(tree);
}

void tree_put(int tree, int root, const char *path)
{
    tree_put_on(tree, MUST(open_beneath(root, path)));
}
