/* The reconnecting reader behind follow.h. */

#include "cli/follow.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/client.h"
#include "cli/remote.h"

enum { AGAIN_MS = 30000, AGAIN_PAUSE_MS = 50 };

/* Reads one connection to its end. *ret_any: the daemon has replied. */
static int follow_once(const struct remote *r, const char *target, struct event_stream *s,
                       event_fn *fn, void *data, bool *ret_any, struct err *err)
{
    const struct client_request request = {.method = "GET",
                                           .target = target,
                                           .last_id = s->id[0] != '\0' ? s->id : NULL,
                                           .flags = CLIENT_EVENTS};
    auto_client struct client *c = NULL;
    char bytes[CLIENT_PIECE_MAX];
    ssize_t n = 0;
    int code = remote_open(r, &c, err);

    if (code == 0)
        code = client_send(c, &request, err);
    if (code == 0)
        code = client_head(c, err);
    *ret_any = code == 0;
    while (code == 0 && (n = client_read(c, bytes, sizeof(bytes), err)) > 0)
        code = event_stream_feed(s, bytes, (size_t)n, fn, data, err);
    return code < 0 ? code : (int)n;
}

/* Drops an incomplete event; the daemon sends it again. */
static void forget_half(struct event_stream *s)
{
    s->line.len = s->data.len = 0;
    s->has_data = 0;
    s->name[0] = '\0';
}

int follow(const struct remote *r, const char *target, const char *last_id, event_fn *fn,
           void *data, struct err *err)
{
    struct event_stream s;
    int64_t end = 0;
    bool began = false, any = false;
    int code;

    event_stream_begin(&s);
    if (last_id != NULL)
        (void)snprintf(s.id, sizeof(s.id), "%s", last_id);
    for (;;) {
        code = follow_once(r, target, &s, fn, data, &any, err);
        began |= any;
        if (any)
            end = clock_mono_ms() + AGAIN_MS;
        if (code == FOLLOW_END)
            code = 0;
        /*
         * Retries only after an earlier success: a daemon that was never there is not restarting.
         */
        if (code == 0 || !began || clock_mono_ms() >= end ||
            (!client_is_lost(code) && code != -ENOENT && code != -ECONNREFUSED) ||
            (code == -ENOENT && any))
            break;
        forget_half(&s);
        (void)poll(NULL, 0, AGAIN_PAUSE_MS);
    }
    event_stream_done(&s);
    return code;
}
