/* Unpacking the built-in archives: what they become on disk, what is refused, and that nothing is
 * written outside of the directory. */

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/builtin-unpack.h"
#include "image/embed.h"
#include "proto/rmtree.h"
#include "tap.h"

enum { BLOCK = 512, MTIME = 1704067200 };

/* One entry as a test writes it; make_archive fills in what is left out. */
struct row {
    const char *name;
    char type;
    const char *link, *data, *prefix;
    const char *mode, *size; /* raw fields instead of the usual ones */
    bool bad_sum;
};

struct archive {
    unsigned char data[64 * BLOCK];
    size_t len;
};

static void put(unsigned char *block, size_t off, size_t len, const char *text)
{
    for (size_t i = 0; i < len && text[i] != '\0'; i++)
        block[off + i] = (unsigned char)text[i];
}

static void put_octal(unsigned char *block, size_t off, size_t len, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%0*llo", (int)len - 1, (unsigned long long)value);
    put(block, off, len, text);
}

static void put_field(unsigned char *block, size_t off, size_t len, const char *raw,
                      uint64_t otherwise)
{
    if (raw != NULL)
        put(block, off, len, raw);
    else
        put_octal(block, off, len, otherwise);
}

static void add_row(struct archive *a, const struct row *row)
{
    unsigned char *b = a->data + a->len;
    size_t len = row->data != NULL ? strlen(row->data) : 0;
    uint64_t sum = 0;

    put(b, 0, 100, row->name);
    put_field(b, 100, 8, row->mode, row->type == '5' ? 0750 : 0640);
    put_octal(b, 108, 8, geteuid());
    put_octal(b, 116, 8, getegid());
    put_field(b, 124, 12, row->size, len);
    put_octal(b, 136, 12, MTIME);
    b[156] = (unsigned char)row->type;
    put(b, 157, 100, row->link != NULL ? row->link : "");
    put(b, 257, 6, "ustar");
    put(b, 263, 2, "00");
    put(b, 345, 155, row->prefix != NULL ? row->prefix : "");
    (void)memset(b + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += b[i];
    put_octal(b, 148, 7, sum + row->bad_sum);
    if (len > 0)
        (void)memcpy(b + BLOCK, row->data, len);
    a->len += BLOCK + (len + BLOCK - 1) / BLOCK * BLOCK;
}

/* The rows that have a name, and the end mark. */
static struct archive make_archive(const struct row *rows, size_t count)
{
    struct archive a = {.len = 0};

    for (size_t i = 0; i < count && rows[i].name != NULL; i++)
        add_row(&a, &rows[i]);
    a.len += (size_t)2 * BLOCK;
    return a;
}

struct dir {
    char path[64];
    int fd;
};

static struct dir dir_new(void)
{
    struct dir d = {.path = "/tmp/rind-test-tar-XXXXXX"};

    if (mkdtemp(d.path) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
    d.fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d;
}

static void dir_end(struct dir *d)
{
    auto_close int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)close(d->fd);
    CHECK_INT(rmtree_at(tmp, d->path + strlen("/tmp/"), 0), 0);
}

TEST(unpacks_with_modes_owners_and_times)
{
    const struct row rows[] = {
        {.name = "d/", .type = '5', .mode = "0000500"},
        {.name = "d/f", .type = '0', .data = "hello", .mode = "0000444"},
        {.name = "d/s", .type = '2', .link = "/etc/passwd"},
    };
    struct archive a = make_archive(rows, 3);
    struct err err = ERR_NONE;
    struct dir d = dir_new();
    struct stat dst, fst, sst;
    mode_t before = umask(0077);

    CHECK_INT(builtin_unpack(d.fd, a.data, a.len, &err), 0);
    (void)umask(before);
    CHECK_STR(err.msg, "");
    CHECK_INT(fstatat(d.fd, "d", &dst, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_INT(dst.st_mode, S_IFDIR | 0500);
    CHECK_INT(dst.st_mtime, MTIME);
    CHECK_INT(fstatat(d.fd, "d/f", &fst, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_INT(fst.st_mode, S_IFREG | 0444);
    CHECK_INT(fst.st_mtime, MTIME);
    CHECK_INT(fst.st_size, 5);
    CHECK_INT(fstatat(d.fd, "d/s", &sst, AT_SYMLINK_NOFOLLOW), 0);
    CHECK(S_ISLNK(sst.st_mode));
    CHECK_INT(fchmodat(d.fd, "d", 0700, 0), 0);
    dir_end(&d);
}

/* Each row tries to leave the directory, to replace a file, or to unpack what ustar.py never
 * writes; "canary" must stay. */
static const struct {
    struct row rows[3];
    const char *message;
} unpack_refused[] = {
    {{{.name = "l", .type = '2', .link = "out"}, {.name = "l/f", .type = '0'}},
     "l/f: Not a directory"},
    {{{.name = "l", .type = '2', .link = "out/canary"}, {.name = "l", .type = '0', .data = "x"}},
     "l: File exists"},
    {{{.name = "f", .type = '0'}, {.name = "f/g", .type = '0'}}, "f/g: Not a directory"},
    {{{.name = "f", .type = '0'}, {.name = "f", .type = '0'}}, "f: File exists"},
    {{{.name = "d", .type = '5'}, {.name = "d", .type = '5'}}, "d: File exists"},
    {{{.name = "d/f", .type = '0'}}, "d/f: No such file or directory"},
    {{{.name = "f", .type = '0'}, {.name = "../g", .type = '0'}},
     "archive: ../g: not a relative path below the top"},
    {{{.name = "/f", .type = '0'}}, "archive: /f: not a relative path below the top"},
    {{{.name = "f", .type = '0', .prefix = "a/.."}},
     "archive: a/../f: not a relative path below the top"},
    {{{.name = "./", .type = '5'}}, "archive: ./: not a relative path below the top"},
    {{{.name = "h", .type = '1', .link = "out/canary"}},
     "archive: h: not a file, directory or symbolic link"},
    {{{.name = "n", .type = '3'}}, "archive: n: not a file, directory or symbolic link"},
    {{{.name = "f", .type = '0', .mode = "0004755"}}, "archive: f: a set-id bit"},
    {{{.name = "d", .type = '5', .mode = "0002755"}}, "archive: d: a set-id bit"},
    {{{.name = "f", .type = '0', .bad_sum = true}},
     "archive: not a tar archive (compressed ones are not unpacked), or broken"},
    {{{.name = "f", .type = '0', .data = "ab", .size = "00000777777"}}, "f: Bad message"},
};

TEST(unpacks_beneath_and_over_nothing)
{
    for (size_t i = 0; i < sizeof(unpack_refused) / sizeof(unpack_refused[0]); i++) {
        struct archive a = make_archive(unpack_refused[i].rows, 3);
        struct err err = ERR_NONE;
        struct dir d = dir_new();
        struct stat st;
        int fd;

        CHECK_INT(mkdirat(d.fd, "out", 0700), 0);
        fd = openat(d.fd, "out/canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK_INT(write(fd, "stays", 5), 5);
        CHECK(builtin_unpack(d.fd, a.data, a.len, &err) < 0);
        if (strcmp(err.msg, unpack_refused[i].message) != 0)
            tap_fail("row %zu: \"%s\", want \"%s\"", i, err.msg, unpack_refused[i].message);
        CHECK_INT(fstat(fd, &st), 0);
        CHECK_INT(st.st_size, 5);
        CHECK_INT(st.st_nlink, 1);
        CHECK_INT(faccessat(d.fd, "out/f", F_OK, 0), -1);
        (void)close(fd);
        dir_end(&d);
    }
}

TEST(our_own_archives_unpack_to_every_entry)
{
    const struct blob blobs[] = {embed_base(), embed_root()};

    for (size_t i = 0; i < 2; i++) {
        struct err err = ERR_NONE;
        struct dir d = dir_new();
        struct stat st;

        CHECK_INT(builtin_unpack(d.fd, blobs[i].data, blobs[i].len, &err), 0);
        CHECK_STR(err.msg, "");
        CHECK_INT(fstat(d.fd, &st), 0);
        CHECK(st.st_nlink > 2); /* it has directories */
        dir_end(&d);
    }
}

TEST(an_archive_without_its_end_is_refused)
{
    const struct row row = {.name = "f", .type = '0'};
    struct archive a = make_archive(&row, 1);
    struct err err = ERR_NONE;
    struct dir d = dir_new();

    CHECK_INT(builtin_unpack(d.fd, a.data, BLOCK, &err), -EBADMSG);
    CHECK_STR(err.msg, "archive: no proper end of the archive");
    dir_end(&d);
}

TAP_MAIN
