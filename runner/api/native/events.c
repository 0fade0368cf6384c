/* GET /v1/events: events as server-sent events, optionally after a given id. */

#include "sandbox/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/common.h"
#include "base/auto.h"
#include "base/buf.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "http/route.h"
#include "http/sse.h"
#include "json/parse.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum {
    /* All stored events can be queued: EVENTS_MAX of at most 768 bytes. */
    EVENTS_QUEUE_MAX = EVENTS_MAX * 768,
};

struct native_events_query {
    int64_t since;
    const char *sandbox;
    struct query_list types;
};

static const struct query_field fields[] = {
    {.name = "since",
     .type = QUERY_INT,
     .off = offsetof(struct native_events_query, since),
     .max = INT64_MAX},
    {.name = "sandbox",
     .type = QUERY_STRING,
     .off = offsetof(struct native_events_query, sandbox),
     .min = 1,
     .max = API_ID_MAX},
    {.name = "type", .type = QUERY_LIST, .off = offsetof(struct native_events_query, types)},
    {0},
};

/* A reader. Frees itself when its client is gone or too slow. */
struct api_event_stream {
    struct events_reader reader; /* first: cast from its address */
    struct native *native;
    struct http_request *req; /* gives the peer; valid until sse_close */
    struct sse *sse;
    uint64_t last;                /* id of the last event seen; 0: none */
    char sandbox[API_ID_MAX + 1]; /* "" = all */
    char types[QUERY_LIST_MAX][24];
    size_t type_count;
    bool subscribed, dead;
};

static void stream_end(struct api_event_stream *st)
{
    if (st->subscribed)
        events_unsubscribe(&st->reader);
    api_watcher_drop(st->native);
    sse_close(st->sse);
    free(st);
}

static void on_sse_gone(struct sse *s, void *data)
{
    (void)s;
    stream_end(data);
}

/* Events of a removed sandbox are visible only to its creator and the owner: its spec is gone,
 * so no other right can be checked. Another sandbox may have the id as its name. */
static bool stream_may_see(const struct api_event_stream *st, const struct event *e)
{
    struct sandbox *s = sandbox_by_id(st->native->config.supervisor, e->sandbox);

    if (s != NULL)
        return api_may_see(st->req, s);
    return api_is_owner(st->req) || (e->maker >= 0 && e->maker == (int64_t)http_peer(st->req)->uid);
}

static bool stream_wants(const struct api_event_stream *st, const struct event *e)
{
    if (!stream_may_see(st, e))
        return false;
    if (st->sandbox[0] != '\0' && strcmp(st->sandbox, e->sandbox) != 0 &&
        strcmp(st->sandbox, e->name) != 0)
        return false;
    for (size_t i = 0; i < st->type_count; i++)
        if (strcmp(st->types[i], e->type) == 0)
            return true;
    return st->type_count == 0;
}

static json_t *encode_event(const struct event *e)
{
    json_t *detail = NULL;

    if (e->detail[0] != '\0' &&
        json_parse(e->detail, strlen(e->detail), sizeof(e->detail), &detail, NULL) < 0)
        detail = NULL;
    return json_pack("{s:I, s:o, s:s, s:s, s:s, s:o}", "id", (json_int_t)e->id, "time",
                     api_time(e->time_ms), "type", e->type, "sandbox", e->sandbox, "name", e->name,
                     "detail", detail != NULL ? detail : json_object());
}

/* Negative: the stream must be ended. */
static int stream_send_event(struct api_event_stream *st, const struct event *e)
{
    auto_ptr(json_decref) json_t *root = encode_event(e);
    auto_free char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    char id[24];

    if (text == NULL)
        return -ENOMEM;
    (void)snprintf(id, sizeof(id), "%" PRIu64, e->id);
    return sse_send(st->sse, id, e->type, text, strlen(text));
}

static int stream_send_gap(struct api_event_stream *st, uint64_t next)
{
    char text[96];
    int n = snprintf(text, sizeof(text), "{\"after\":%" PRIu64 ",\"next\":%" PRIu64 "}", st->last,
                     next);

    return sse_send(st->sse, NULL, "gap", text, (size_t)n);
}

static void on_stream_event(struct events_reader *r, const struct event *e)
{
    struct api_event_stream *st = (struct api_event_stream *)(void *)r;
    int ok = 0;

    if (st->dead)
        return;
    /* Ids are consecutive: events between them were dropped for good. */
    if (st->last != 0 && e->id > st->last + 1)
        ok = stream_send_gap(st, e->id);
    st->last = e->id;
    if (ok >= 0 && stream_wants(st, e))
        ok = stream_send_event(st, e);
    if (ok >= 0)
        return;
    if (st->subscribed)
        stream_end(st);
    else
        st->dead = true; /* within events_subscribe */
}

/* Refuses unknown types: the client would wait for ever. */
static int query_check_types(const struct query_list *types, struct err *err)
{
    auto_buf struct buf known = BUF_INIT(512);

    for (size_t i = 0; i < types->count; i++) {
        if (event_type_known(types->values[i]))
            continue;
        for (size_t k = 0; event_types[k] != NULL; k++)
            (void)buf_printf(&known, "%s%s", k > 0 ? ", " : "", event_types[k]);
        return err_set(err, -EINVAL, "type: \"%.32s\" is none; there are %s", types->values[i],
                       known.data != NULL ? known.data : "others");
    }
    return 0;
}

/* A reconnecting client sends Last-Event-ID by itself, so it overrides `since`. */
static int query_decode_events(struct http_request *req, struct native_events_query *q,
                               struct err *err)
{
    const char *last = sse_last_event_id(req);
    char *end = NULL;
    int r;

    r = http_query(req, fields, q, err);
    if (r == 0)
        r = query_check_types(&q->types, err);
    if (r < 0 || last == NULL || last[0] == '\0')
        return r;
    errno = 0;
    q->since = strtoll(last, &end, 10);
    if (errno != 0 || *end != '\0' || last[0] < '0' || last[0] > '9')
        return err_set(err, -EINVAL, "Last-Event-ID: \"%.64s\" is no id of an event", last);
    return 0;
}

static int stream_new(struct http_request *req, const struct native_events_query *q,
                      struct api_event_stream **ret)
{
    struct sse_options options = {.max = EVENTS_QUEUE_MAX, .on_gone = on_sse_gone};
    struct api_event_stream *st = calloc(1, sizeof(*st));
    int r;

    if (st == NULL)
        return -ENOMEM;
    st->reader.on_event = on_stream_event;
    st->native = native_of(req);
    st->req = req;
    st->last = (uint64_t)q->since;
    (void)snprintf(st->sandbox, sizeof(st->sandbox), "%s", q->sandbox != NULL ? q->sandbox : "");
    for (size_t i = 0; i < q->types.count; i++)
        (void)snprintf(st->types[st->type_count++], sizeof(st->types[0]), "%s", q->types.values[i]);
    options.data = st;
    r = sse_open(req, &options, &st->sse);
    if (r < 0) {
        free(st);
        return r;
    }
    *ret = st;
    return 0;
}

static void get_events(struct http_request *req)
{
    struct native_events_query q = {0};
    struct err err = ERR_NONE;
    struct api_event_stream *st = NULL;

    if (query_decode_events(req, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (!api_watcher_take(req))
        return;
    if (stream_new(req, &q, &st) < 0) {
        api_watcher_drop(native_of(req));
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    (void)events_subscribe(supervisor_events(api_supervisor(req)), &st->reader, st->last);
    st->subscribed = true;
    if (st->dead)
        stream_end(st);
}

const struct route native_event_routes[] = {
    {"GET", "/v1/events", get_events, 0, 0},
    {0},
};
