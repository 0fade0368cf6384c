/* Files, mounts and special file systems: what is there, what can be opened for writing, what can
 * be filled. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "payload.h"

static char chunk[1 << 16];

static int cmd_cat(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        ssize_t n;
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC);

        if (fd < 0)
            return complain(argv[i]);
        while ((n = read(fd, chunk, sizeof(chunk))) > 0)
            fwrite(chunk, 1, (size_t)n, stdout);
        close(fd);
        if (n < 0)
            return complain(argv[i]);
    }
    return 0;
}

static const char *type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "dir";
    case S_IFLNK:
        return "link";
    case S_IFCHR:
        return "char";
    case S_IFBLK:
        return "block";
    case S_IFIFO:
        return "fifo";
    default:
        return "socket";
    }
}

static void put_stat(const char *key, const char *path)
{
    char link[PATH_MAX];
    struct statfs fs;
    struct stat st;
    ssize_t n;

    js_open(NULL, '{');
    js_str("path", key);
    if (lstat(path, &st) < 0) {
        js_str("error", errno_name(errno));
        js_close('}');
        return;
    }
    js_str("type", type_name(st.st_mode));
    js_int("mode", st.st_mode & 07777);
    js_int("uid", st.st_uid);
    js_int("gid", st.st_gid);
    js_int("size", st.st_size);
    js_int("major", major(st.st_rdev));
    js_int("minor", minor(st.st_rdev));
    n = readlink(path, link, sizeof(link));
    if (n >= 0)
        js_strn("link", link, (size_t)n);
    else if (statfs(path, &fs) == 0)
        js_hex("fs", (unsigned long long)fs.f_type & 0xffffffff);
    js_close('}');
}

/* lstat of each path. */
static int cmd_stat(int argc, char **argv)
{
    js_open(NULL, '[');
    for (int i = 1; i < argc; i++)
        put_stat(argv[i], argv[i]);
    js_close(']');
    putchar('\n');
    return 0;
}

static int cmd_ls(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "/";
    DIR *d = opendir(dir);
    const struct dirent *e;

    if (d == NULL)
        return complain(dir);
    js_open(NULL, '[');
    while ((e = readdir(d)) != NULL) {
        char path[PATH_MAX];

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        put_stat(e->d_name, path);
    }
    js_close(']');
    putchar('\n');
    closedir(d);
    return 0;
}

/* As ls, but after stdin has ended; says ready first. */
static int cmd_late_ls(int argc, char **argv)
{
    char c;

    puts("ready");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        continue;
    return cmd_ls(argc, argv);
}

/* Nothing is written: that the open succeeds is the finding. */
static long open_for_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        close(fd);
    return fd;
}

/* Whether each path opens for writing. */
static int cmd_openw(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++)
        js_result(argv[i], open_for_write(argv[i]));
    js_close('}');
    putchar('\n');
    return 0;
}

/* How many bytes each path gives (at most a MiB), or the error; a directory: its entries. */
static int cmd_readable(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++) {
        long total = 0;
        ssize_t n = 0;
        int fd = open(argv[i], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

        if (d != NULL) {
            while (readdir(d) != NULL)
                total++;
            closedir(d);
            js_int(argv[i], total - 2);
            continue;
        }
        while (fd >= 0 && total < 1 << 20 && (n = read(fd, chunk, sizeof(chunk))) > 0)
            total += n;
        if (fd < 0 || n < 0)
            js_str(argv[i], errno_name(errno));
        else
            js_int(argv[i], total);
        if (fd >= 0)
            close(fd);
    }
    js_close('}');
    putchar('\n');
    return 0;
}

enum { WALK_DEPTH_MAX = 24 };
enum walk_what { WALK_WRITABLE, WALK_SOCKETS };

static void walk(const char *dir, enum walk_what what, dev_t dev, int depth)
{
    DIR *d = depth < WALK_DEPTH_MAX ? opendir(dir) : NULL;
    const struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[PATH_MAX];
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, e->d_name);
        if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode))
            continue;
        if (S_ISDIR(st.st_mode)) {
            if (what == WALK_WRITABLE || st.st_dev == dev)
                walk(path, what, dev, depth + 1);
        } else if (what == WALK_SOCKETS ? S_ISSOCK(st.st_mode) : open_for_write(path) >= 0) {
            js_str(NULL, path);
        }
    }
    if (d != NULL)
        closedir(d);
}

static int walk_all(int argc, char **argv, enum walk_what what)
{
    js_open(NULL, '[');
    for (int i = 1; i < argc; i++) {
        struct stat st = {0};

        if (stat(argv[i], &st) == 0)
            walk(argv[i], what, st.st_dev, 0);
    }
    js_close(']');
    putchar('\n');
    return 0;
}

static int cmd_writable(int argc, char **argv)
{
    return walk_all(argc, argv, WALK_WRITABLE);
}

static int cmd_find_sockets(int argc, char **argv)
{
    return walk_all(argc, argv, WALK_SOCKETS);
}

static int cmd_write(int argc, char **argv)
{
    int fd;

    if (argc != 3)
        return 2;
    fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, argv[2], strlen(argv[2])) < 0)
        return complain(argv[1]);
    close(fd);
    return 0;
}

/* One operation on paths, its result by name: mkdir P, rm P, rmdir P, chmod P MODE, chown P UID
 * GID, mknod P MAJOR MINOR, ln OLD NEW, symlink TEXT P, touch P, xattr P NAME VALUE, chdir P. */
static int cmd_fs(int argc, char **argv)
{
    const char *op = argc > 2 ? argv[1] : "", *p = argc > 2 ? argv[2] : "";
    long r = -1;

    errno = EINVAL;
    if (strcmp(op, "mkdir") == 0)
        r = mkdir(p, 0755);
    else if (strcmp(op, "rm") == 0)
        r = unlink(p);
    else if (strcmp(op, "rmdir") == 0)
        r = rmdir(p);
    else if (strcmp(op, "chdir") == 0)
        r = chdir(p);
    else if (strcmp(op, "touch") == 0)
        r = open(p, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    else if (strcmp(op, "chmod") == 0 && argc > 3)
        r = chmod(p, (mode_t)number(argv[3]));
    else if (strcmp(op, "chown") == 0 && argc > 4)
        r = lchown(p, (uid_t)number(argv[3]), (gid_t)number(argv[4]));
    else if (strcmp(op, "mknod") == 0 && argc > 4)
        r = mknod(p, S_IFCHR | 0600, makedev(number(argv[3]), number(argv[4])));
    else if (strcmp(op, "ln") == 0 && argc > 3)
        r = link(p, argv[3]);
    else if (strcmp(op, "symlink") == 0 && argc > 3)
        r = symlink(p, argv[3]);
    else if (strcmp(op, "xattr") == 0 && argc > 4)
        r = setxattr(p, argv[3], argv[4], strlen(argv[4]), 0);
    js_open(NULL, '{');
    js_result("result", r);
    js_close('}');
    putchar('\n');
    return 0;
}

/* mount SRC DST TYPE FLAGS [DATA]; "-" stands for NULL. */
static int cmd_mount(int argc, char **argv)
{
    const char *a[4];
    long r;

    if (argc < 5)
        return 2;
    for (int i = 0; i < 3; i++)
        a[i] = strcmp(argv[i + 1], "-") == 0 ? NULL : argv[i + 1];
    a[3] = argc > 5 ? argv[5] : NULL;
    r = mount(a[0], a[1], a[2], (unsigned long)number(argv[4]), a[3]);
    js_open(NULL, '{');
    js_result("result", r);
    js_close('}');
    putchar('\n');
    return 0;
}

/* Tries to take every mount apart: remount read-write, plain umount, lazy umount. */
static int cmd_unlock(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++) {
        js_open(argv[i], '{');
        js_result("remount", mount(NULL, argv[i], NULL, MS_REMOUNT | MS_BIND, NULL));
        js_result("remount_sb", mount(NULL, argv[i], NULL, MS_REMOUNT, NULL));
        js_result("move", mount(argv[i], "/tmp", NULL, MS_MOVE, NULL));
        js_result("umount", umount2(argv[i], 0));
        js_result("detach", umount2(argv[i], MNT_DETACH));
        js_close('}');
    }
    js_close('}');
    putchar('\n');
    return 0;
}

static int cmd_statfs(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++) {
        struct statfs f = {0};
        int r = statfs(argv[i], &f);

        js_open(argv[i], '{');
        js_result("result", r);
        js_hex("type", (unsigned long long)f.f_type & 0xffffffff);
        js_int("bytes", (long long)f.f_blocks * (long long)f.f_bsize);
        js_int("inodes", (long long)f.f_files);
        js_int("flags", (long long)f.f_flags);
        js_close('}');
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* Writes to a file until it fails or MAX bytes are in. */
static int cmd_fill(int argc, char **argv)
{
    long long max = argc > 2 ? number(argv[2]) : 0, done = 0;
    int fd = argc > 2 ? open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    ssize_t n = 0;

    if (fd < 0)
        return complain("fill");
    memset(chunk, 'x', sizeof(chunk));
    while (done < max && (n = write(fd, chunk, sizeof(chunk))) > 0)
        done += n;
    js_open(NULL, '{');
    js_int("bytes", done);
    js_result("result", n);
    js_close('}');
    putchar('\n');
    return 0;
}

/* Makes empty files in a directory until it fails or MAX exist. */
static int cmd_inodes(int argc, char **argv)
{
    long long max = argc > 2 ? number(argv[2]) : 0, done = 0;
    int fd = 0;

    while (done < max) {
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/i%lld", argv[1], done);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        close(fd);
        done++;
    }
    js_open(NULL, '{');
    js_int("files", done);
    js_result("result", fd);
    js_close('}');
    putchar('\n');
    return 0;
}

/* A tree that is unpleasant to remove: DEPTH levels, no permissions, odd names, fifos, dead links.
 */
static int cmd_messy(int argc, char **argv)
{
    long long depth = argc > 2 ? number(argv[2]) : 10;

    if (argc < 2 || mkdir(argv[1], 0700) < 0 || chdir(argv[1]) < 0)
        return complain("messy");
    for (long long i = 0; i < depth; i++) {
        (void)symlink("/nonexistent", "dead\n\377 link");
        (void)symlink("..", "up");
        (void)mkfifo("fifo", 0);
        (void)mkdir("closed", 0);
        if (mkdir("a-directory-with-a-long-name-to-pass-PATH_MAX", 0700) < 0 ||
            chdir("a-directory-with-a-long-name-to-pass-PATH_MAX") < 0)
            return complain("messy");
        (void)chmod("..", i % 2 == 0 ? 0 : 0500);
    }
    return 0;
}

/* Swaps two names for ever, as fast as it can. */
static int cmd_swap(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (bool told = false;; told = true) {
        if (syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2], 2U) < 0)
            return complain("swap");
        if (!told) {
            printf("ready\n");
            fflush(stdout);
        }
    }
}

const struct cmd fs_cmds[] = {
    {"cat", cmd_cat, "FILE…: raw"},
    {"stat", cmd_stat, "PATH…"},
    {"ls", cmd_ls, "DIR"},
    {"late-ls", cmd_late_ls, "DIR: once stdin has ended"},
    {"openw", cmd_openw, "PATH…: does it open for writing"},
    {"readable", cmd_readable, "PATH…: how many bytes or entries it gives"},
    {"writable", cmd_writable, "DIR…: files below that open for writing"},
    {"find-sockets", cmd_find_sockets, "DIR…: socket files on the same file system"},
    {"write", cmd_write, "PATH TEXT"},
    {"fs", cmd_fs, "OP PATH ARG…"},
    {"mount", cmd_mount, "SRC DST TYPE FLAGS [DATA]"},
    {"unlock", cmd_unlock, "MOUNTPOINT…: remount, move, umount"},
    {"messy", cmd_messy, "DIR DEPTH: a tree that is unpleasant to remove"},
    {"swap", cmd_swap, "A B: for ever"},
    {"statfs", cmd_statfs, "PATH…"},
    {"fill", cmd_fill, "FILE MAX"},
    {"inodes", cmd_inodes, "DIR MAX"},
    {0},
};
