#pragma once

/* Docker's output stream of a process without terminal: pieces of stdout and stderr, each behind
 * a head of eight bytes (the stream, three zero bytes, the length, big-endian). A terminal's
 * stream is raw. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/detach-keys.h"

struct err;
struct http_request;

enum { DOCKER_FRAME_HEAD = 8, DOCKER_FRAME_MAX = 64 << 10 };

/* Sends bytes (at most DOCKER_FRAME_MAX) as one frame, or raw. False: the client's queue is
 * full, on_drain follows. */
bool docker_send(struct http_request *req, bool raw, int stream, const void *bytes, size_t len);
/* Like docker_send, for len bytes held by a pipe (http_write_pipe). */
bool docker_send_pipe(struct http_request *req, bool raw, int stream, int pipe, size_t len);
/* Returns the stream's media type in this client's version of the API. */
const char *docker_stream_type(const struct http_request *req, bool raw);
/* Upgrades to such a stream: 101 if the client requests an upgrade, else 200. */
void docker_upgrade(struct http_request *req, bool raw,
                    void (*on_body)(struct http_request *req, const char *data, size_t len));

/* The detach keys of a client's input to a terminal, as Docker's server finds them. */
struct docker_detach {
    struct keys keys; /* count 0: none are looked for */
    struct buf out;   /* owned; docker_detach_done */
};
void docker_detach_done(struct docker_detach *d);
/* text: the parameter detachKeys; NULL or "": ctrl-p,ctrl-q. tty false: none. -EINVAL. */
int docker_detach_parse(const char *text, bool tty, struct docker_detach *ret, struct err *err);
/* Searches a piece of input. *ret: the bytes to pass on, valid until the next call; data itself if
 * no keys are looked for. 1: the keys are complete, and the client is to be detached after these;
 * 0; -ENOMEM. */
int docker_detach_filter(struct docker_detach *d, const char *data, size_t len, const char **ret,
                         size_t *ret_len);
