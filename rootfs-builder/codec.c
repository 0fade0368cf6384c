#include "codec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"

enum {
    CHUNK = 1 << 18,
    MAGIC = 4,
    GZIP_WINDOW = 15 + 16, /* zlib: a 32 KiB window, and gzip's header */
    GZIP_LEVEL = 6,
    ZSTD_LEVEL = 3,
};

struct codec {
    int in, out; /* borrowed */
    struct shown *shown;
    uint8_t *buf; /* owned: CHUNK bytes of input, CHUNK of output */
    size_t at, len;
    bool eof;
};

static int codec_init(struct codec *c, struct err *err)
{
    c->buf = malloc((size_t)2 * CHUNK);
    return c->buf == NULL ? err_errno(err, -ENOMEM, "a buffer") : 0;
}

static ssize_t read_some(int fd, void *buf, size_t len)
{
    ssize_t n;

    do
        n = read(fd, buf, len);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* Reads more input when all of it is used. */
static int codec_refill(struct codec *c, struct err *err)
{
    ssize_t n;

    if (c->at < c->len || c->eof)
        return 0;
    n = read_some(c->in, c->buf, CHUNK);
    if (n < 0)
        return err_errno(err, (int)n, "read the archive");
    c->at = 0;
    c->len = (size_t)n;
    c->eof = n == 0;
    c->shown->packed += (uint64_t)n;
    return 0;
}

static int codec_write(struct codec *c, const void *data, size_t len, struct err *err)
{
    int r = write_all(c->out, data, len);

    return r < 0 ? err_errno(err, r, "pass bytes on") : 0;
}

/* ---- plain ---- */

static int copy_by_hand(struct codec *c, struct err *err)
{
    int r = 0;

    while (r == 0 && !c->eof) {
        r = codec_refill(c, err);
        if (r == 0)
            r = codec_write(c, c->buf + c->at, c->len - c->at, err);
        c->at = c->len;
    }
    return r;
}

/* Passes pages on with splice, without copying, if the kernel can. */
static int copy_plain(struct codec *c, struct err *err)
{
    int r = codec_write(c, c->buf + c->at, c->len - c->at, err);

    c->at = c->len;
    while (r == 0 && !c->eof) {
        ssize_t n = splice(c->in, NULL, c->out, NULL, (size_t)CHUNK * 4, SPLICE_F_MOVE);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL)
            return copy_by_hand(c, err);
        if (n < 0)
            return err_errno(err, -errno, "pass bytes on");
        c->eof = n == 0;
        c->shown->packed += (uint64_t)n;
    }
    return r;
}

/* ---- gzip ---- */

/* After a member comes another one, EOF, or the zeros that some writers pad blocks with. Returns 1
 * for another member. */
static int next_member(struct codec *c, struct err *err)
{
    int r = codec_refill(c, err);

    if (r < 0 || c->eof)
        return r;
    if (c->buf[c->at] == 0x1f)
        return 1;
    while (r == 0 && !c->eof) {
        for (; c->at < c->len; c->at++)
            if (c->buf[c->at] != 0)
                return err_set(err, -EBADMSG, "gzip: something else behind its end");
        r = codec_refill(c, err);
    }
    return r;
}

static int inflate_some(struct codec *c, z_stream *z, struct err *err)
{
    int status, r;

    r = codec_refill(c, err);
    if (r < 0)
        return r;
    if (c->eof)
        return err_set(err, -EBADMSG, "gzip: truncated");
    z->next_in = c->buf + c->at;
    z->avail_in = (uInt)(c->len - c->at);
    z->next_out = c->buf + CHUNK;
    z->avail_out = CHUNK;
    status = inflate(z, Z_NO_FLUSH);
    c->at = c->len - z->avail_in;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return err_set(err, -EBADMSG, "gzip: %s", z->msg != NULL ? z->msg : "broken");
    r = codec_write(c, c->buf + CHUNK, CHUNK - z->avail_out, err);
    if (r < 0 || status != Z_STREAM_END)
        return r < 0 ? r : 1;
    r = next_member(c, err);
    if (r > 0)
        (void)inflateReset(z);
    return r;
}

static int unpack_gzip(struct codec *c, struct err *err)
{
    z_stream z = {.next_in = NULL};
    int r;

    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
        return err_errno(err, -ENOMEM, "gzip");
    do
        r = inflate_some(c, &z, err);
    while (r > 0);
    (void)inflateEnd(&z);
    return r;
}

/* ---- zstd ---- */

/* One step; *open: a frame has begun and not ended. */
static int decompress_some(struct codec *c, ZSTD_DCtx *z, bool *open, struct err *err)
{
    ZSTD_outBuffer out = {c->buf + CHUNK, CHUNK, 0};
    ZSTD_inBuffer in;
    size_t left;

    int r = codec_refill(c, err);
    if (r < 0)
        return r;
    if (c->eof)
        return *open ? err_set(err, -EBADMSG, "zstd: truncated") : 0;
    in = (ZSTD_inBuffer){c->buf, c->len, c->at};
    left = ZSTD_decompressStream(z, &out, &in);
    c->at = in.pos;
    if (ZSTD_isError(left))
        return err_set(err, -EBADMSG, "zstd: %s", ZSTD_getErrorName(left));
    *open = left > 0;
    r = codec_write(c, out.dst, out.pos, err);
    return r < 0 ? r : 1;
}

static int unpack_zstd(struct codec *c, struct err *err)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    bool open = false;
    int r;

    if (z == NULL)
        return err_errno(err, -ENOMEM, "zstd");
    (void)ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WORKER_WINDOW_LOG_MAX);
    do
        r = decompress_some(c, z, &open, err);
    while (r > 0);
    (void)ZSTD_freeDCtx(z);
    return r;
}

/* ---- detecting the format ---- */

static bool is_zstd(const uint8_t *m)
{
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd};
    /* A skippable frame may come first. */
    static const uint8_t skippable[] = {0x2a, 0x4d, 0x18};

    return memcmp(m, frame, MAGIC) == 0 ||
           ((m[0] & 0xf0) == 0x50 && memcmp(m + 1, skippable, sizeof(skippable)) == 0);
}

/* Reads the first bytes, which may arrive one by one. */
static int read_magic(struct codec *c, struct err *err)
{
    while (c->len < MAGIC) {
        ssize_t n = read_some(c->in, c->buf + c->len, CHUNK - c->len);

        if (n < 0)
            return err_errno(err, (int)n, "read the archive");
        if (n == 0)
            break;
        c->len += (size_t)n;
    }
    c->shown->packed = c->len;
    return 0;
}

/* Returns the name of an unsupported format, for the error message, or NULL. */
static const char *foreign_format(const uint8_t *m, size_t len)
{
    static const struct {
        const char *name, *magic;
    } kinds[] = {{"bzip2", "BZh"},
                 {"xz", "\xfd"
                        "7zX"},
                 {"lz4", "\x04\x22\x4d\x18"},
                 {"zip", "PK\x03\x04"}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (len >= strlen(kinds[i].magic) && memcmp(m, kinds[i].magic, strlen(kinds[i].magic)) == 0)
            return kinds[i].name;
    return NULL;
}

static int unpack_by_magic(struct codec *c, enum worker_compression *ret, struct err *err)
{
    const char *name = foreign_format(c->buf, c->len);

    if (name != NULL)
        return err_set(err, -EOPNOTSUPP, "compressed by %s; gzip, zstd and plain can be read",
                       name);
    *ret = WORKER_PLAIN;
    if (c->len >= MAGIC && is_zstd(c->buf))
        *ret = WORKER_ZSTD;
    else if (c->len >= MAGIC && c->buf[0] == 0x1f && c->buf[1] == 0x8b)
        *ret = WORKER_GZIP;
    if (*ret == WORKER_ZSTD)
        return unpack_zstd(c, err);
    return *ret == WORKER_GZIP ? unpack_gzip(c, err) : copy_plain(c, err);
}

int codec_unpack(int in, int out, struct shown *shown, enum worker_compression *ret,
                 struct err *err)
{
    struct codec c = {.in = in, .out = out, .shown = shown};
    int r = codec_init(&c, err);

    if (r == 0)
        r = read_magic(&c, err);
    if (r == 0)
        r = unpack_by_magic(&c, ret, err);
    free(c.buf);
    return r;
}

/* ---- packing ---- */

static int pack_gzip(struct codec *c, struct err *err)
{
    z_stream z = {.next_in = NULL};
    int r = 0, status = Z_OK;

    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return err_errno(err, -ENOMEM, "gzip");
    while (r == 0 && status != Z_STREAM_END) {
        r = codec_refill(c, err);
        z.next_in = c->buf + c->at;
        z.avail_in = (uInt)(c->len - c->at);
        z.next_out = c->buf + CHUNK;
        z.avail_out = CHUNK;
        status = r == 0 ? deflate(&z, c->eof ? Z_FINISH : Z_NO_FLUSH) : status;
        c->at = c->len - z.avail_in;
        if (r == 0)
            r = codec_write(c, c->buf + CHUNK, CHUNK - z.avail_out, err);
    }
    (void)deflateEnd(&z);
    return r;
}

static int pack_zstd(struct codec *c, struct err *err)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();
    size_t left = 1;
    int r = 0;

    if (z == NULL)
        return err_errno(err, -ENOMEM, "zstd");
    (void)ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    (void)ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    while (r == 0 && !(c->eof && left == 0)) {
        ZSTD_outBuffer out = {c->buf + CHUNK, CHUNK, 0};
        ZSTD_inBuffer in;

        r = codec_refill(c, err);
        if (r < 0)
            break;
        in = (ZSTD_inBuffer){c->buf, c->len, c->at};
        left = ZSTD_compressStream2(z, &out, &in, c->eof ? ZSTD_e_end : ZSTD_e_continue);
        c->at = in.pos;
        r = ZSTD_isError(left) ? err_set(err, -EIO, "zstd: %s", ZSTD_getErrorName(left))
                               : codec_write(c, out.dst, out.pos, err);
    }
    (void)ZSTD_freeCCtx(z);
    return r;
}

int codec_pack(enum worker_compression kind, int in, int out, struct shown *shown, struct err *err)
{
    struct codec c = {.in = in, .out = out, .shown = shown};
    int r = codec_init(&c, err);

    if (r == 0 && kind == WORKER_GZIP)
        r = pack_gzip(&c, err);
    else if (r == 0 && kind == WORKER_ZSTD)
        r = pack_zstd(&c, err);
    else if (r == 0)
        r = copy_plain(&c, err);
    free(c.buf);
    return r;
}
