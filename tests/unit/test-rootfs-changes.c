/* What an upper directory changes of the tree below it, in this process, where the sanitizers see
 * it. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "changes.h"
#include "proto/rmtree.h"
#include "tap.h"

struct lab {
    char top[40];
    int upper, lower; /* owned */
    char text[4096];  /* the records, each with a newline instead of its NUL */
    char entry[PATH_ROOM];
    uint64_t entries;
    struct err err;
};

static int open_tree(const char *top, const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    CHECK(mkdir(path, 0755) == 0);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void lab_make(struct lab *l)
{
    (void)memset(l, 0, sizeof(*l));
    (void)snprintf(l->top, sizeof(l->top), "/tmp/rind-changes-XXXXXX");
    CHECK(mkdtemp(l->top) != NULL);
    l->upper = open_tree(l->top, "upper");
    l->lower = open_tree(l->top, "lower");
}

static void lab_done(struct lab *l)
{
    (void)close(l->upper);
    (void)close(l->lower);
    CHECK_INT(rmtree_at(AT_FDCWD, l->top, 0), 0);
}

/* "d/": a directory; "l>target": a link; "w!": a whiteout; else a file. Times are all the same. */
static void make(int tree, const char *name)
{
    const struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 5}};
    char path[300];
    size_t len = strlen(name);
    char *target;

    (void)snprintf(path, sizeof(path), "%s", name);
    target = strchr(path, '>');
    if (path[len - 1] == '/') {
        path[len - 1] = '\0';
        CHECK(mkdirat(tree, path, 0755) == 0);
    } else if (path[len - 1] == '!') {
        path[len - 1] = '\0';
        CHECK(mknodat(tree, path, S_IFCHR, 0) == 0);
    } else if (target != NULL) {
        *target = '\0';
        CHECK(symlinkat(target + 1, tree, path) == 0);
    } else {
        CHECK(mknodat(tree, path, S_IFREG | 0644, 0) == 0);
    }
    (void)utimensat(tree, path, times, AT_SYMLINK_NOFOLLOW);
}

/* Directories' times change with what is made in them: set when all is there. */
static void settle(int tree, const char *dir)
{
    const struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 5}};

    CHECK(utimensat(tree, dir, times, 0) == 0);
}

static int gather(void *data, const void *bytes, size_t len, struct err *err)
{
    struct lab *l = data;
    size_t used = strlen(l->text);

    for (size_t i = 0; i < len; i++, used++) {
        if (used + 1 >= sizeof(l->text))
            return err_set(err, -ENOSPC, "no room");
        l->text[used] = ((const char *)bytes)[i] == '\0' ? '\n' : ((const char *)bytes)[i];
    }
    l->text[used] = '\0';
    return 0;
}

static int changes(struct lab *l, const char *opaque, size_t opaque_len, uint64_t entries)
{
    const struct changes_options o = {.upper_fd = l->upper,
                                      .lower_fd = l->lower,
                                      .opaque = opaque,
                                      .opaque_len = opaque_len,
                                      .entries = entries};
    const struct changes_sink sink = {.data = l, .bytes = gather};

    l->text[0] = '\0';
    l->err = (struct err)ERR_NONE;
    return tree_changes(&o, &sink, &l->entries, l->entry, &l->err);
}

TEST(what_is_told)
{
    static const char *const below[] = {"a/", "a/b/", "a/b/f", "a/same", "d/", "d/x", "d/y",
                                        "f",  "g/",   "g/h",   "l",      "s/", "s/t"};
    static const char *const above[] = {"a/", "a/b/", "a/b/f", "d/",    "d/x!", "f/",  "f/in",
                                        "g",  "n/",   "n/m/",  "n/m/o", "l>x",  "s>x", "none!"};
    struct lab l;

    lab_make(&l);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
        make(l.lower, below[i]);
    for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++)
        make(l.upper, above[i]);
    for (const char *const *d = (const char *const[]){"a/b", "a", "d", NULL}; *d != NULL; d++) {
        settle(l.lower, *d);
        settle(l.upper, *d);
    }
    CHECK_INT(changes(&l, "", 0, 100), 0);
    CHECK_STR(l.err.msg, "");
    CHECK_STR(l.text, "C/a\nC/a/b\nC/a/b/f\nC/d\nD/d/x\nC/f\nA/f/in\nC/g\nC/l\nA/n\nA/n/m\nA/n/m/"
                      "o\nC/s\n");
    CHECK_INT(l.entries, 14);
    lab_done(&l);
}

TEST(a_directory_by_itself)
{
    struct lab l;

    lab_make(&l);
    make(l.lower, "same/");
    make(l.upper, "same/");
    make(l.lower, "mode/");
    make(l.upper, "mode/");
    CHECK(fchmodat(l.upper, "mode", 0700, 0) == 0);
    make(l.lower, "time/");
    make(l.upper, "time/");
    CHECK(utimensat(l.upper, "time", NULL, 0) == 0);
    CHECK_INT(changes(&l, "", 0, 100), 0);
    CHECK_STR(l.text, "C/mode\nC/time\n");
    lab_done(&l);
}

TEST(what_is_hidden)
{
    static const char opaque[] = "d\0."; /* in any order */
    struct lab l;

    lab_make(&l);
    for (const char *const *n = (const char *const[]){"d/", "d/x", "d/y", "e", "z/", NULL};
         *n != NULL; n++)
        make(l.lower, *n);
    for (const char *const *n = (const char *const[]){"d/", "d/y", "d/new", NULL}; *n != NULL; n++)
        make(l.upper, *n);
    settle(l.lower, "d");
    settle(l.upper, "d");
    CHECK_INT(changes(&l, opaque, sizeof(opaque), 100), 0);
    CHECK_STR(l.text, "D/e\nD/z\nC/d\nD/d/x\nA/d/new\nC/d/y\n");
    CHECK_INT(changes(&l, opaque, sizeof(opaque) - 1, 100), -EBADMSG);
    CHECK_STR(l.err.msg, "the list of opaque directories has no end");
    lab_done(&l);
}

/* A link in the place of a directory leads nowhere, in either tree. */
TEST(links_are_not_followed)
{
    struct lab l;

    lab_make(&l);
    make(l.upper, "d/");
    make(l.upper, "d/passwd");
    make(l.lower, "d>/etc");
    make(l.upper, "up>../lower");
    CHECK_INT(changes(&l, "", 0, 100), 0);
    CHECK_STR(l.text, "C/d\nA/d/passwd\nA/up\n");
    lab_done(&l);
}

TEST(changes_beyond_the_limits_are_refused)
{
    char name[20];
    struct lab l;

    lab_make(&l);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        make(l.upper, name);
    }
    CHECK_INT(changes(&l, "", 0, 4), 0);
    CHECK_INT(changes(&l, "", 0, 3), -E2BIG);
    CHECK_STR(l.err.msg, "more than 3 entries");
    CHECK_INT(changes(&l, "", 0, 0), -E2BIG);
    lab_done(&l);
}

static int drop(void *data, const void *bytes, size_t len, struct err *err)
{
    (void)data;
    (void)bytes;
    (void)len;
    (void)err;
    return 0;
}

/* Deeper than a path can say is an error that names where. */
TEST(deep_trees_are_walked)
{
    const struct changes_sink sink = {.bytes = drop};
    char name[201];
    struct lab l;
    int fd;

    lab_make(&l);
    (void)memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    fd = dup(l.upper);
    for (int i = 0; i < 21; i++) { /* the last one is too much: 21 * 201 > 4095 */
        int next;

        CHECK(mkdirat(fd, name, 0755) == 0);
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(fd);
        fd = next;
    }
    (void)close(fd);
    CHECK_INT(tree_changes(
                  &(struct changes_options){
                      .upper_fd = l.upper, .lower_fd = l.lower, .opaque = "", .entries = 1000},
                  &sink, &l.entries, l.entry, &l.err),
              -ENAMETOOLONG);
    CHECK_INT(strlen(l.entry), 20 * 201 - 1);
    lab_done(&l);
}

TAP_MAIN
