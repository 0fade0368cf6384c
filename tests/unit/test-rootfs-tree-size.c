/* The disk space of a tree, in this process, where the sanitizers see it. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "proto/rmtree.h"
#include "tap.h"
#include "tree-size.h"

enum { FILE_BYTES = 64 << 10, HOUR_MS = 3600 * 1000 };

struct lab {
    char top[40];
    int dir; /* owned */
    struct tree_size size;
    struct err err;
};

static void lab_make(struct lab *l)
{
    (void)memset(l, 0, sizeof(*l));
    (void)snprintf(l->top, sizeof(l->top), "/tmp/rind-tree-size-XXXXXX");
    CHECK(mkdtemp(l->top) != NULL);
    l->dir = open(l->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void lab_done(struct lab *l)
{
    (void)close(l->dir);
    CHECK_INT(rmtree_at(AT_FDCWD, l->top, 0), 0);
}

static void make_file(int dir, const char *name)
{
    static const char bytes[FILE_BYTES] = {1};
    auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    CHECK(fd >= 0 && write(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes) && fsync(fd) == 0);
}

static int64_t blocks_of(int dir, const char *name)
{
    struct stat st = {.st_blocks = 0};

    CHECK(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
    return (int64_t)st.st_blocks * 512;
}

static int count(struct lab *l, uint64_t entries, int64_t ms)
{
    const struct tree_size_limits limits = {.entries = entries, .end_ms = clock_mono_ms() + ms};

    l->err = (struct err)ERR_NONE;
    return tree_size_count(l->dir, &limits, &l->size, &l->err);
}

TEST(each_inode_once)
{
    struct lab l;
    int64_t want;

    lab_make(&l);
    CHECK_INT(count(&l, 100, HOUR_MS), 0);
    CHECK_INT(l.size.bytes, 0); /* not the top directory's own blocks */
    CHECK(mkdirat(l.dir, "d", 0700) == 0);
    make_file(l.dir, "a");
    make_file(l.dir, "d/b");
    want = blocks_of(l.dir, "a") + blocks_of(l.dir, "d") + blocks_of(l.dir, "d/b");
    for (int i = 0; i < 3000; i++) { /* more than the first table of inodes has room for */
        char name[32], second[32];

        (void)snprintf(name, sizeof(name), "d/e%d", i);
        (void)snprintf(second, sizeof(second), "f%d", i);
        CHECK(mknodat(l.dir, name, S_IFREG | 0600, 0) == 0);
        CHECK(linkat(l.dir, name, l.dir, second, 0) == 0);
    }
    CHECK(linkat(l.dir, "a", l.dir, "d/hard", 0) == 0);
    CHECK(linkat(l.dir, "d/b", l.dir, "hard", 0) == 0);
    want += blocks_of(l.dir, "d") - (want - blocks_of(l.dir, "a") - blocks_of(l.dir, "d/b"));
    CHECK_INT(count(&l, 10000, HOUR_MS), 0);
    CHECK_INT(l.size.bytes, want);
    CHECK_INT(l.size.entries, 6005);
    CHECK(!l.size.partial);
    lab_done(&l);
}

TEST(what_is_sparse_and_what_is_elsewhere)
{
    auto_close int fd = FD_NONE;
    struct lab l;

    lab_make(&l);
    fd = openat(l.dir, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 1 << 30) == 0);
    CHECK(symlinkat("/usr", l.dir, "link") == 0);
    CHECK(symlinkat("..", l.dir, "up") == 0);
    CHECK_INT(count(&l, 100, HOUR_MS), 0);
    CHECK_INT(l.size.entries, 3);
    CHECK(l.size.bytes < 64 << 10 && !l.size.partial);
    lab_done(&l);
}

TEST(a_bound_leaves_a_part)
{
    struct lab l;
    int at;

    lab_make(&l);
    for (int i = 0; i < 10; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "f%d", i);
        make_file(l.dir, name);
    }
    CHECK_INT(count(&l, 10, HOUR_MS), 0);
    CHECK(l.size.entries == 10 && !l.size.partial);
    CHECK_INT(count(&l, 9, HOUR_MS), 0);
    CHECK(l.size.entries == 9 && l.size.partial && l.size.bytes >= 9 * FILE_BYTES);
    CHECK_INT(count(&l, 10, -1), 0);
    CHECK(l.size.entries == 0 && l.size.partial);

    at = dup(l.dir); /* a tree that is deeper than any path */
    for (int i = 0; i < TREE_SIZE_DEPTH_MAX + 50; i++) {
        int next;

        CHECK(mkdirat(at, "deep", 0700) == 0);
        next = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    make_file(at, "bottom");
    (void)close(at);
    CHECK_INT(count(&l, 1000, HOUR_MS), 0);
    CHECK(l.size.partial);
    CHECK_INT(l.size.entries, 10 + TREE_SIZE_DEPTH_MAX + 1);
    lab_done(&l);
}

TEST(a_directory_that_is_none)
{
    struct lab l;
    struct tree_size before;

    lab_make(&l);
    l.size.bytes = 7;
    before = l.size;
    (void)close(l.dir);
    l.dir = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(count(&l, 10, HOUR_MS), -ENOTDIR);
    CHECK_STR(l.err.msg, "size: open the directory: Not a directory");
    CHECK(l.size.bytes == before.bytes);
    lab_done(&l);
}

TAP_MAIN
