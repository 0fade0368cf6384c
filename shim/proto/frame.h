#pragma once

/*
 * The frames that sandbox-shim writes: encoded by the shim, decoded by the runner. Little-endian.
 *
 *   offset  size
 *   0       4     "SBXF"
 *   4       1     version, 1
 *   5       1     kind: 0 success, 1 file error, 2 data
 *   6       4     payload length
 *   10            payload
 *
 * success: no payload. file error: i32 errno (> 0), then 0 to 65536 bytes of UTF-8. data: the
 * command's payload.
 *
 * The decoder's input comes out of a sandbox, so every byte is hostile. It allocates for bytes that
 * have arrived, never for an announced length.
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
    FRAME_COUNT_SIZE = 4,      /* number of entries, before a directory listing */
    FRAME_ENTRY_HEAD_SIZE = 3, /* type and name length, before each name */
    FRAME_NAME_MAX = 65535,
};

enum frame_kind { FRAME_SUCCESS = 0, FRAME_ERROR = 1, FRAME_DATA = 2 };

/* Type codes of stat and read-directory. */
enum frame_type {
    FRAME_TYPE_FILE = 0,
    FRAME_TYPE_DIR = 1,
    FRAME_TYPE_SYMLINK = 2,
    FRAME_TYPE_BLOCK = 3,
    FRAME_TYPE_CHAR = 4,
    FRAME_TYPE_FIFO = 5,
    FRAME_TYPE_SOCKET = 6,
};

/* Times are in milliseconds since the epoch, rounded down. */
struct frame_stat {
    enum frame_type type;
    uint32_t mode; /* with the type bits */
    uint32_t uid, gid;
    uint64_t size;
    int64_t atime_ms, mtime_ms, ctime_ms;
};

/* ---- encode ---- */

void frame_put_header(uint8_t out[FRAME_HEADER_SIZE], enum frame_kind kind, uint32_t payload);

/* Encodes the whole frame of a file error. Returns its size, or -EINVAL (code <= 0), -EMSGSIZE
 * (text or cap). */
int frame_put_error(uint8_t *out, size_t cap, int code, const char *text);

/* The next three encode payloads only. */
void frame_put_stat(uint8_t out[FRAME_STAT_SIZE], const struct frame_stat *st);

void frame_put_count(uint8_t out[FRAME_COUNT_SIZE], uint32_t count);

/* Encodes one entry; out has room for FRAME_ENTRY_HEAD_SIZE + len bytes. Returns that sum. */
size_t frame_put_entry(uint8_t *out, enum frame_type type, const char *name, uint16_t len);

/* ---- decode a stream ---- */

/* The sequences of frames that a command may send. Any other frame is a protocol error. */
enum frame_stream {
    FRAME_STREAM_INVALID = 0,
    FRAME_STREAM_ACK,      /* success or error: mkdir, rename, remove */
    FRAME_STREAM_TRANSFER, /* error; or success, then success or error: read, write */
    FRAME_STREAM_DATA,     /* data or error: stat, lstat, read-directory */
    FRAME_STREAM_SESSION, /* any number of data; an error is the last: s3-mount, directory-backup */
    FRAME_STREAM_RECORDS, /* any number of data, then success; or error: rind's own commands */
    FRAME_STREAM_MAX,
};

/* A decoded frame. The pointers are into the decoder: valid until the next feed or done. */
struct frame {
    enum frame_kind kind;
    int code;         /* error: the shim's errno > 0, not range-checked further */
    const char *text; /* error: valid UTF-8, NUL-terminated; may contain NUL bytes */
    size_t text_len;
    const uint8_t *data; /* data: the payload */
    size_t len;
};

struct frame_decoder {
    const char *why; /* after a failure: what is wrong; static text */

    /* private */
    enum frame_stream stream;
    uint32_t max_data;
    uint8_t head[FRAME_HEADER_SIZE];
    size_t head_len;
    uint8_t *payload; /* owned */
    size_t want, have, cap;
    int place;  /* in the sequence: 0 before the first frame; -1 after the last */
    int failed; /* the error that every later call returns */
};

/* max_data limits the payload of a data frame. Never fails. */
void frame_decoder_init(struct frame_decoder *d, enum frame_stream stream, uint32_t max_data);
void frame_decoder_done(struct frame_decoder *d);

/*
 * Consumes bytes up to the end of one frame; *ret_used is their number. Returns 1 with a frame; 0
 * when it needs more (all bytes are consumed); -EPROTO for a stream that violates the protocol;
 * -EMSGSIZE for data beyond max_data; -ENOMEM. Bytes after the last frame are -EPROTO. An error is
 * final.
 */
int frame_feed(struct frame_decoder *d, const void *bytes, size_t len, size_t *ret_used,
               struct frame *ret);

/* Call it at EOF. Returns 0 if the stream may end there, else -EPROTO (or the earlier error). */
int frame_eof(struct frame_decoder *d);

/* ---- decode payloads ---- */

/* Returns 0, or -EPROTO with *reterr_why saying what is wrong (static text). */
int frame_get_stat(const void *payload, size_t len, struct frame_stat *ret,
                   const char **reterr_why);

struct frame_entry {
    enum frame_type type;
    uint16_t len;
    const char *name; /* valid UTF-8, not NUL-terminated; not empty, ".", ".."; no '/', no NUL */
};

struct frame_listing {
    uint32_t count; /* remaining entries */
    const uint8_t *at, *end;
};

/* Checks the whole listing before any of it is used; frame_listing_next() cannot fail then. */
int frame_get_listing(const void *payload, size_t len, struct frame_listing *ret,
                      const char **reterr_why);

/* Returns false at the end. */
bool frame_listing_next(struct frame_listing *l, struct frame_entry *ret);
