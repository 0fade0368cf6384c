#include "api/docker/frames.h"

#include <string.h>

#include "base/number.h"
#include "http/server.h"

enum { MULTIPLEXED_SINCE = 42 /* of API version 1 */ };

static void frame_make_head(unsigned char head[DOCKER_FRAME_HEAD], int stream, size_t len)
{
    (void)memset(head, 0, DOCKER_FRAME_HEAD);
    head[0] = (unsigned char)stream;
    for (int i = 0; i < 4; i++)
        head[4 + i] = (unsigned char)(len >> (24 - 8 * i));
}

bool docker_send(struct http_request *req, bool raw, int stream, const void *bytes, size_t len)
{
    /* Head and payload in one write. static: the loop has one thread. */
    static unsigned char frame[DOCKER_FRAME_HEAD + DOCKER_FRAME_MAX];

    if (raw)
        return !http_write(req, bytes, len);
    frame_make_head(frame, stream, len);
    if (len > 0)
        (void)memcpy(frame + DOCKER_FRAME_HEAD, bytes, len);
    return !http_write(req, frame, DOCKER_FRAME_HEAD + len);
}

bool docker_send_pipe(struct http_request *req, bool raw, int stream, int pipe, size_t len)
{
    unsigned char head[DOCKER_FRAME_HEAD];

    frame_make_head(head, stream, len);
    if (!raw)
        (void)http_write(req, head, sizeof(head));
    return !http_write_pipe(req, pipe, len);
}

const char *docker_stream_type(const struct http_request *req, bool raw)
{
    const char *minor = req->version != NULL ? strchr(req->version, '.') : NULL;

    /* docker_admit has validated it. */
    if (raw || (minor != NULL && number_whole(minor + 1, NUMBER_DIGITS_MAX) < MULTIPLEXED_SINCE))
        return "application/vnd.docker.raw-stream";
    return "application/vnd.docker.multiplexed-stream";
}

void docker_upgrade(struct http_request *req, bool raw,
                    void (*on_body)(struct http_request *req, const char *data, size_t len))
{
    const struct http_header headers[] = {{"Content-Type", docker_stream_type(req, raw)},
                                          {NULL, NULL}};

    http_upgrade(req, req->upgrade ? "tcp" : NULL, headers, on_body);
    http_wait_for_head(req);
}
