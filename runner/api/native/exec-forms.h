#pragma once

/* The forms in which an exec is answered; one file each. Shared by the exec-*.c files only. */

#include "api/native/exec-body.h"

struct err;
struct exec;
struct http_request;
struct sandbox;

/* Why there is nothing to attach to: the end of a message about a sandbox. */
#define NATIVE_LOGGED                                                                              \
    "its output goes to its log (rind logs); attach, tty or stdin in its spec would make it one "  \
    "to attach to"

/*
 * Each starts what body asks for and takes the request over (it will be ended), or returns a
 * negative errno with the request untouched. body stays the caller's, and may be freed at once.
 */
int exec_buffered(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                  struct err *err);
int exec_events(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err);
int exec_stream(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                struct err *err);
/* Answered once it runs; it is kept. */
int exec_detached(struct http_request *req, struct sandbox *s, const struct exec_body *body,
                  struct err *err);
/* The same for one that was kept. */
int exec_attach_events(struct http_request *req, struct exec *e, struct err *err);
/* own: the exec is killed when its client leaves without a DETACH. */
int exec_attach_stream(struct http_request *req, struct exec *e, bool own, struct err *err);

/*
 * A sandbox's main process as a stream. It ends with the sandbox's stop, or removal where that
 * follows, and its last frame also says whether memory ran out. own: the sandbox is removed when
 * its client leaves without a DETACH. Takes the request over, or fails as above.
 */
int exec_main_attach(struct http_request *req, struct sandbox *s, bool own, struct err *err);
/* The same for one that is being started: from within the callback that says that it runs. */
int exec_main_take(struct http_request *req, struct sandbox *s, bool own, struct err *err);

/* Answers a start that failed: 400 for what is the caller's mistake, whatever the errno. exit_code:
 * 126 and 127 are told. */
void exec_reply_failed(struct http_request *req, const struct err *err, int exit_code);
/* Milliseconds since `began` (uv_hrtime). */
int64_t exec_duration(uint64_t began);

/* ---- frames of the stream form ---- */

/*
 * Both directions of an upgraded connection (Upgrade: rind-exec) are frames:
 *
 *     offset  size
 *     0       1     type
 *     1       3     zero
 *     4       4     length of the payload, big-endian
 *     8             payload
 */
enum exec_frame {
    EXEC_FRAME_STDIN = 0,  /* to the process; any bytes */
    EXEC_FRAME_STDOUT = 1, /* from it; of a terminal all output */
    EXEC_FRAME_STDERR = 2,
    EXEC_FRAME_EXIT = 3,         /* JSON; the last frame */
    EXEC_FRAME_ERROR = 4,        /* JSON; the last frame */
    EXEC_FRAME_STDIN_CLOSE = 5,  /* empty; a terminal gets an end-of-file character */
    EXEC_FRAME_RESIZE = 6,       /* rows and columns, two bytes each, big-endian */
    EXEC_FRAME_SIGNAL = 7,       /* a signal's name or number, as text */
    EXEC_FRAME_DETACH = 8,       /* empty; the client leaves, and what it owns goes on */
    EXEC_FRAME_OUTPUT_CLOSE = 9, /* one byte, 1 or 2: nobody reads stdout or stderr any more */
};

enum {
    EXEC_FRAME_HEAD = 8,       /* bytes */
    EXEC_FRAME_MAX = 16 << 20, /* bytes of a payload to the process */
    EXEC_FRAME_SMALL = 32,     /* bytes of a payload that is no stdin */
};

/* What a client has sent so far; zeroed before the first byte. */
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
    void (*detach)(void *data); /* may be the end: nothing of f is used after it */
    void (*output_close)(void *data, int stream);
};

/* Takes bytes as they come. -EPROTO for what is no frame of a client's; -EINVAL for a signal that
 * is none. Pure: exec-frames.c knows no connection. */
int exec_frames_feed(struct exec_frames *f, const char *bytes, size_t len,
                     const struct exec_frame_ops *ops, void *data, struct err *err);
void exec_frame_head(unsigned char head[EXEC_FRAME_HEAD], enum exec_frame type, size_t len);
