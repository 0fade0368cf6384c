#pragma once

/*
 * Docker's stream of a process without a terminal: pieces of stdout and stderr behind heads of
 * eight bytes (the stream, three zero bytes, the length, big-endian). A terminal's is raw.
 */

#include <stdbool.h>
#include <stddef.h>

struct http_request;

enum { DOCKER_FRAME_HEAD = 8, DOCKER_FRAME_MAX = 64 << 10 };

/* Sends bytes (at most DOCKER_FRAME_MAX) as one frame, or raw. Whether the client has room for
 * more. */
bool docker_send(struct http_request *req, bool raw, int stream, const void *bytes, size_t len);
/* The same of len bytes that a pipe holds (http_write_pipe). */
bool docker_send_pipe(struct http_request *req, bool raw, int stream, int pipe, size_t len);
/* The media type of such a stream, as this client's version of the API calls it. */
const char *docker_stream_type(const struct http_request *req, bool raw);
/* Upgrades to it: 101 where the client asks for one, else 200. */
void docker_upgrade(struct http_request *req, bool raw,
                    void (*on_body)(struct http_request *req, const char *data, size_t len));
