/* Parts of the shim's commands that the vectors cannot reach. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "files/shim.h"
#include "tap.h"

struct parent_row {
    const char *path;
    const char *parent; /* NULL: none */
};

/* As Rust's Path::parent, whose results `mkdir --recursive` has to have. */
/* clang-format off */
static const struct parent_row parent_rows[] = {
    { "/", NULL }, { "//", NULL }, { "", NULL }, { "/.", NULL }, { "/./.", NULL },
    { "a", "" }, { "a/", "" }, { "a/.", "" }, { "a//./", "" },
    { "a/b", "a" }, { "a//b", "a" }, { "a/./b", "a" }, { "a/b/", "a" }, { "a/b/.", "a" }, { "a/.//./b", "a" },
    { "/a", "/" }, { "/a/b", "/a" }, { "//a", "/" }, { "/./a", "/" },
    { "./a", "." }, { ".//a", "." }, { "..", "" }, { "a/..", "a" }, { "../..", ".." }, { "a/../b", "a/.." },
    { "a/..b", "a" }, { "a/b.", "a" }, { "a/.b", "a" }, { "...", "" }, { "a.", "" },
};
/* clang-format on */

TEST(parents_are_made_where_asked_for)
{
    for (size_t i = 0; i < sizeof(parent_rows) / sizeof(parent_rows[0]); i++) {
        const struct parent_row *row = &parent_rows[i];
        ssize_t want = row->parent == NULL ? -1 : (ssize_t)strlen(row->parent);
        ssize_t got = shim_parent_length(row->path, strlen(row->path));

        if (got != want)
            tap_fail("parent of \"%s\" has length %zd, want %zd", row->path, got, want);
    }
}

TEST(milliseconds_are_floored)
{
    int64_t ms = 0;

    CHECK_INT(shim_milliseconds(1, 999999999, &ms), 0);
    CHECK_INT(ms, 1999);
    CHECK_INT(shim_milliseconds(-2, 500000000, &ms), 0);
    CHECK_INT(ms, -1500);
    CHECK_INT(shim_milliseconds(-1, 999500000, &ms), 0);
    CHECK_INT(ms, -1);
    CHECK_INT(shim_milliseconds(0, 999999, &ms), 0);
    CHECK_INT(ms, 0);
    CHECK_INT(shim_milliseconds(INT64_MAX / 1000, 0, &ms), 0);
    CHECK_INT(shim_milliseconds(INT64_MAX / 1000, 999999999, &ms), -EOVERFLOW);
    CHECK_INT(shim_milliseconds(INT64_MAX, 0, &ms), -EOVERFLOW);
    CHECK_INT(shim_milliseconds(INT64_MIN, 0, &ms), -EOVERFLOW);
}

TEST(types_of_modes)
{
    CHECK_INT(shim_type_of_mode(S_IFREG | 0644), FRAME_TYPE_FILE);
    CHECK_INT(shim_type_of_mode(S_IFDIR | 01777), FRAME_TYPE_DIR);
    CHECK_INT(shim_type_of_mode(S_IFLNK | 0777), FRAME_TYPE_SYMLINK);
    CHECK_INT(shim_type_of_mode(S_IFBLK), FRAME_TYPE_BLOCK);
    CHECK_INT(shim_type_of_mode(S_IFCHR), FRAME_TYPE_CHAR);
    CHECK_INT(shim_type_of_mode(S_IFIFO), FRAME_TYPE_FIFO);
    CHECK_INT(shim_type_of_mode(S_IFSOCK), FRAME_TYPE_SOCKET);
    CHECK_INT(shim_type_of_mode(0600), FRAME_TYPE_FILE); /* an anonymous inode */
}

TEST(types_of_entries)
{
    CHECK_INT(shim_entry_type(-1, "unused", DT_DIR), FRAME_TYPE_DIR);
    CHECK_INT(shim_entry_type(-1, "unused", DT_LNK), FRAME_TYPE_SYMLINK);
    CHECK_INT(shim_entry_type(-1, "unused", DT_SOCK), FRAME_TYPE_SOCKET);
    CHECK_INT(shim_entry_type(AT_FDCWD, "/", DT_UNKNOWN), FRAME_TYPE_DIR);
    CHECK_INT(shim_entry_type(AT_FDCWD, "/dev/null", DT_UNKNOWN), FRAME_TYPE_CHAR);
    CHECK_INT(shim_entry_type(AT_FDCWD, "/proc/self/exe", DT_UNKNOWN), FRAME_TYPE_SYMLINK);
    CHECK_INT(shim_entry_type(AT_FDCWD, "/none-of-that", DT_UNKNOWN), -ENOENT);
}

static void copy_and_check(int in, int out, int want, enum shim_side want_side)
{
    enum shim_side side = SHIM_SIDE_NONE;

    CHECK_INT(shim_copy(in, out, &side), want);
    CHECK_INT(side, want_side);
}

TEST(copy_says_whose_error_it_is)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    copy_and_check(null, null, 0, SHIM_SIDE_NONE);
    copy_and_check(dir, null, -EISDIR, SHIM_SIDE_IN);
    copy_and_check(zero, full, -ENOSPC, SHIM_SIDE_OUT);
    copy_and_check(null, full, 0, SHIM_SIDE_NONE);
    copy_and_check(full, null, -EBADF, SHIM_SIDE_IN);
    (void)close(null);
    (void)close(zero);
    (void)close(full);
    (void)close(dir);
}

TAP_MAIN
