/* The unpacker, the packer, and the codecs in one process, where the sanitizers see them. What they
 * make of hostile archives is tests/integ/test-rootfs-worker's to test. */

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "codec.h"
#include "pack.h"
#include "proto/rmtree.h"
#include "proto/tar.h"
#include "tap.h"
#include "tarball.h"
#include "unpack.h"

struct stream {
    uint8_t *bytes; /* owned */
    size_t len, cap;
};

static int gather(void *data, const void *bytes, size_t len, struct err *err)
{
    struct stream *s = data;

    if (s->len + len > s->cap) {
        s->cap = (s->len + len) * 2;
        s->bytes = realloc(s->bytes, s->cap);
        if (s->bytes == NULL)
            return err_errno(err, -ENOMEM, "test");
    }
    if (len > 0)
        (void)memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return 0;
}

struct lab {
    char top[32];
    int fd, opaque; /* owned */
};

static struct lab lab_make(void)
{
    struct lab l = {.top = "/tmp/rind-tree-XXXXXX"};

    CHECK(mkdtemp(l.top) != NULL);
    l.fd = open(l.top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    l.opaque = memfd_create("opaque", MFD_CLOEXEC);
    return l;
}

static void lab_done(struct lab *l)
{
    (void)close(l->fd);
    (void)close(l->opaque);
    CHECK_INT(rmtree_at(AT_FDCWD, l->top, 0), 0);
}

static struct tar_item *item(enum tar_kind kind, const char *name, const char *link)
{
    static struct tar_item i;

    (void)memset(&i, 0, sizeof(i));
    i.kind = kind;
    i.mode = kind == TAR_DIRECTORY ? 0755 : 0644;
    i.uid = geteuid();
    i.gid = getegid();
    i.mtime = 1000;
    i.mtime_ns = 5;
    (void)snprintf(i.name, sizeof(i.name), "%s", name);
    (void)snprintf(i.link, sizeof(i.link), "%s", link);
    return &i;
}

static void add(struct stream *s, struct tar_item *i, const char *data)
{
    static uint8_t head[TAR_HEAD_MAX];
    static const uint8_t zeros[TAR_BLOCK];
    ssize_t n;

    i->size = strlen(data);
    n = tar_put_item(head, i);
    CHECK(n > 0);
    (void)gather(s, head, (size_t)n, NULL);
    (void)gather(s, data, i->size, NULL);
    (void)gather(s, zeros, (TAR_BLOCK - i->size % TAR_BLOCK) % TAR_BLOCK, NULL);
}

static void add_end(struct stream *s)
{
    static const uint8_t zeros[TAR_RECORD + 2 * TAR_BLOCK];
    size_t len = (size_t)2 * TAR_BLOCK;

    (void)gather(s, zeros, len + (TAR_RECORD - (s->len + len) % TAR_RECORD) % TAR_RECORD, NULL);
}

/* In the order of names, as pack writes them. */
static struct stream sample(void)
{
    struct stream s = {.bytes = NULL};
    struct tar_item *i;
    char deep[512];

    add(&s, item(TAR_REGULAR, "a", ""), "contents of a");
    add(&s, item(TAR_DIRECTORY, "d", ""), "");
    add(&s, item(TAR_HARD_LINK, "d/a", "a"), "");
    add(&s, item(TAR_PIPE, "d/pipe", ""), "");
    i = item(TAR_SYMBOLIC, "d/to", "../../anywhere");
    i->mode = 0777;
    add(&s, i, "");
    (void)snprintf(deep, sizeof(deep), "%0200d", 7);
    add(&s, item(TAR_DIRECTORY, deep, ""), "");
    (void)snprintf(deep, sizeof(deep), "%0200d/%0199d", 7, 8);
    add(&s, item(TAR_REGULAR, deep, ""), "deep");
    i = item(TAR_REGULAR, "with", "");
    i->xattrs[0] = (struct tar_xattr){"user.one", "1", 1};
    i->xattrs[1] = (struct tar_xattr){"user.two", "", 0};
    i->xattr_count = 2;
    i->mtime = -3;
    add(&s, i, "");
    return s;
}

struct result {
    int code;
    struct unpack_result unpacked;
    struct err err;
    char entry[PATH_ROOM];
};

/* below: the layer below, or NULL. */
static struct result unpack_above(const struct lab *below, const struct lab *l, const void *bytes,
                                  size_t len, uint64_t files, uint64_t entries)
{
    const struct unpack_options o = {.tree_fd = l->fd,
                                     .opaque_fd = l->opaque,
                                     .parents = below != NULL ? &below->fd : NULL,
                                     .parent_count = below != NULL,
                                     .keep_owner = geteuid() != 0,
                                     .files = files,
                                     .entries = entries};
    struct result r = {.err = ERR_NONE};
    struct tarball t;

    r.code = tarball_open_memory(&t, bytes, len, &r.err);
    if (r.code == 0)
        r.code = tree_unpack(&t, &o, &r.unpacked, r.entry, &r.err);
    tarball_close(&t);
    return r;
}

static struct result unpack_bytes(const struct lab *l, const void *bytes, size_t len,
                                  uint64_t files, uint64_t entries)
{
    return unpack_above(NULL, l, bytes, len, files, entries);
}

static struct stream pack_lab(const struct lab *l, struct pack_result *ret)
{
    const struct pack_options o = {
        .tree_fd = l->fd, .sub = "", .prefix = "", .files = 1 << 20, .entries = 100};
    struct stream s = {.bytes = NULL};
    const struct pack_sink sink = {.data = &s, .bytes = gather};
    char entry[PATH_ROOM];
    struct err err = ERR_NONE;

    CHECK_INT(tree_pack(&o, &sink, ret, entry, &err), 0);
    CHECK_STR(err.msg, "");
    return s;
}

/* The sample's names come in another order than pack's; so the second stream is the reference. */
TEST(what_is_packed_unpacks_to_the_same_stream)
{
    struct stream first = sample(), second, third;
    struct lab a = lab_make(), b = lab_make();
    struct pack_result packed;
    struct result r;

    add_end(&first);
    r = unpack_bytes(&a, first.bytes, first.len, 1 << 20, 100);
    CHECK_STR(r.err.msg, "");
    CHECK_INT(r.code, 0);
    CHECK_INT(r.unpacked.entries, 8);
    second = pack_lab(&a, &packed);
    CHECK_INT(packed.entries, 8);
    r = unpack_bytes(&b, second.bytes, second.len, 1 << 20, 100);
    CHECK_INT(r.code, 0);
    third = pack_lab(&b, &packed);
    CHECK_INT(second.len, third.len);
    CHECK(second.len == third.len && memcmp(second.bytes, third.bytes, second.len) == 0);
    CHECK_INT(second.len, first.len);
    free(first.bytes);
    free(second.bytes);
    free(third.bytes);
    lab_done(&a);
    lab_done(&b);
}

TEST(a_stream_that_ends_early_is_an_error)
{
    struct stream s = sample();
    size_t full = s.len;

    add_end(&s);
    for (size_t len = 1; len < full; len += 97) {
        struct lab l = lab_make();
        struct result r = unpack_bytes(&l, s.bytes, len, 1 << 20, 100);

        /* Between two entries it may end, as older writers leave it. */
        if (len % TAR_BLOCK != 0 || r.code != 0) {
            CHECK_INT(r.code, -EBADMSG);
            CHECK(r.err.msg[0] != '\0');
        }
        lab_done(&l);
    }
    free(s.bytes);
}

TEST(limits_are_exact)
{
    static const struct {
        uint64_t files, entries;
        int code;
        const char *message;
    } rows[] = {
        {17, 8, 0, ""},
        {16, 8, -EFBIG, "files of more than 16 bytes"},
        {0, 8, -EFBIG, "files of more than 0 bytes"},
        {17, 7, -E2BIG, "more than 7 entries"},
        {17, 0, -E2BIG, "more than 0 entries"},
    };
    struct stream s = sample();

    add_end(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lab l = lab_make();
        struct result r = unpack_bytes(&l, s.bytes, s.len, rows[i].files, rows[i].entries);

        CHECK_INT(r.code, rows[i].code);
        CHECK_STR(r.err.msg, rows[i].message);
        lab_done(&l);
    }
    free(s.bytes);
}

TEST(opaque_directories_are_listed_while_they_are_there)
{
    struct stream s = {.bytes = NULL};
    struct lab l = lab_make();
    char text[64] = "";
    struct result r;

    add(&s, item(TAR_REGULAR, ".wh..wh..opq", ""), "");
    add(&s, item(TAR_REGULAR, "d/.wh..wh..opq", ""), "");
    add(&s, item(TAR_REGULAR, "e/f/.wh..wh..opq", ""), "");
    add(&s, item(TAR_REGULAR, "e", ""), "a file now");
    add_end(&s);
    r = unpack_bytes(&l, s.bytes, s.len, 100, 100);
    CHECK_INT(r.code, 0);
    CHECK_INT(pread(l.opaque, text, sizeof(text), 0), 4);
    CHECK(memcmp(text, ".\0d\0", 4) == 0);
    CHECK(r.unpacked.of_parents);
    free(s.bytes);
    lab_done(&l);
}

/* In a directory that gives its group on, modes are set once more: of a link that would be the mode
 * of what it leads to. */
TEST(a_link_that_is_copied_up_leaves_its_target_alone)
{
    struct lab below = lab_make(), l = lab_make();
    struct stream s = {.bytes = NULL};
    struct stat st = {.st_mode = 0};
    struct result r;
    struct tar_item *i;

    CHECK_INT(mkdirat(below.fd, "d", 0755), 0);
    CHECK_INT(symlinkat("file", below.fd, "d/link"), 0);
    CHECK_INT(symlinkat("nowhere", below.fd, "d/lost"), 0);
    i = item(TAR_DIRECTORY, "d", "");
    i->mode = 02755;
    add(&s, i, "");
    i = item(TAR_REGULAR, "d/file", "");
    i->mode = 0600;
    add(&s, i, "");
    add(&s, item(TAR_HARD_LINK, "one", "d/link"), "");
    add(&s, item(TAR_HARD_LINK, "two", "d/lost"), "");
    add_end(&s);
    r = unpack_above(&below, &l, s.bytes, s.len, 100, 100);
    CHECK_STR(r.err.msg, "");
    CHECK_INT(r.code, 0);
    CHECK_INT(fstatat(l.fd, "d/file", &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    CHECK_INT(fstatat(l.fd, "two", &st, AT_SYMLINK_NOFOLLOW), 0);
    CHECK(S_ISLNK(st.st_mode));
    free(s.bytes);
    lab_done(&l);
    lab_done(&below);
}

/* ---- codecs ---- */

static int file_of(const void *bytes, size_t len)
{
    int fd = memfd_create("in", MFD_CLOEXEC);

    CHECK_INT(write_all(fd, bytes, len), 0);
    CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static struct stream all_of(int fd)
{
    struct stream s = {.bytes = NULL};
    struct stat st;

    CHECK_INT(fstat(fd, &st), 0);
    s.len = (size_t)st.st_size;
    s.bytes = malloc(s.len + 1);
    CHECK_INT(pread(fd, s.bytes, s.len, 0), s.len);
    return s;
}

struct decoded {
    int code;
    struct err err;
    struct stream out;
    enum worker_compression kind;
};

static struct decoded decode(const void *bytes, size_t len)
{
    struct shown shown = {.packed = 0};
    struct decoded d = {.err = ERR_NONE};
    int in = file_of(bytes, len), out = memfd_create("out", MFD_CLOEXEC);

    d.code = codec_unpack(in, out, &shown, &d.kind, &d.err);
    d.out = all_of(out);
    (void)close(in);
    (void)close(out);
    CHECK(d.code < 0 || shown.packed == len);
    return d;
}

static struct stream encode(enum worker_compression kind, const void *bytes, size_t len)
{
    struct shown shown = {.packed = 0};
    int in = file_of(bytes, len), out = memfd_create("out", MFD_CLOEXEC);
    struct err err = ERR_NONE;
    struct stream s;

    CHECK_INT(codec_pack(kind, in, out, &shown, &err), 0);
    s = all_of(out);
    (void)close(in);
    (void)close(out);
    return s;
}

/* Half a megabyte that compresses somewhat. */
static uint8_t *text_of(size_t len)
{
    uint8_t *p = malloc(len);
    uint32_t x = 1;

    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)(x >> 28);
    }
    return p;
}

TEST(codecs_give_back_what_they_got)
{
    static const size_t sizes[] = {0, 1, 5, 511, 1 << 18, (1 << 19) + 3};
    uint8_t *text = text_of((1 << 19) + 3);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (unsigned kind = 0; kind < WORKER_COMPRESSION_MAX; kind++) {
            struct stream packed = encode((enum worker_compression)kind, text, sizes[i]);
            struct stream again = encode((enum worker_compression)kind, text, sizes[i]);
            struct decoded d = decode(packed.bytes, packed.len);

            CHECK_INT(d.code, 0);
            CHECK_INT(d.kind, kind);
            CHECK_INT(d.out.len, sizes[i]);
            CHECK(d.out.len != sizes[i] || memcmp(d.out.bytes, text, sizes[i]) == 0);
            CHECK(again.len == packed.len && memcmp(again.bytes, packed.bytes, packed.len) == 0);
            free(packed.bytes);
            free(again.bytes);
            free(d.out.bytes);
        }
    free(text);
}

TEST(compressed_streams_that_end_early)
{
    uint8_t *text = text_of(3000);

    for (unsigned kind = WORKER_GZIP; kind < WORKER_COMPRESSION_MAX; kind++) {
        struct stream packed = encode((enum worker_compression)kind, text, 3000);

        for (size_t len = 4; len < packed.len; len += 13) {
            struct decoded d = decode(packed.bytes, len);

            CHECK_INT(d.code, -EBADMSG);
            CHECK_STR(d.err.msg, kind == WORKER_GZIP ? "gzip: truncated" : "zstd: truncated");
            CHECK(d.out.len <= 3000);
            free(d.out.bytes);
        }
        free(packed.bytes);
    }
    free(text);
}

TEST(compressed_streams_in_pieces_and_with_something_behind)
{
    static const struct {
        enum worker_compression kind;
        const char *behind;
        size_t len;
        int code;
        const char *message;
    } rows[] = {
        {WORKER_GZIP, "\0\0\0\0\0\0", 6, 0, ""},
        {WORKER_GZIP, "\0\0x", 3, -EBADMSG, "gzip: something else behind its end"},
        {WORKER_GZIP, "x", 1, -EBADMSG, "gzip: something else behind its end"},
        {WORKER_GZIP, "\x1f", 1, -EBADMSG, "gzip: truncated"},
        {WORKER_ZSTD, "xxxxx", 5, -EBADMSG, "zstd: Unknown frame descriptor"},
        {WORKER_ZSTD, "\x50\x2a\x4d\x18\x02\0\0\0zz", 10, 0, ""}, /* a frame to skip */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stream packed = encode(rows[i].kind, "hello", 5),
                      more = encode(rows[i].kind, "!", 1);
        struct decoded d;

        (void)gather(&packed, more.bytes, more.len, NULL);
        (void)gather(&packed, rows[i].behind, rows[i].len, NULL);
        d = decode(packed.bytes, packed.len);
        CHECK_INT(d.code, rows[i].code);
        CHECK_STR(d.err.msg, rows[i].message);
        CHECK(d.out.len == 6 && memcmp(d.out.bytes, "hello!", 6) == 0);
        free(packed.bytes);
        free(more.bytes);
        free(d.out.bytes);
    }
}

TEST(other_compressions_are_named)
{
    static const struct {
        const char *magic, *name;
    } rows[] = {{"BZh91AY", "bzip2"},
                {"\xfd"
                 "7zXZ",
                 "xz"},
                {"PK\x03\x04", "zip"},
                {"\x04\x22\x4d\x18", "lz4"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct decoded d = decode(rows[i].magic, strlen(rows[i].magic));

        CHECK_INT(d.code, -EOPNOTSUPP);
        CHECK(strstr(d.err.msg, rows[i].name) != NULL);
        free(d.out.bytes);
    }
}

TAP_MAIN
