#include <errno.h>

#include "sys/mountinfo.h"
#include "tap.h"

/* Runs `text` through the parser; the entries' strings live in `buf`. */
static struct mountinfo start(char *buf, size_t size, const char *text)
{
    struct mountinfo m;

    (void)snprintf(buf, size, "%s", text);
    mountinfo_init(&m, buf, strlen(buf));
    return m;
}

TEST(one_line)
{
    static const char text[] =
        "36 35 98:4 /mnt1 /mnt2 rw,noatime shared:1 master:7 - ext3 /dev/root rw,errors=continue\n";
    struct mountinfo_entry e;
    char buf[256];
    struct mountinfo m = start(buf, sizeof(buf), text);

    CHECK_INT(mountinfo_next(&m, &e), 1);
    CHECK_INT(e.id, 36);
    CHECK_INT(e.parent, 35);
    CHECK_INT(e.major, 98);
    CHECK_INT(e.minor, 4);
    CHECK_STR(e.root, "/mnt1");
    CHECK_STR(e.mount_point, "/mnt2");
    CHECK_STR(e.options, "rw,noatime");
    CHECK_STR(e.fstype, "ext3");
    CHECK_STR(e.source, "/dev/root");
    CHECK_STR(e.super_options, "rw,errors=continue");
    CHECK_INT(m.line, 1);
    CHECK_INT(mountinfo_next(&m, &e), 0);
    CHECK_INT(mountinfo_next(&m, &e), 0);
}

TEST(fields_and_escapes)
{
    /* clang-format off */
    static const struct {
        const char *line, *root, *mount_point, *fstype, *source, *super;
    } rows[] = {
        /* no optional field, no newline at the end */
        { "1 2 0:3 / /a rw - tmpfs none rw", "/", "/a", "tmpfs", "none", "rw" },
        /* the kernel's four escapes; other backslashes stay */
        { "1 2 0:3 / /a\\040b\\011c\\012d\\134e\\9 rw - tmpfs x rw", "/", "/a b\tc\nd\\e\\9",
          "tmpfs", "x", "rw" },
        /* an empty source is a field */
        { "1 2 0:3 / /a rw - tmpfs  rw", "/", "/a", "tmpfs", "", "rw" },
        /* a detached mount's root, a network namespace's root */
        { "1 2 0:3 //deleted /a rw - cgroup2 c rw", "//deleted", "/a", "cgroup2", "c", "rw" },
        { "1 2 0:4 net:[4026531840] /run/netns/x rw shared:3 - nsfs nsfs rw", "net:[4026531840]",
          "/run/netns/x", "nsfs", "nsfs", "rw" },
        /* a dash in a path is no separator; super options may hold anything */
        { "1 2 0:3 /- /- rw - fuse.x - rw,a=b - c", "/-", "/-", "fuse.x", "-", "rw,a=b - c" },
        { "1 2 4294967295:0 / /a rw - x y ", "/", "/a", "x", "y", "" },
        /* an escape cut short */
        { "1 2 0:3 / /a\\04 rw - x y rw", "/", "/a\\04", "x", "y", "rw" },
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mountinfo_entry e = {0};
        char buf[256];
        struct mountinfo m = start(buf, sizeof(buf), rows[i].line);

        if (mountinfo_next(&m, &e) != 1) {
            tap_fail("refused: %s", rows[i].line);
            continue;
        }
        CHECK_STR(e.root, rows[i].root);
        CHECK_STR(e.mount_point, rows[i].mount_point);
        CHECK_STR(e.fstype, rows[i].fstype);
        CHECK_STR(e.source, rows[i].source);
        CHECK_STR(e.super_options, rows[i].super);
        CHECK_INT(mountinfo_next(&m, &e), 0);
    }
}

TEST(malformed_lines_are_refused)
{
    static const char *const rows[] = {
        "",  /* an empty line */
        "1", /* cut short at each field */
        "1 2",
        "1 2 0:3",
        "1 2 0:3 /",
        "1 2 0:3 / /a",
        "1 2 0:3 / /a rw",
        "1 2 0:3 / /a rw shared:1",
        "1 2 0:3 / /a rw -",
        "1 2 0:3 / /a rw - tmpfs",
        "1 2 0:3 / /a rw - tmpfs none",
        "x 2 0:3 / /a rw - tmpfs none rw", /* not a number */
        "-1 2 0:3 / /a rw - tmpfs none rw",
        "+1 2 0:3 / /a rw - tmpfs none rw",
        "1  0:3 / /a rw - tmpfs none rw",
        "1 2 03 / /a rw - tmpfs none rw", /* no colon */
        "1 2 0: / /a rw - tmpfs none rw",
        "1 2 :3 / /a rw - tmpfs none rw",
        "1 2 0:3:4 / /a rw - tmpfs none rw",
        "4294967296 2 0:3 / /a rw - tmpfs none rw", /* does not fit */
        "99999999999999999999 2 0:3 / /a rw - tmpfs none rw",
        "1 2 0:3 / a rw - tmpfs none rw", /* a relative mount point */
        "1 2 0:3 /  rw - tmpfs none rw",
        "1 2 0:3 / /a\\000b rw - tmpfs none rw", /* an escaped NUL */
        "1 2 0:3 /\\000 /a rw - tmpfs none rw",
        "1 2 0:3 / /a rw -  none rw", /* no file system */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct mountinfo_entry e = {.id = 77};
        char text[256], buf[256];
        struct mountinfo m;

        (void)snprintf(text, sizeof(text), "%s\n1 2 0:3 / /next rw - tmpfs none rw\n", rows[i]);
        m = start(buf, sizeof(buf), text);
        if (mountinfo_next(&m, &e) != -EINVAL)
            tap_fail("taken: %s", rows[i]);
        CHECK_INT(e.id, 77);
        /* The line after it is not lost. */
        CHECK_INT(mountinfo_next(&m, &e), 1);
        CHECK_STR(e.mount_point, "/next");
        CHECK_INT(m.line, 2);
    }
}

TEST(embedded_nul)
{
    char text[] = "1 2 0:3 / /a rw - tmpfs no\0ne rw\n1 2 0:3 / /b rw - tmpfs none rw";
    struct mountinfo_entry e = {0};
    struct mountinfo m;

    mountinfo_init(&m, text, sizeof(text) - 1);
    CHECK_INT(mountinfo_next(&m, &e), -EINVAL);
    CHECK_INT(mountinfo_next(&m, &e), 1);
    CHECK_STR(e.mount_point, "/b");
    CHECK_INT(mountinfo_next(&m, &e), 0);
}

TEST(this_process)
{
    static char text[MOUNTINFO_TEXT_MAX + 1];
    FILE *f = fopen("/proc/self/mountinfo", "re");
    struct mountinfo_entry e;
    struct mountinfo m;
    int r, mounts = 0, roots = 0;
    size_t len;

    if (f == NULL)
        SKIP("no /proc");
    len = fread(text, 1, MOUNTINFO_TEXT_MAX, f);
    (void)fclose(f);
    text[len] = '\0';
    mountinfo_init(&m, text, len);
    while ((r = mountinfo_next(&m, &e)) > 0) {
        mounts++;
        roots += strcmp(e.mount_point, "/") == 0;
    }
    CHECK_INT(r, 0);
    CHECK_INT(mounts, m.line);
    CHECK(roots >= 1);
}

TEST(an_option_is_found_as_a_whole_word)
{
    CHECK(mountinfo_has_option("rw,cpu,cpuacct", "cpu"));
    CHECK(mountinfo_has_option("rw,cpu,cpuacct", "cpuacct"));
    CHECK(mountinfo_has_option("rw,cpu,cpuacct", "rw"));
    CHECK(mountinfo_has_option("cpu", "cpu"));
    CHECK(!mountinfo_has_option("rw,cpuacct", "cpu"));
    CHECK(!mountinfo_has_option("rw,xcpu", "cpu"));
    CHECK(!mountinfo_has_option("rw,name=cpu", "cpu"));
    CHECK(!mountinfo_has_option("", "cpu"));
    CHECK(!mountinfo_has_option(",,", "cpu"));
}

TAP_MAIN
