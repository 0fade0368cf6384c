/* The shim's archives: what is written can be read back, and everything that is refused. */

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/tar-xattr.h"
#include "proto/tar.h"
#include "tap.h"

enum { ARCHIVE_MAX = 1 << 20 };

struct memory {
    const uint8_t *data;
    size_t len, pos;
};

static ssize_t read_memory(void *data, void *buf, size_t len)
{
    struct memory *m = data;

    if (len > m->len - m->pos)
        len = m->len - m->pos;
    memcpy(buf, m->data + m->pos, len);
    m->pos += len;
    return (ssize_t)len;
}

static uint8_t archive[ARCHIVE_MAX];
static size_t archive_len;
static struct tar_in in;
static struct memory memory;
static struct tar_item item;

static void begin(void)
{
    memory = (struct memory){.data = archive, .len = archive_len};
    in.read = read_memory;
    in.data = &memory;
    in.left = in.pad = 0;
    in.why = NULL;
}

static void add_item(const struct tar_item *it)
{
    ssize_t n = tar_put_item(archive + archive_len, it);

    CHECK(n > 0 && n % TAR_BLOCK == 0);
    archive_len += n > 0 ? (size_t)n : 0;
}

static void add_data(const void *data, size_t len)
{
    memcpy(archive + archive_len, data, len);
    archive_len += len;
    while (archive_len % TAR_BLOCK != 0)
        archive[archive_len++] = 0;
}

static void add_end(void)
{
    memset(archive + archive_len, 0, (size_t)2 * TAR_BLOCK);
    archive_len += (size_t)2 * TAR_BLOCK;
}

/* ---- what is written can be read ---- */

static void round_trip(const struct tar_item *want, const char *data)
{
    char got[64];

    archive_len = 0;
    add_item(want);
    add_data(data, strlen(data));
    add_end();
    begin();
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_INT(item.kind, want->kind);
    CHECK_STR(item.name, want->name);
    CHECK_STR(item.link, want->link);
    CHECK_INT(item.mode, want->mode);
    CHECK_INT(item.uid, want->uid);
    CHECK_INT(item.size, want->size);
    CHECK_INT(item.mtime, want->mtime);
    CHECK_INT(item.xattr_count, want->xattr_count);
    for (size_t i = 0; i < item.xattr_count && i < want->xattr_count; i++) {
        CHECK_STR(item.xattrs[i].name, want->xattrs[i].name);
        CHECK_INT(item.xattrs[i].len, want->xattrs[i].len);
        CHECK(memcmp(item.xattrs[i].value, want->xattrs[i].value, want->xattrs[i].len) == 0);
    }
    if (want->kind == TAR_REGULAR && want->size < sizeof(got)) {
        CHECK_INT(tar_read_data(&in, got, sizeof(got)), strlen(data));
        CHECK(memcmp(got, data, strlen(data)) == 0);
    }
    CHECK_INT(tar_read(&in, &item), 0);
}

static void fill_name(char *ret, size_t len, size_t slash_every)
{
    for (size_t i = 0; i < len; i++)
        ret[i] = i > 0 && slash_every > 0 && i % slash_every == 0 ? '/' : (char)('a' + i % 26);
    ret[len] = '\0';
    if (len > 0 && ret[len - 1] == '/')
        ret[len - 1] = 'z';
}

TEST(names_of_every_length)
{
    static struct tar_item want = {.kind = TAR_REGULAR, .mode = 0644};
    const size_t lengths[] = {1,   99,  100, 101, 102, 154, 155,  156,
                              199, 255, 256, 257, 511, 512, 1000, 4095};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (size_t every = 0; every < 260; every += 43) {
            fill_name(want.name, lengths[i], every);
            round_trip(&want, "");
        }
}

TEST(directories_keep_their_names)
{
    static struct tar_item want = {.kind = TAR_DIRECTORY, .mode = 0755};
    char with_slash[FILE_PATH_MAX + 2];

    for (size_t len = 95; len < 105; len++) {
        fill_name(want.name, len, 50);
        archive_len = 0;
        add_item(&want);
        add_end();
        begin();
        CHECK_INT(tar_read(&in, &item), 1);
        CHECK_INT(item.kind, TAR_DIRECTORY);
        (void)snprintf(with_slash, sizeof(with_slash), "%s/", want.name);
        CHECK(strcmp(item.name, want.name) == 0 || strcmp(item.name, with_slash) == 0);
    }
}

TEST(kinds_links_and_times)
{
    static struct tar_item want = {.kind = TAR_SYMBOLIC, .mode = 0777, .name = "l"};
    const int64_t times[] = {
        0, 1, -1, -86400LL * 3650, 077777777777, 077777777777 + 1, INT64_C(1) << 40};

    for (size_t len = 98; len < 103; len++) {
        fill_name(want.link, len, 0);
        round_trip(&want, "");
    }
    want.link[0] = '\0';
    want.kind = TAR_PIPE;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        want.mtime = times[i];
        round_trip(&want, "");
    }
}

TEST(sizes_and_contents)
{
    static struct tar_item want = {.kind = TAR_REGULAR, .mode = 07777, .name = "f", .uid = 65535};

    want.size = 5;
    round_trip(&want, "hello");
    archive_len = 0;
    want.size = UINT64_C(1) << 40; /* more than eleven octal digits hold */
    add_item(&want);
    begin();
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_INT(item.size, want.size);
}

TEST(attributes_and_names_that_are_not_utf8)
{
    static struct tar_item want = {.kind = TAR_REGULAR, .mode = 0600, .name = "n\xff\xfe"};
    static const char value[] = "a\0b\n=c";

    want.xattrs[0] = (struct tar_xattr){.name = "user.x", .value = value, .len = sizeof(value)};
    want.xattrs[1] = (struct tar_xattr){.name = "user.empty", .value = "", .len = 0};
    want.xattr_count = 2;
    round_trip(&want, "");
}

TEST(attributes_that_are_too_large)
{
    static struct tar_item want = {.kind = TAR_REGULAR, .name = "f", .xattr_count = 2};
    static char value[TAR_PAX_MAX / 2];

    want.xattrs[0] = (struct tar_xattr){.name = "user.a", .value = value, .len = sizeof(value)};
    want.xattrs[1] = (struct tar_xattr){.name = "user.b", .value = value, .len = sizeof(value)};
    CHECK_INT(tar_put_item(archive, &want), -E2BIG);
}

/* ---- headers as others write them ---- */

struct raw {
    const char *name;
    char type;
    const char *mode, *uid, *gid, *size, *mtime, *link, *magic, *prefix;
    const char *data;
    size_t data_len;
};

static const char ustar[] = "ustar\0"
                            "00";

/* len bytes, also behind a NUL. */
static void put_fixed(uint8_t *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)bytes[i];
}

static void put_raw(const struct raw *r)
{
    uint8_t *b = archive + archive_len;
    unsigned sum = 0;
    char text[9];

    memset(b, 0, TAR_BLOCK);
    memcpy(b, r->name, strnlen(r->name, 100));
    memcpy(b + 100, r->mode != NULL ? r->mode : "0000644",
           strnlen(r->mode != NULL ? r->mode : "0000644", 8));
    memcpy(b + 108, r->uid != NULL ? r->uid : "0000000", 8);
    memcpy(b + 116, r->gid != NULL ? r->gid : "0000000", 8);
    if (r->size != NULL)
        memcpy(b + 124, r->size, 12);
    else
        (void)snprintf((char *)b + 124, 12, "%011zo", r->data_len);
    memcpy(b + 136, r->mtime != NULL ? r->mtime : "00000000000", 12);
    b[156] = (uint8_t)r->type;
    if (r->link != NULL)
        memcpy(b + 157, r->link, strnlen(r->link, 100));
    put_fixed(b + 257, r->magic != NULL ? r->magic : ustar, 8);
    if (r->prefix != NULL)
        memcpy(b + 345, r->prefix, strnlen(r->prefix, 155));
    memset(b + 148, ' ', 8);
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += b[i];
    (void)snprintf(text, sizeof(text), "%06o", sum);
    memcpy(b + 148, text, 7);
    archive_len += TAR_BLOCK;
    if (r->data_len > 0)
        add_data(r->data, r->data_len);
}

#define DATA(text) .data = (text), .data_len = sizeof(text) - 1

TEST(what_other_writers_do)
{
    archive_len = 0;
    put_raw(&(struct raw){.name = "old", .type = '\0', .magic = "\0\0\0\0\0\0\0\0", DATA("x")});
    put_raw(&(struct raw){.name = "olddir/", .type = '\0'});
    put_raw(&(struct raw){.name = "././@LongLink", .type = 'L', DATA("long/name\0")});
    put_raw(&(struct raw){.name = "cut", .type = '0', .magic = "ustar  "});
    put_raw(&(struct raw){.name = "././@LongLink", .type = 'K', DATA("target\0")});
    put_raw(&(struct raw){.name = "l", .type = '2', .link = "cut", .magic = "ustar  "});
    put_raw(&(struct raw){.name = "g", .type = 'g', DATA("19 comment=nothing\n")});
    put_raw(&(struct raw){.name = "big",
                          .type = '0',
                          .uid = "\x80\0\0\0\0\x01\x86\x9f",
                          .gid = "\xff\xff\xff\xff\xff\xff\xff\xfe"});
    put_raw(
        &(struct raw){.name = "x",
                      .type = 'x',
                      DATA("22 mtime=-1.250000000\n12 uid=1000\n19 size=4294967296\n8 path=\n")});
    put_raw(&(struct raw){.name = "kept", .prefix = "pre/fix", .type = '5'});
    put_raw(&(struct raw){.name = "cont", .type = '7', DATA("y")});
    add_end();
    begin();
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.name, "old");
    CHECK_INT(item.kind, TAR_REGULAR);
    CHECK_INT(item.size, 1);
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_INT(item.kind, TAR_DIRECTORY);
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.name, "long/name");
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.link, "target");
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.name, "big");
    CHECK_INT(item.uid, TAR_ID_NOBODY); /* 99999 */
    CHECK_INT(item.gid, TAR_ID_NOBODY); /* -2 */
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.name, "pre/fix/kept");
    CHECK_INT(item.uid, 1000);
    CHECK_INT(item.mtime, -2);
    CHECK_INT(item.mtime_ns, 750000000);
    CHECK_INT(item.size, 0); /* of a directory */
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_INT(item.kind, TAR_REGULAR);
    CHECK_INT(tar_read(&in, &item), 0);
}

static void check_xattr(size_t i, const char *name, const char *value)
{
    CHECK_STR(item.xattrs[i].name, name);
    CHECK_INT(item.xattrs[i].len, strlen(value));
    CHECK(memcmp(item.xattrs[i].value, value, strlen(value)) == 0);
}

TEST(attributes_as_others_write_them)
{
    archive_len = 0;
    put_raw(&(struct raw){.name = "x",
                          .type = 'x',
                          DATA("43 LIBARCHIVE.xattr.com.apple.x=AAAA//8gIQ\n"
                               "35 LIBARCHIVE.xattr.user.a=Zmlyc3Q\n"
                               "32 SCHILY.xattr.user.a=replaced\n"
                               "35 LIBARCHIVE.xattr.user.a=bGF0ZXI\n"
                               "43 LIBARCHIVE.xattr.user.with%20space=b25l\n"
                               "28 SCHILY.xattr.trusted.x=y\n"
                               "37 SCHILY.xattr.security.selinux=x:y\n"
                               "38 SCHILY.xattr.security.capability=c\n"
                               "42 SCHILY.xattr.system.posix_acl_access=a\n"
                               "37 LIBARCHIVE.xattr.user.bad=no text\n"
                               "38 LIBARCHIVE.xattr.user.b%3dd=bm9uZQ\n"
                               "30 SCHILY.xattr.user.b=second\n")});
    put_raw(&(struct raw){.name = "f", .type = '0'});
    add_end();
    begin();
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_INT(item.xattr_count, 5);
    check_xattr(0, "user.a", "replaced");
    check_xattr(1, "user.with space", "one");
    check_xattr(2, "security.capability", "c");
    check_xattr(3, "system.posix_acl_access", "a");
    check_xattr(4, "user.b", "second");
    CHECK_INT(tar_read(&in, &item), 0);
}

TEST(libarchives_form_of_an_attribute)
{
    static const struct {
        const char *name, *value, *want_name, *want; /* NULL: refused */
    } rows[] = {
        {"user.x", "", "user.x", ""},        {"user.x", "YQ", "user.x", "a"},
        {"user.x", "YQ==", "user.x", "a"},   {"user.x", "YWI=", "user.x", "ab"},
        {"user.x", "YWJj", "user.x", "abc"}, {"%75ser%2Ex", "+/+/", "user.x", "\xfb\xff\xbf"},
        {"user.x", "Y", NULL, NULL},         {"user.x", "YWJj=", "user.x", "abc"},
        {"user.x", "Y===", NULL, NULL},      {"user.x", "YW Jj", NULL, NULL},
        {"user.%", "YQ", NULL, NULL},        {"user.%4", "YQ", NULL, NULL},
        {"user.%00x", "YQ", NULL, NULL},     {"user.%3dx", "YQ", NULL, NULL},
        {"user.%zz", "YQ", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char name[32], value[32];
        size_t len = strlen(rows[i].value);
        bool ok;

        (void)snprintf(name, sizeof(name), "%s", rows[i].name);
        (void)snprintf(value, sizeof(value), "%s", rows[i].value);
        ok = tar_xattr_decode(name, value, &len);
        CHECK_INT(ok, rows[i].want != NULL);
        if (!ok || rows[i].want == NULL)
            continue;
        CHECK_STR(name, rows[i].want_name);
        CHECK_INT(len, strlen(rows[i].want));
        CHECK(memcmp(value, rows[i].want, len) == 0);
    }
}

static struct tar_piece map[TAR_SPARSE_MAX];

/* An entry of format 1.0 with this map, and `data` bytes behind it. */
static void add_sparse(const char *pax, const char *text, size_t data)
{
    static char contents[4 * TAR_BLOCK];
    size_t len = strlen(text), start = (len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;

    memset(contents, 0, sizeof(contents));
    memcpy(contents, text, len);
    memset(contents + start, 'd', data);
    archive_len = 0;
    put_raw(&(struct raw){.name = "x", .type = 'x', .data = pax, .data_len = strlen(pax)});
    put_raw(&(struct raw){
        .name = "GNUSparseFile.0/f", .type = '0', .data = contents, .data_len = start + data});
    put_raw(&(struct raw){.name = "next", .type = '0', DATA("n")});
    add_end();
}

#define SPARSE_PAX "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"

TEST(sparse_files)
{
    static const char pax[] =
        SPARSE_PAX "26 GNU.sparse.name=a/file\n17 path=not this\n28 GNU.sparse.realsize=1000\n";
    char data[16];

    add_sparse(pax, "3\n0\n2\n500\n3\n1000\n0\n", 5);
    begin();
    in.map = map;
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.name, "a/file");
    CHECK(item.sparse);
    CHECK_INT(item.real_size, 1000);
    CHECK_INT(item.size, 5);
    CHECK_INT(in.map_count, 3);
    CHECK_INT(map[1].offset, 500);
    CHECK_INT(map[1].len, 3);
    CHECK_INT(tar_read_data(&in, data, sizeof(data)), 5);
    CHECK_INT(tar_read(&in, &item), 1);
    CHECK_STR(item.name, "next");
    CHECK(!item.sparse);
    CHECK_INT(tar_read(&in, &item), 0);
    in.map = NULL;
}

TEST(sparse_files_that_are_refused)
{
    static const char size[] = SPARSE_PAX "28 GNU.sparse.realsize=1000\n";
    static const struct {
        const char *pax, *map;
        size_t data;
        int code;
    } rows[] = {
        {size, "1\n0\n5\n", 4, -EBADMSG},
        {size, "1\n0\n5\n", 6, -EBADMSG},
        {size, "2\n0\n5\n4\n1\n", 6, -EBADMSG},
        {size, "2\n10\n5\n0\n1\n", 6, -EBADMSG},
        {size, "1\n999\n2\n", 2, -EBADMSG},
        {size, "1\n1001\n0\n", 0, -EBADMSG},
        {size, "2\n0\n5\n", 5, -EBADMSG},
        {size, "-1\n", 0, -EBADMSG},
        {size, "1\n0\n99999999999999999999999\n", 0, -EBADMSG},
        {size, "x\n", 0, -EBADMSG},
        {size, "", 0, -EBADMSG},
        {SPARSE_PAX, "1\n0\n5\n", 5, -EOPNOTSUPP},
        {"22 GNU.sparse.major=0\n22 GNU.sparse.minor=1\n28 GNU.sparse.realsize=1000\n", "0\n", 0,
         -EOPNOTSUPP},
        {"24 GNU.sparse.map=0,0,5\n", "", 5, -EOPNOTSUPP},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        add_sparse(rows[i].pax, rows[i].map, rows[i].data);
        begin();
        in.map = map;
        CHECK_INT(tar_read(&in, &item), rows[i].code);
        CHECK(in.why != NULL);
    }
    in.map = NULL;
    add_sparse(size, "0\n", 0);
    begin();
    CHECK_INT(tar_read(&in, &item), -EOPNOTSUPP); /* for a caller without room for a map */
}

static void refused(const char *what, int code, const char *why)
{
    int r;

    begin();
    while ((r = tar_read(&in, &item)) > 0)
        ;
    if (r != code)
        tap_fail("%s: %d, want %d", what, r, code);
    if (in.why == NULL || strstr(in.why, why) == NULL)
        tap_fail("%s: '%s' does not say '%s'", what, in.why != NULL ? in.why : "", why);
}

static void refused_raw(const struct raw *r, int code, const char *why)
{
    archive_len = 0;
    put_raw(r);
    put_raw(&(struct raw){.name = "f", .type = '0'});
    add_end();
    refused(r->name, code, why);
}

TEST(archives_that_lead_outside_are_refused)
{
    refused_raw(&(struct raw){.name = "sparse", .type = 'S'}, -EOPNOTSUPP, "sparse");
    refused_raw(&(struct raw){.name = "volume", .type = 'M'}, -EOPNOTSUPP, "unknown kind");
    refused_raw(&(struct raw){.name = "letters", .type = '0', .size = "0000000000x"}, -EBADMSG,
                "number");
    refused_raw(&(struct raw){.name = "negative",
                              .type = '0',
                              .size = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf0"},
                -EBADMSG, "negative");
    refused_raw(&(struct raw){.name = "huge", .type = '0', .size = "\x80\x01\0\0\0\0\0\0\0\0\0"},
                -EBADMSG, "number");
    refused_raw(&(struct raw){.name = "pax", .type = 'x', DATA("5 a=b\n")}, -EBADMSG, "pax");
    refused_raw(&(struct raw){.name = "pax2", .type = 'x', DATA("99 a=b\n")}, -EBADMSG, "pax");
    refused_raw(&(struct raw){.name = "pax3", .type = 'x', DATA("99999999999999999999999 a=b\n")},
                -EBADMSG, "pax");
    refused_raw(&(struct raw){.name = "pax4", .type = 'x', DATA("7 abcd\n")}, -EBADMSG, "pax");
    refused_raw(&(struct raw){.name = "pax5", .type = 'x', DATA("6 =bc\n")}, -EBADMSG, "pax");
    refused_raw(&(struct raw){.name = "pax6", .type = 'x', DATA("11 size=-1\n")}, -EBADMSG,
                "pax number");
    refused_raw(&(struct raw){.name = "pax7", .type = 'x', DATA("11 mtime=x\n")}, -EBADMSG,
                "pax time");
    refused_raw(&(struct raw){.name = "pax8", .type = 'x', DATA("22 GNU.sparse.major=1\n")},
                -EOPNOTSUPP, "sparse");
    refused_raw(&(struct raw){.name = "pax9", .type = 'x', DATA("12 path=a\0b\n")}, -EBADMSG,
                "NUL");
    refused_raw(&(struct raw){.name = "pax10", .type = 'x', .size = "00004000001"}, -E2BIG,
                "256 KiB");

    archive_len = 0;
    put_raw(&(struct raw){.name = "x", .type = 'x', DATA("12 uid=1000\n")});
    add_end();
    refused("a header without an entry", -EBADMSG, "without an entry");
    archive_len = 0;
    refused("nothing at all", -EBADMSG, "proper end");
    put_raw(&(struct raw){.name = "f", .type = '0', DATA("abc")});
    refused("no end", -EBADMSG, "proper end");
    archive_len -= 500;
    refused("cut in the padding", -EBADMSG, "inside");
    archive_len = TAR_BLOCK + 2;
    refused("cut in the contents", -EBADMSG, "inside a file");
    archive_len = 100;
    refused("cut in a header", -EBADMSG, "inside a block");
    put_fixed(archive, "\x1f\x8b\x08", 3);
    archive_len = 5120;
    refused("gzip", -EBADMSG, "compressed");
    archive_len = 0;
    put_raw(&(struct raw){.name = "f", .type = '0'});
    archive[0] ^= 1;
    refused("checksum", -EBADMSG, "not a tar archive");
}

TEST(slack_behind_the_end)
{
    archive_len = 0;
    add_end();
    memset(archive + archive_len, 'x', 4096);
    archive_len += 4096;
    begin();
    CHECK_INT(tar_read(&in, &item), 0);
    archive_len = 0;
    memset(archive, 0, sizeof(archive));
    archive_len = sizeof(archive);
    begin();
    CHECK_INT(tar_read(&in, &item), 0);
}

TEST(names_that_stay_beneath)
{
    static const struct {
        const char *name, *clean; /* NULL: refused */
    } rows[] = {
        {"a", "a"},          {"a/b", "a/b"},   {"./a", "a"},           {"a//b/./c/", "a/b/c"},
        {".", ""},           {"./", ""},       {"..a/b..", "..a/b.."}, {"...", "..."},
        {"", NULL},          {"/", NULL},      {"/a", NULL},           {"..", NULL},
        {"a/..", NULL},      {"a/../b", NULL}, {"./../a", NULL},       {"a/b/../../..", NULL},
        {"../../etc", NULL},
    };
    char clean[FILE_PATH_MAX + 1];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int r = tar_clean_name(rows[i].name, clean);

        if (r != (rows[i].clean == NULL ? -EINVAL : 0))
            tap_fail("'%s': %d", rows[i].name, r);
        else if (r == 0)
            CHECK_STR(clean, rows[i].clean);
    }
}

TAP_MAIN
