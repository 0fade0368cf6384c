/* Archives that come from a sandbox: what is written of them, and that nothing is written
 * elsewhere. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/pack.h"
#include "cli/unpack.h"
#include "proto/tar.h"
#include "tap.h"

enum { ARCHIVE_MAX = 1 << 20 };

struct archive {
    unsigned char data[ARCHIVE_MAX];
    size_t len, at;
};
static struct archive archive;
static char top[80], outside[64];

static void add(enum tar_kind kind, const char *name, const char *link, const char *data,
                uint32_t mode)
{
    static struct tar_item item;
    size_t size = kind == TAR_REGULAR ? strlen(data) : 0;

    item = (struct tar_item){.kind = kind, .mode = mode, .size = size, .mtime = 1000000000};
    (void)snprintf(item.name, sizeof(item.name), "%s", name);
    (void)snprintf(item.link, sizeof(item.link), "%s", link);
    archive.len += (size_t)tar_put_item(archive.data + archive.len, &item);
    (void)memcpy(archive.data + archive.len, data, size);
    archive.len += (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

static ssize_t read_archive(void *data, void *buf, size_t len)
{
    struct archive *a = data;
    size_t n = a->len - a->at < len ? a->len - a->at : len;

    (void)memcpy(buf, a->data + a->at, n);
    a->at += n;
    return (ssize_t)n;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

/* A fresh target with a file beside it and one in it. */
static void begin(void)
{
    char name[128];
    FILE *f;

    (void)snprintf(outside, sizeof(outside), "/tmp/rind-unpack-XXXXXX");
    if (mkdtemp(outside) == NULL)
        abort();
    (void)snprintf(top, sizeof(top), "%s/dst", outside);
    (void)mkdir(top, 0755);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof(name), "%s/mine", i == 0 ? outside : top);
        f = fopen(name, "we");
        (void)fputs("mine", f);
        (void)fclose(f);
    }
    (void)memset(&archive, 0, sizeof(archive));
}

static void end(void)
{
    (void)nftw(outside, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int run(const char *only, size_t *ret_skipped, struct err *err)
{
    int dir = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC), r;

    archive.len += (size_t)TAR_BLOCK * 2;
    *ret_skipped = 0;
    r = unpack(dir, only, read_archive, &archive, ret_skipped, err);
    (void)close(dir);
    return r;
}

static void content(const char *name, const char *want)
{
    char path[256], got[64] = "";
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    f = fopen(path, "re");
    if (f == NULL) {
        tap_fail("%s: %s", name, strerror(errno));
        return;
    }
    (void)!fgets(got, sizeof(got), f);
    (void)fclose(f);
    CHECK_STR(got, want);
}

static struct stat info(const char *name)
{
    struct stat st = {.st_mode = 0};
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", top, name);
    if (lstat(path, &st) < 0)
        st.st_mode = 0;
    return st;
}

TEST(a_tree)
{
    struct err err = ERR_NONE;
    size_t skipped;

    begin();
    add(TAR_DIRECTORY, "./", "", "", 0700);
    add(TAR_DIRECTORY, "x", "", "", 0555);
    add(TAR_DIRECTORY, "x/sub", "", "", 07777);
    add(TAR_REGULAR, "x/sub/f", "", "hello", 06751);
    add(TAR_HARD_LINK, "x/sub/g", "x/sub/f", "", 0644);
    add(TAR_SYMBOLIC, "x/l", "/etc/passwd", "", 0777);
    add(TAR_REGULAR, "mine", "", "theirs", 0600);
    CHECK_INT(run(NULL, &skipped, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(skipped, 0);
    content("x/sub/f", "hello");
    content("mine", "theirs");
    content("../mine", "mine");
    CHECK_INT(info("x").st_mode, S_IFDIR | 0555);
    CHECK_INT(info("x/sub").st_mode, S_IFDIR | 0777);
    CHECK_INT(info("x/sub/f").st_mode, S_IFREG | 0751);
    CHECK_INT(info("x/sub/f").st_mtime, 1000000000);
    CHECK_INT(info("x/sub/f").st_ino, info("x/sub/g").st_ino);
    CHECK(S_ISLNK(info("x/l").st_mode));
    end();
}

struct row {
    enum tar_kind kind;
    const char *name, *link;
};

TEST(entries_that_lead_outside_are_refused)
{
    static const struct {
        struct row first, second;
        int code;
    } rows[] = {
        {{TAR_REGULAR, "../evil", ""}, {0}, -EXDEV},
        {{TAR_REGULAR, "/evil", ""}, {0}, -EXDEV},
        {{TAR_REGULAR, "x/../../evil", ""}, {0}, -EXDEV},
        {{TAR_REGULAR, "y", ""}, {0}, -EXDEV},
        {{TAR_REGULAR, "xx", ""}, {0}, -EXDEV},
        {{TAR_SYMBOLIC, "x", ".."}, {TAR_REGULAR, "x/evil", ""}, -ELOOP},
        {{TAR_SYMBOLIC, "x", "/"}, {TAR_DIRECTORY, "x/evil", ""}, -ELOOP},
        {{TAR_HARD_LINK, "x", "../mine"}, {0}, -EXDEV},
        {{TAR_HARD_LINK, "x", "mine"}, {0}, -EXDEV},
        {{TAR_HARD_LINK, "x", "x"}, {0}, -ENOENT},
        {{TAR_DIRECTORY, "x", ""}, {TAR_REGULAR, "x", ""}, -EISDIR},
        {{TAR_REGULAR, "x", ""}, {TAR_DIRECTORY, "x", ""}, -ENOTDIR},
        {{TAR_REGULAR, "x", ""}, {TAR_REGULAR, "x/y", ""}, -ENOTDIR},
        {{TAR_REGULAR, "x/y", ""}, {0}, -ENOENT},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *parts[] = {&rows[i].first, &rows[i].second};
        struct err err = ERR_NONE;
        struct stat st;
        size_t skipped;
        char path[128];

        begin();
        for (int k = 0; k < 2; k++)
            if (parts[k]->kind != TAR_KIND_INVALID)
                add(parts[k]->kind, parts[k]->name, parts[k]->link, "evil", 0644);
        if (run("x", &skipped, &err) != rows[i].code)
            tap_fail("row %zu: %d (%s), want %d", i, err.code, err.msg, rows[i].code);
        CHECK(err.msg[0] != '\0');
        content("mine", "mine");
        content("../mine", "mine");
        (void)snprintf(path, sizeof(path), "%s/evil", outside);
        CHECK_INT(lstat(path, &st), -1);
        end();
    }
}

TEST(left_out)
{
    struct err err = ERR_NONE;
    size_t skipped;

    begin();
    add(TAR_CHARACTER, "x", "", "", 0666);
    add(TAR_BLOCK_DEVICE, "x", "", "", 0666);
    add(TAR_PIPE, "x", "", "", 0666);
    CHECK_INT(run("x", &skipped, &err), 0);
    CHECK_INT(skipped, 3);
    CHECK_INT(info("x").st_mode, 0);
    end();
}

TEST(broken_archives_are_refused)
{
    struct err err = ERR_NONE;
    size_t skipped;

    begin();
    add(TAR_REGULAR, "x", "", "hello", 0644);
    archive.data[3] ^= 1;
    CHECK_INT(run("x", &skipped, &err), -EBADMSG);
    CHECK(strstr(err.msg, "the archive: ") == err.msg);
    end();
}

/* ---- packing ---- */

static int take_bytes(void *data, const void *bytes, size_t len, struct err *err)
{
    struct archive *a = data;

    if (len > sizeof(a->data) - a->len)
        return err_set(err, -E2BIG, "too large for a test");
    (void)memcpy(a->data + a->len, bytes, len);
    a->len += len;
    return 0;
}

/* What is packed can be unpacked. */
TEST(there_and_back)
{
    char path[128], name[300];
    struct err err = ERR_NONE;
    size_t skipped;
    FILE *f;

    begin();
    (void)snprintf(path, sizeof(path), "%s/src", outside);
    (void)mkdir(path, 0750);
    (void)snprintf(path, sizeof(path), "%s/src/pipe", outside);
    (void)mkfifo(path, 0600);
    (void)snprintf(path, sizeof(path), "%s/src/link", outside);
    (void)!symlink("nowhere", path);
    (void)snprintf(name, sizeof(name), "%s/src/%0200d", outside, 7);
    f = fopen(name, "we");
    (void)fputs("long", f);
    (void)fclose(f);
    (void)snprintf(path, sizeof(path), "%s/src", outside);
    CHECK_INT(pack(path, "x", 0, take_bytes, &archive, &skipped, &err), 0);
    CHECK_INT(skipped, 1);
    CHECK_INT(run("x", &skipped, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(info("x").st_mode, S_IFDIR | 0750);
    CHECK(S_ISLNK(info("x/link").st_mode));
    (void)snprintf(name, sizeof(name), "x/%0200d", 7);
    content(name, "long");
    CHECK_INT(pack("/nowhere/at/all", "x", 0, take_bytes, &archive, &skipped, &err), -ENOENT);
    CHECK_STR(err.msg, "'/nowhere/at/all': No such file or directory");
    end();
}

TAP_MAIN
