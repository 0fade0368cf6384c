/* Names of archives, made into paths; what is remembered of directories; which attributes go along.
 */

#include <errno.h>

#include "dirs.h"
#include "path.h"
#include "tap.h"
#include "xattrs.h"

TEST(names_become_paths)
{
    static const struct {
        const char *name, *path;
    } rows[] = {
        {"", ""},
        {".", ""},
        {"/", ""},
        {"./", ""},
        {"..", ""},
        {"../../x", "x"},
        {"/x", "x"},
        {"a/../../../x", "x"},
        {"a/b/..", "a"},
        {"a/..", ""},
        {"./a//b/./c/", "a/b/c"},
        {"a/../b", "b"},
        {"...", "..."},
        {"..a/b..", "..a/b.."},
        {"a/.b", "a/.b"},
        {"//a//..//b", "b"},
        {"\xff/\xfe", "\xff/\xfe"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[PATH_ROOM];

        CHECK_INT(path_clean(rows[i].name, out), 0);
        CHECK_STR(out, rows[i].path);
    }
}

/* n times "a…a/" (len bytes each), and a last component. */
static char *long_name(size_t n, size_t len)
{
    char *s = malloc(n * (len + 1) + 2);

    for (size_t i = 0; i < n; i++) {
        (void)memset(s + i * (len + 1), 'a', len);
        s[i * (len + 1) + len] = '/';
    }
    s[n * (len + 1)] = 'b';
    s[n * (len + 1) + 1] = '\0';
    return s;
}

TEST(names_that_are_too_long)
{
    static const struct {
        size_t n, len;
        int code;
    } rows[] = {{1, 255, 0},
                {1, 256, -ENAMETOOLONG},
                {15, 255, 0},
                {16, 255, -ENAMETOOLONG},
                {2047, 1, 0},
                {2048, 1, -ENAMETOOLONG},
                {100000, 1, -ENAMETOOLONG}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *name = long_name(rows[i].n, rows[i].len), out[PATH_ROOM];

        CHECK_INT(path_clean(name, out), rows[i].code);
        CHECK(rows[i].code < 0 || strlen(out) <= WORKER_PATH_MAX);
        free(name);
    }
}

TEST(splits_and_joins)
{
    char parent[PATH_ROOM], out[PATH_ROOM], full[PATH_ROOM];

    CHECK_STR(path_split("a/b/c", parent), "c");
    CHECK_STR(parent, "a/b");
    CHECK_STR(path_split("c", parent), "c");
    CHECK_STR(parent, "");
    CHECK_INT(path_join("a/b", "c", out), 0);
    CHECK_STR(out, "a/b/c");
    CHECK_INT(path_join("", "c", out), 0);
    CHECK_STR(out, "c");
    CHECK_INT(path_join(out, "d", out), 0); /* in place */
    CHECK_STR(out, "c/d");
    (void)memset(full, 'x', WORKER_PATH_MAX);
    full[WORKER_PATH_MAX] = '\0';
    CHECK_INT(path_join(full, "y", out), -ENAMETOOLONG);
    CHECK_STR(out, "c/d");
    CHECK_INT(path_join(full, "", out), 0);
}

TEST(remembers_directories)
{
    struct dirs d = {.items = NULL};
    char path[32];

    CHECK(dirs_find(&d, "a") == NULL);
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(path, sizeof(path), "d%d/e", i);
        dirs_get(&d, path)->mtime.tv_sec = i;
    }
    CHECK_INT(d.count, 5000);
    for (int i = 0; i < 5000; i++) {
        struct dir *found;

        (void)snprintf(path, sizeof(path), "d%d/e", i);
        found = dirs_find(&d, path);
        CHECK(found != NULL && found->mtime.tv_sec == i);
        CHECK(found == NULL || strcmp(dirs_path(&d, found), path) == 0);
        CHECK(dirs_get(&d, path) == found);
    }
    CHECK(dirs_find(&d, "") == NULL);
    CHECK(dirs_get(&d, "") != NULL);
    CHECK_INT(d.count, 5001);
    dirs_done(&d);
    dirs_done(&d);
}

TEST(attributes_that_go_along)
{
    static const struct {
        const char *name;
        bool carried;
    } rows[] = {
        {"user.note", true},
        {"user.", true},
        {"security.capability", true},
        {"system.posix_acl_access", true},
        {"system.posix_acl_default", true},
        {"user.overlay.opaque", false},
        {"user.overlay.", false},
        {"user.overlayfs", true},
        {"trusted.overlay.redirect", false},
        {"trusted.x", false},
        {"security.selinux", false},
        {"security.ima", false},
        {"security.capability2", false},
        {"system.nfs4_acl", false},
        {"user", false},
        {"", false},
        {".overlay.x", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (xattr_is_carried(rows[i].name) != rows[i].carried)
            tap_fail("%s: %d", rows[i].name, !rows[i].carried);
}

TAP_MAIN
