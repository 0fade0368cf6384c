#include "api/docker/frames.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "http/server.h"

enum {
    MULTIPLEXED_SINCE = 42,     /* of API version 1 */
    DETACH_INPUT_MAX = 1 << 20, /* bytes of one piece of input; a read takes fewer */
};

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

int docker_detach_parse(const char *text, bool tty, struct docker_detach *ret, struct err *err)
{
    static const char usual[] = "ctrl-p,ctrl-q";
    struct keys k = {.count = 0};

    if (text == NULL || text[0] == '\0')
        text = usual;
    if (keys_parse(text, &k) < 0)
        return err_set(err, -EINVAL, "Invalid detach keys (%.64s) provided", text);
    if (!tty)
        k.count = 0;
    *ret = (struct docker_detach){.keys = k, .out = BUF_INIT(DETACH_INPUT_MAX)};
    return 0;
}

void docker_detach_done(struct docker_detach *d)
{
    buf_done(&d->out);
}

int docker_detach_filter(struct docker_detach *d, const char *data, size_t len, const char **ret,
                         size_t *ret_len)
{
    static const char room[KEYS_MAX];
    bool found;

    *ret = data;
    *ret_len = len;
    if (d->keys.count == 0)
        return 0;
    d->out.len = 0;
    if (buf_append(&d->out, data, len) < 0 || buf_append(&d->out, room, sizeof(room)) < 0)
        return -ENOMEM;
    found = keys_filter(&d->keys, data, len, d->out.data, ret_len);
    *ret = d->out.data;
    return found ? 1 : 0;
}
