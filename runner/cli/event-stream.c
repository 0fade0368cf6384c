/* The parser behind event-stream.h. */

#include "cli/event-stream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

void event_stream_begin(struct event_stream *s)
{
    *s = (struct event_stream){.line = BUF_INIT(EVENT_LINE_MAX), .data = BUF_INIT(EVENT_LINE_MAX)};
}

void event_stream_done(struct event_stream *s)
{
    buf_done(&s->line);
    buf_done(&s->data);
}

static int end_event(struct event_stream *s, event_fn *fn, void *data, struct err *err)
{
    int r = 0;

    if (s->has_data)
        r = fn(data, s->name, s->data.len > 0 ? s->data.data : "", s->data.len, err);
    s->has_data = 0;
    s->data.len = 0;
    s->name[0] = '\0';
    return r;
}

static void set_text(char text[EVENT_NAME_MAX], const char *value)
{
    (void)snprintf(text, EVENT_NAME_MAX, "%s", value);
}

/*
 * Parses one line, without its newline. A comment (the heartbeat) starts with ':' and is ignored.
 */
static int parse_line(struct event_stream *s, event_fn *fn, void *data, struct err *err)
{
    char *line = s->line.data, *value;
    int r = 0;

    if (s->line.len == 0)
        return end_event(s, fn, data, err);
    value = strchr(line, ':');
    if (value != NULL)
        *value++ = '\0';
    else
        value = line + s->line.len;
    if (*value == ' ')
        value++;
    if (strcmp(line, "event") == 0) {
        set_text(s->name, value);
    } else if (strcmp(line, "id") == 0) {
        set_text(s->id, value);
    } else if (strcmp(line, "data") == 0) {
        r = s->has_data ? buf_append(&s->data, "\n", 1) : 0;
        if (r == 0)
            r = buf_append(&s->data, value, s->line.len - (size_t)(value - line));
        s->has_data = 1;
    }
    s->line.len = 0;
    return r < 0 ? err_set(err, -EFBIG, "the daemon sent an event of more than %d bytes",
                           EVENT_LINE_MAX)
                 : 0;
}

int event_stream_feed(struct event_stream *s, const char *bytes, size_t len, event_fn *fn,
                      void *data, struct err *err)
{
    while (len > 0) {
        const char *end = memchr(bytes, '\n', len);
        size_t n = end != NULL ? (size_t)(end - bytes) : len;
        int r = buf_append(&s->line, bytes, n);

        if (r < 0)
            return err_set(err, -EFBIG, "the daemon sent a line of more than %d bytes",
                           EVENT_LINE_MAX);
        bytes += n;
        len -= n;
        if (end == NULL)
            break;
        bytes++;
        len--;
        if (s->line.len > 0 && s->line.data[s->line.len - 1] == '\r')
            s->line.data[--s->line.len] = '\0';
        r = parse_line(s, fn, data, err);
        if (r < 0)
            return r;
        s->line.len = 0;
    }
    return 0;
}
