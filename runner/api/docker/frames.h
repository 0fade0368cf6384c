#pragma once

/* Docker's output stream of a process without terminal: pieces of stdout and stderr, each behind
 * a head of eight bytes (the stream, three zero bytes, the length, big-endian). A terminal's
 * stream is raw. */

#include <stdbool.h>
#include <stddef.h>

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
