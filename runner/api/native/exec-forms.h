#pragma once

/* The forms in which an exec is answered; one file each. Shared by the exec-*.c files only. */

#include "api/native/exec-body.h"

struct err;
struct exec;
struct http_request;
struct sandbox;

/* End of a message: the sandbox's output cannot be attached to. */
#define NATIVE_LOGGED                                                                              \
    "its output goes to its log (rind logs); attach, tty or stdin in its spec would make it one "  \
    "to attach to"

/* Each starts an exec by body and takes over the request (and ends it), or returns a negative
 * errno with the request unchanged. The caller keeps body and may free it at once. */
int exec_buffered(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                  struct err *err);
int exec_events(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err);
int exec_stream(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err);
/* Answers when the process runs; the exec is kept. */
int exec_detached(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                  struct err *err);
/* Attaches to a kept exec, with events. */
int exec_attach_events(struct http_request *req, struct exec *e, struct err *err);
/* As a stream. own: the exec is killed if its client leaves without DETACH. */
int exec_attach_stream(struct http_request *req, struct exec *e, bool own, struct err *err);

/* Attaches to a sandbox's main process as a stream. It ends when the sandbox has stopped, or is
 * removed if that follows, and the last frame also tells whether memory ran out. own: the
 * sandbox is removed if its client leaves without DETACH. Takes over the request, or fails like
 * the functions above. */
int exec_main_attach(struct http_request *req, struct sandbox *s, bool own, struct err *err);
/* Like exec_main_attach, for a starting sandbox: called from the callback that reports that it
 * runs. */
int exec_main_take(struct http_request *req, struct sandbox *s, bool own, struct err *err);

/* Answers a failed start: 400 for a mistake of the caller, whatever the errno. exit_code 126 and
 * 127 are reported. */
void exec_reply_failed(struct http_request *req, const struct err *err, int exit_code);
/* Milliseconds since `began` (uv_hrtime). */
int64_t exec_duration(uint64_t began);

/* ---- frames of the stream form ---- */

/* Both directions of an upgraded connection (Upgrade: rind-exec) consist of frames:
 *
 *     offset  size
 *     0       1     type
 *     1       3     zero
 *     4       4     length of the payload, big-endian
 *     8             payload */
enum exec_frame {
    EXEC_FRAME_STDIN = 0,  /* to the process; any bytes */
    EXEC_FRAME_STDOUT = 1, /* from the process; all output if on a terminal */
    EXEC_FRAME_STDERR = 2,
    EXEC_FRAME_EXIT = 3,         /* JSON; the last frame */
    EXEC_FRAME_ERROR = 4,        /* JSON; the last frame */
    EXEC_FRAME_STDIN_CLOSE = 5,  /* empty; a terminal gets an end-of-file character */
    EXEC_FRAME_RESIZE = 6,       /* rows and columns, two bytes each, big-endian */
    EXEC_FRAME_SIGNAL = 7,       /* a signal's name or number, as text */
    EXEC_FRAME_DETACH = 8,       /* empty; the client leaves, and the process or sandbox
                                  * continues */
    EXEC_FRAME_OUTPUT_CLOSE = 9, /* one byte, 1 or 2: the client reads no more of stdout or
                                  * stderr */
};

enum {
    EXEC_FRAME_HEAD = 8,       /* bytes */
    EXEC_FRAME_MAX = 16 << 20, /* bytes of a payload for the process */
    EXEC_FRAME_SMALL = 32,     /* bytes of a payload other than stdin */
};

/* Parser state of a client's frames; zeroed before the first byte. */
struct exec_frames {
    unsigned char head[EXEC_FRAME_HEAD];
    size_t head_len;
    uint32_t left; /* of the payload */
    unsigned char small[EXEC_FRAME_SMALL + 1];
    size_t small_len;
};

struct exec_frame_ops {
    void (*input)(void *data, const char *bytes, size_t len);
    void (*input_end)(void *data);
    void (*resize)(void *data, uint16_t rows, uint16_t cols);
    void (*signal)(void *data, int signo);
    void (*detach)(void *data); /* may free the owner: f is not used afterwards */
    void (*output_close)(void *data, int stream);
};

/* Parses frames incrementally. -EPROTO: not a frame of a client; -EINVAL: unknown signal. Pure:
 * no connection, no I/O. */
int exec_frames_feed(struct exec_frames *f, const char *bytes, size_t len,
                     const struct exec_frame_ops *ops, void *data, struct err *err);
void exec_frame_head(unsigned char head[EXEC_FRAME_HEAD], enum exec_frame type, size_t len);
