#pragma once

/*
 * The frames that sandbox-shim answers with: encoded by the shim, decoded by the runner.
 * Little-endian.
 *
 *   offset  size
 *   0       4     "SBXF"
 *   4       1     version, 1
 *   5       1     kind: 0 success, 1 file error, 2 data
 *   6       4     payload length
 *   10            payload
 *
 * success: no payload. file error: i32 errno (> 0), then 0 to 65536 bytes of UTF-8. data: what the
 * command says.
 *
 * The bytes that the decoder reads come out of a sandbox: each of them is hostile. It allocates for
 * what has arrived, never for what a header announces.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER_SIZE = 10,
    FRAME_VERSION = 1,
    FRAME_CODE_SIZE = 4,
    FRAME_TEXT_MAX = 65536, /* text of a file error */
    FRAME_STAT_SIZE = 45,
    FRAME_COUNT_SIZE = 4,      /* number of entries, in front of a directory listing */
    FRAME_ENTRY_HEAD_SIZE = 3, /* type and name length, in front of each name */
    FRAME_NAME_MAX = 65535,
};

enum frame_kind { FRAME_SUCCESS = 0, FRAME_ERROR = 1, FRAME_DATA = 2 };

/* The type codes of stat and read-directory. */
enum frame_type {
    FRAME_TYPE_FILE = 0,
    FRAME_TYPE_DIR = 1,
    FRAME_TYPE_SYMLINK = 2,
    FRAME_TYPE_BLOCK = 3,
    FRAME_TYPE_CHAR = 4,
    FRAME_TYPE_FIFO = 5,
    FRAME_TYPE_SOCKET = 6,
};

/* Times are milliseconds since the epoch, floored. */
struct frame_stat {
    enum frame_type type;
    uint32_t mode; /* with the type bits */
    uint32_t uid, gid;
    uint64_t size;
    int64_t atime_ms, mtime_ms, ctime_ms;
};

/* ---- encode ---- */

void frame_put_header(uint8_t out[FRAME_HEADER_SIZE], enum frame_kind kind, uint32_t payload);

/* The whole frame of a file error. Returns its size, or -EINVAL (code <= 0), -EMSGSIZE (text or
 * cap). */
int frame_put_error(uint8_t *out, size_t cap, int code, const char *text);

/* The payload only, as the next two. */
void frame_put_stat(uint8_t out[FRAME_STAT_SIZE], const struct frame_stat *st);

void frame_put_count(uint8_t out[FRAME_COUNT_SIZE], uint32_t count);

/* One entry; out has room for FRAME_ENTRY_HEAD_SIZE + len bytes. Returns that sum. */
size_t frame_put_entry(uint8_t *out, enum frame_type type, const char *name, uint16_t len);

/* ---- decode a stream ---- */

/* The sequences of frames that a command may send. Whatever else arrives is a protocol error. */
enum frame_stream {
    FRAME_STREAM_INVALID = 0,
    FRAME_STREAM_ACK,      /* success or error: mkdir, rename, remove */
    FRAME_STREAM_TRANSFER, /* error; or success, then success or error: read, write */
    FRAME_STREAM_DATA,     /* data or error: stat, lstat, read-directory */
    FRAME_STREAM_SESSION,  /* data, any number; an error is the last: s3-mount, directory-backup */
    FRAME_STREAM_RECORDS,  /* data, any number, then success; or error: rind's own commands */
    FRAME_STREAM_MAX,
};

/* A decoded frame. The pointers are into the decoder: valid until it is fed again or done. */
struct frame {
    enum frame_kind kind;
    int code;         /* error: errno > 0 as the shim sent it, not range-checked further */
    const char *text; /* error: valid UTF-8, NUL-terminated (and may hold NUL bytes before that) */
    size_t text_len;
    const uint8_t *data; /* data: the payload */
    size_t len;
};

struct frame_decoder {
    const char *why; /* after a failure: what is wrong with the stream; static text */

    /* private */
    enum frame_stream stream;
    uint32_t max_data;
    uint8_t head[FRAME_HEADER_SIZE];
    size_t head_len;
    uint8_t *payload; /* owned */
    size_t want, have, cap;
    int place;  /* in the sequence: 0 before the first frame; -1 behind the last */
    int failed; /* the error that every later call returns */
};

/* max_data bounds the payload of a data frame. Never fails. */
void frame_decoder_init(struct frame_decoder *d, enum frame_stream stream, uint32_t max_data);
void frame_decoder_done(struct frame_decoder *d);

/*
 * Eats bytes up to the end of one frame; *ret_used says how many. Returns 1 with a frame, 0 when it
 * needs more (all bytes are used), -EPROTO for a stream that breaks the protocol, -EMSGSIZE for
 * data beyond max_data, -ENOMEM. Bytes behind the last frame are -EPROTO. An error is final.
 */
int frame_feed(struct frame_decoder *d, const void *bytes, size_t len, size_t *ret_used,
               struct frame *ret);

/* The stream has ended. 0 when that is where it may end, else -EPROTO (or the earlier error). */
int frame_eof(struct frame_decoder *d);

/* ---- decode payloads ---- */

/* -EPROTO, and *reterr_why says what is wrong: static text. */
int frame_get_stat(const void *payload, size_t len, struct frame_stat *ret,
                   const char **reterr_why);

struct frame_entry {
    enum frame_type type;
    uint16_t len;
    const char *name; /* valid UTF-8, not terminated; not empty, ".", "..", no '/' and no NUL */
};

struct frame_listing {
    uint32_t count; /* entries that are still to come */
    const uint8_t *at, *end;
};

/* Checks the whole listing before anything of it is used; then frame_listing_next() cannot fail. */
int frame_get_listing(const void *payload, size_t len, struct frame_listing *ret,
                      const char **reterr_why);

/* false at the end. */
bool frame_listing_next(struct frame_listing *l, struct frame_entry *ret);
