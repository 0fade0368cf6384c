/* The reader of our own archives: what it takes, each thing that it refuses, and where it unpacks.
 */

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/embed.h"
#include "image/tar.h"
#include "proto/rmtree.h"
#include "tap.h"

enum { BLOCK = 512, MTIME = 1704067200 };

/* One entry as a test writes it; make_archive fills in what is left out. */
struct row {
    const char *name;
    char type;
    const char *link, *data, *prefix;
    const char *mode, *uid, *size, *mtime; /* raw fields instead of the usual ones */
    const char *magic;
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
    put_field(b, 108, 8, row->uid, geteuid());
    put_octal(b, 116, 8, getegid());
    put_field(b, 124, 12, row->size, len);
    put_field(b, 136, 12, row->mtime, MTIME);
    b[156] = (unsigned char)row->type;
    put(b, 157, 100, row->link != NULL ? row->link : "");
    put(b, 257, 6, row->magic != NULL ? row->magic : "ustar");
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

static struct archive one(struct row row)
{
    return make_archive(&row, 1);
}

struct result {
    int code;
    struct tar_entry entry;
    struct err err;
};

static struct result first_entry(const struct archive *a)
{
    struct tar_reader t = TAR_READER(a->data, a->len);
    struct result r = {.code = 0, .err = ERR_NONE};

    r.code = tar_next(&t, &r.entry, &r.err);
    return r;
}

TEST(reads_each_type)
{
    const struct row rows[] = {
        {.name = "d/", .type = '5', .mode = "0001777"},
        {.name = "f", .type = '0', .prefix = "d", .data = "hello"},
        {.name = "s", .type = '2', .link = "../../anywhere"},
        {.name = "h", .type = '1', .link = "d/f"},
    };
    struct archive a = make_archive(rows, 4);
    struct tar_reader t = TAR_READER(a.data, a.len);
    struct err err = ERR_NONE;
    struct tar_entry e;

    CHECK_INT(tar_next(&t, &e, &err), 1);
    CHECK_STR(e.name, "d");
    CHECK_INT(e.type, TAR_DIR);
    CHECK_INT(e.mode, 01777);
    CHECK_INT(tar_next(&t, &e, &err), 1);
    CHECK_STR(e.name, "d/f");
    CHECK_INT(e.type, TAR_FILE);
    CHECK_INT(e.mode, 0640);
    CHECK_INT(e.uid, geteuid());
    CHECK_INT(e.mtime, MTIME);
    CHECK_INT(e.size, 5);
    CHECK(memcmp(e.data, "hello", 5) == 0);
    CHECK_INT(tar_next(&t, &e, &err), 1);
    CHECK_INT(e.type, TAR_SYMLINK);
    CHECK_STR(e.link, "../../anywhere");
    CHECK_INT(tar_next(&t, &e, &err), 1);
    CHECK_INT(e.type, TAR_HARDLINK);
    CHECK_STR(e.link, "d/f");
    CHECK_INT(tar_next(&t, &e, &err), 0);
    CHECK_INT(tar_next(&t, &e, &err), 0);
    CHECK_STR(err.msg, "");
}

TEST(reads_the_longest_names)
{
    char prefix[156], name[101], want[258];
    struct archive a;
    struct result r;

    (void)memset(prefix, 'p', 155);
    (void)memset(name, 'n', 100);
    prefix[155] = name[100] = '\0';
    (void)snprintf(want, sizeof(want), "%s/%s", prefix, name);
    a = one((struct row){.name = name, .prefix = prefix, .type = '2', .link = name});
    r = first_entry(&a);
    CHECK_INT(r.code, 1);
    CHECK_STR(r.entry.name, want);
    CHECK_STR(r.entry.link, name);
}

#define NAME  "archive: entry 0: a name that is not a plain relative path"
#define RANGE "archive: entry 0: a mode, owner, size or time out of range"
#define KIND  "archive: entry 0: a type of entry other than file, directory and link"
#define LINK  "archive: entry 0: a wrong link target"

static const struct {
    struct row row;
    const char *message;
} refused[] = {
    {{.name = "/f", .type = '0'}, NAME},
    {{.name = "../f", .type = '0'}, NAME},
    {{.name = "a/../f", .type = '0'}, NAME},
    {{.name = "a/..", .type = '0'}, NAME},
    {{.name = "..", .type = '5'}, NAME},
    {{.name = ".", .type = '5'}, NAME},
    {{.name = "./", .type = '5'}, NAME},
    {{.name = "./f", .type = '0'}, NAME},
    {{.name = "a//f", .type = '0'}, NAME},
    {{.name = "f/", .type = '0'}, NAME},
    {{.name = "d//", .type = '5'}, NAME},
    {{.name = "/", .type = '5'}, NAME},
    {{.name = "", .type = '0'}, NAME},
    {{.name = "f", .type = '0', .prefix = "/etc"}, NAME},
    {{.name = "f", .type = '0', .prefix = "a/.."}, NAME},
    {{.name = "f", .type = '3'}, KIND},
    {{.name = "f", .type = '4'}, KIND},
    {{.name = "f", .type = '6'}, KIND},
    {{.name = "f", .type = '7'}, KIND},
    {{.name = "f", .type = 'x'}, KIND},
    {{.name = "f", .type = 'L'}, KIND},
    {{.name = "f", .type = '\0'}, KIND},
    {{.name = "f", .type = '2'}, LINK},
    {{.name = "f", .type = '1', .link = "../f"}, LINK},
    {{.name = "f", .type = '1', .link = "/f"}, LINK},
    {{.name = "f", .type = '1'}, LINK},
    {{.name = "f", .type = '0', .link = "g"}, LINK},
    {{.name = "f", .type = '0', .mode = "0004755"}, RANGE},
    {{.name = "f", .type = '0', .mode = "0002755"}, RANGE},
    {{.name = "f", .type = '0', .mode = "0001755"}, RANGE},
    {{.name = "d", .type = '5', .mode = "0002755"}, RANGE},
    {{.name = "f", .type = '0', .mode = "00000000"}, RANGE},
    {{.name = "f", .type = '0', .mode = "0x1ff"}, RANGE},
    {{.name = "f", .type = '0', .mode = "-000644"}, RANGE},
    {{.name = "f", .type = '0', .mode = ""}, RANGE},
    {{.name = "f", .type = '0', .uid = "0200000"}, RANGE},
    {{.name = "f", .type = '0', .uid = "\200\0\0\1"}, RANGE},
    {{.name = "f", .type = '0', .mtime = "junk"}, RANGE},
    {{.name = "d", .type = '5', .size = "00000000001"}, RANGE},
    {{.name = "s", .type = '2', .link = "x", .size = "00000000001"}, RANGE},
    {{.name = "f", .type = '0', .size = "77777777777"}, RANGE},
    {{.name = "f", .type = '0', .size = "00000002001"}, "archive: f: cut short"},
    {{.name = "f", .type = '0', .data = "ab", .size = "00000000001"},
     "archive: f: padding is not zero"},
    {{.name = "f", .type = '0', .bad_sum = true}, "archive: entry 0: wrong header checksum"},
    {{.name = "f", .type = '0', .magic = "ustar "}, "archive: entry 0: not a ustar header"},
    {{.name = "f", .type = '0', .magic = "USTAR"}, "archive: entry 0: not a ustar header"},
};

TEST(refuses_what_we_never_write)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct archive a = one(refused[i].row);
        struct result r = first_entry(&a);

        if (r.code != -EBADMSG)
            tap_fail("row %zu (%s): code %d", i, refused[i].row.name, r.code);
        if (strcmp(r.err.msg, refused[i].message) != 0)
            tap_fail("row %zu (%s): \"%s\"", i, refused[i].row.name, r.err.msg);
    }
}

TEST(the_end_must_be_marked_and_be_the_end)
{
    struct archive a = one((struct row){.name = "f", .type = '0'});
    struct result r = {.err = ERR_NONE};
    struct tar_reader t;

    static const struct {
        size_t len;
        int last;
        const char *message;
    } rows[] = {
        {(size_t)3 * BLOCK, 0, ""},
        {(size_t)2 * BLOCK, -EBADMSG, "archive: the end mark is not the end"},
        {BLOCK, -EBADMSG, "archive: ends without an end mark"},
        {(size_t)3 * BLOCK - 1, -EBADMSG, "archive: the end mark is not the end"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        t = (struct tar_reader)TAR_READER(a.data, rows[i].len);
        r.err = (struct err)ERR_NONE;
        /* 3 * BLOCK - 1 leaves one whole zero block and a part of the second. */
        CHECK_INT(tar_next(&t, &r.entry, &r.err), 1);
        CHECK_INT(tar_next(&t, &r.entry, &r.err), rows[i].last);
        CHECK_STR(r.err.msg, rows[i].message);
    }
    a.data[3 * BLOCK - 1] = 1;
    t = (struct tar_reader)TAR_READER(a.data, a.len);
    CHECK_INT(tar_next(&t, &r.entry, &r.err), 1);
    CHECK_INT(tar_next(&t, &r.entry, &r.err), -EBADMSG);

    t = (struct tar_reader)TAR_READER(a.data, 0);
    CHECK_INT(tar_next(&t, &r.entry, &r.err), -EBADMSG);
    t = (struct tar_reader)TAR_READER(a.data, BLOCK - 1);
    CHECK_INT(tar_next(&t, &r.entry, &r.err), -EBADMSG);
}

TEST(a_failure_leaves_the_entry_alone)
{
    struct archive a = one((struct row){.name = "../f", .type = '0'});
    struct tar_reader t = TAR_READER(a.data, a.len);
    struct tar_entry e = {.name = "before"};

    CHECK_INT(tar_next(&t, &e, NULL), -EBADMSG);
    CHECK_STR(e.name, "before");
}

TEST(our_own_archives_are_accepted)
{
    const struct blob blobs[] = {embed_base(), embed_root()};

    for (size_t i = 0; i < 2; i++) {
        struct tar_reader t = TAR_READER(blobs[i].data, blobs[i].len);
        struct err err = ERR_NONE;
        struct tar_entry e;
        int r;

        while ((r = tar_next(&t, &e, &err)) > 0)
            CHECK((e.mode & 06000) == 0);
        CHECK_INT(r, 0);
        CHECK_STR(err.msg, "");
        CHECK(t.entries >= 7);
    }
}

/* ---- unpacking ---- */

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
        {.name = "h", .type = '1', .link = "d/f"},
    };
    struct archive a = make_archive(rows, 4);
    struct err err = ERR_NONE;
    struct dir d = dir_new();
    struct stat dst, fst, hst, sst;
    mode_t before = umask(0077);

    CHECK_INT(tar_unpack(d.fd, a.data, a.len, &err), 0);
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
    CHECK_INT(fstatat(d.fd, "h", &hst, AT_SYMLINK_NOFOLLOW), 0);
    CHECK_INT(hst.st_ino, fst.st_ino);
    CHECK_INT(fchmodat(d.fd, "d", 0700, 0), 0);
    dir_end(&d);
}

/* Each names what could lead out of the directory, or over what is there; "canary" must stay. */
static const struct {
    struct row rows[3];
    const char *message;
} unpack_refused[] = {
    {{{.name = "l", .type = '2', .link = "out"}, {.name = "l/f", .type = '0'}},
     "l/f: Not a directory"},
    {{{.name = "l", .type = '2', .link = "out/canary"}, {.name = "l", .type = '0', .data = "x"}},
     "l: File exists"},
    {{{.name = "l", .type = '2', .link = "out/canary"}, {.name = "h", .type = '1', .link = "l"}},
     "h: Invalid argument"},
    {{{.name = "l", .type = '2', .link = "out"}, {.name = "h", .type = '1', .link = "l/canary"}},
     "h: Not a directory"},
    {{{.name = "f", .type = '0'}, {.name = "f/g", .type = '0'}}, "f/g: Not a directory"},
    {{{.name = "f", .type = '0'}, {.name = "f", .type = '0'}}, "f: File exists"},
    {{{.name = "d", .type = '5'}, {.name = "d", .type = '5'}}, "d: File exists"},
    {{{.name = "d", .type = '5'}, {.name = "h", .type = '1', .link = "d"}}, "h: Invalid argument"},
    {{{.name = "d/f", .type = '0'}}, "d/f: No such file or directory"},
    {{{.name = "h", .type = '1', .link = "none"}}, "h: No such file or directory"},
    {{{.name = "f", .type = '0'}, {.name = "../g", .type = '0'}},
     "archive: entry 1: a name that is not a plain relative path"},
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
        CHECK(tar_unpack(d.fd, a.data, a.len, &err) < 0);
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

TAP_MAIN
