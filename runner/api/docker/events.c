/* GET /events: core's events in Docker's words, one JSON object per line. */
#include "sandbox/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/docker-routes.h"
#include "api/docker/filters.h"
#include "api/docker/networks.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "json/parse.h"
#include "ports/networks.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"
#include "spec/spec.h"

enum {
    MS_NS = 1000000,
    /* A reader with more unread bytes is cut off. All stored events fit. */
    EVENTS_QUEUE_MAX = EVENTS_MAX * 1024,
    STARTED_MS = 1000, /* how old a start may be that a reader of starts alone is told of */
};

struct docker_action {
    const char *core, *docker, *type;
};

/* Docker tells of a container's networks with its start and its end, too. */
static const struct docker_action start_action = {"start", "connect", "network"},
                                  end_action = {"exit", "disconnect", "network"};

static const struct docker_action actions[] = {
    {"create", "create", "container"},
    {"start", "start", "container"},
    {"exit", "die", "container"},
    {"stop", "stop", "container"},
    {"restart", "restart", "container"},
    {"pause", "pause", "container"},
    {"resume", "unpause", "container"},
    {"oom", "oom", "container"},
    {"rename", "rename", "container"},
    {"attach", "attach", "container"},
    {"destroy", "destroy", "container"},
    {"exec", "exec_start", "container"},
    {"exec_exit", "exec_die", "container"},
    {"health", "health_status", "container"},
    {"image_load", "load", "image"},
    {"image_tag", "tag", "image"},
    {"image_untag", "untag", "image"},
    {"image_remove", "delete", "image"},
    {"volume_create", "create", "volume"},
    {"volume_mount", "mount", "volume"},
    {"volume_unmount", "unmount", "volume"},
    {"volume_remove", "destroy", "volume"},
    {"network_create", "create", "network"},
    {"network_destroy", "destroy", "network"},
    {"network_connect", "connect", "network"},
    {"network_disconnect", "disconnect", "network"},
};

static const struct docker_action *action_find(const char *core)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(actions[i].core, core) == 0)
            return &actions[i];
    return NULL;
}

enum { ACTION_MAX = 40 };

/* Formats an action like Docker: "die"; "health_status: healthy". */
static void action_text(const struct event *e, const struct docker_action *a, char ret[ACTION_MAX])
{
    auto_ptr(json_decref) json_t *detail = NULL;
    const char *status = NULL;

    if (strcmp(a->core, "health") == 0 &&
        json_parse(e->detail, strlen(e->detail), sizeof(e->detail), &detail, NULL) == 0)
        status = json_string_value(json_object_get(detail, "status"));
    (void)snprintf(ret, ACTION_MAX, "%s%s%s", a->docker, status != NULL ? ": " : "",
                   status != NULL ? status : "");
}

/* A reader. Frees itself when its client is gone or too slow, or at `until`. */
struct docker_event_stream {
    struct events_reader reader; /* first: cast from its address */
    struct http_request *req;
    struct native *native;
    struct filters *filters;    /* owned */
    int64_t since_ms, until_ms; /* 0 = no bound */
    bool catching_up;           /* events of before the request are read: only of what still runs */
    uv_timer_t timer;
    bool subscribed, dead;
};

static void on_timer_closed(uv_handle_t *h)
{
    struct docker_event_stream *st = h->data;

    filters_free(st->filters);
    free(st);
}

/* The caller ends the request. */
static void stream_end(struct docker_event_stream *st)
{
    if (st->dead)
        return;
    st->dead = true;
    if (st->subscribed)
        events_unsubscribe(&st->reader);
    api_watcher_drop(st->native);
    uv_close((uv_handle_t *)&st->timer, on_timer_closed);
}

static struct sandbox *sandbox_of(const struct docker_event_stream *st, const struct event *e)
{
    return sandbox_by_id(st->native->config.supervisor, e->sandbox);
}

static bool stream_may_see(const struct docker_event_stream *st, const struct event *e,
                           const struct sandbox *s)
{
    if (s != NULL)
        return api_may_see(st->req, s);
    return api_is_owner(st->req) || (e->maker >= 0 && e->maker == (int64_t)http_peer(st->req)->uid);
}

/* As in Docker a filter for one kind of object lets through events of that kind alone. Events of
 * the daemon are not reported. */
static bool filters_match_object(const struct filters *f, const struct event *e,
                                 const struct docker_action *a, const char *image)
{
    char id[DOCKER_ID_LEN + 1];

    if (filters_get(f, "daemon", 0) != NULL || filters_get(f, "network", 0) != NULL)
        return false;
    if (strcmp(a->type, "volume") == 0)
        return filters_match(f, "volume", e->name) && filters_get(f, "container", 0) == NULL &&
               filters_get(f, "image", 0) == NULL;
    if (filters_get(f, "volume", 0) != NULL)
        return false;
    docker_id(e->sandbox, id);
    return (filters_match_prefix(f, "container", id) || filters_match(f, "container", e->name)) &&
           (strcmp(a->type, "image") == 0 ? filters_match(f, "image", e->name)
                                          : filters_match(f, "image", image));
}

/* True of filters that let through events of volumes or of the daemon alone. */
static bool filters_ask_for_others(const struct filters *f)
{
    return filters_get(f, "volume", 0) != NULL || filters_get(f, "daemon", 0) != NULL;
}

/*
 * True of a reader that waits for starts, and for nothing else. Programs begin such a reader and
 * `docker run` beside it, and wait for ever where the container has started before the request of
 * the reader is here (the devcontainer command does). Docker takes longer for a start than a
 * command needs to send a request. Here a start may well be the first.
 */
static bool stream_awaits_start(const struct docker_event_stream *st)
{
    const char *event = filters_get(st->filters, "event", 0);

    return st->since_ms == 0 && st->until_ms == 0 && event != NULL && strcmp(event, "start") == 0 &&
           filters_get(st->filters, "event", 1) == NULL;
}

static bool stream_wants(const struct docker_event_stream *st, const struct event *e,
                         const struct docker_action *a, const struct sandbox *s)
{
    const struct spec *spec = s != NULL ? sandbox_spec(s) : NULL;
    auto_ptr(json_decref) json_t *kept = docker_kept(spec);
    const char *image = s != NULL ? docker_image_name(s, kept) : "";
    char action[ACTION_MAX];

    action_text(e, a, action);
    return (st->since_ms == 0 || e->time_ms >= st->since_ms) &&
           (st->until_ms == 0 || e->time_ms <= st->until_ms) && stream_may_see(st, e, s) &&
           filters_match(st->filters, "type", a->type) &&
           filters_match(st->filters, "scope", "local") &&
           filters_match_prefix(st->filters, "event", action) &&
           filters_match_object(st->filters, e, a, image) &&
           filters_match_labels(st->filters, spec != NULL ? spec->labels : NULL);
}

static json_t *encode_attributes(const struct event *e, const struct sandbox *s)
{
    const struct spec *spec = s != NULL ? sandbox_spec(s) : NULL;
    auto_ptr(json_decref) json_t *kept = docker_kept(spec), *detail = NULL;
    json_t *object = docker_labels(spec), *code;

    if (object == NULL)
        return NULL;
    (void)docker_put(object, "name", json_string(e->name));
    if (s != NULL)
        (void)docker_put(object, "image", json_string(docker_image_name(s, kept)));
    if (json_parse(e->detail, strlen(e->detail), sizeof(e->detail), &detail, NULL) < 0)
        detail = NULL;
    code = json_object_get(detail, "exitCode");
    if (code != NULL)
        (void)docker_put(object, "exitCode",
                         json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(code)));
    return object;
}

/* The attributes of a volume's event; a mount has those of its container. */
static json_t *encode_volume_attributes(const struct event *e)
{
    auto_ptr(json_decref) json_t *detail = NULL;
    json_t *object = json_pack("{s:s}", "driver", "local");
    const char *sandbox;
    char id[DOCKER_ID_LEN + 1];

    if (json_parse(e->detail, strlen(e->detail), sizeof(e->detail), &detail, NULL) < 0)
        return object;
    sandbox = json_string_value(json_object_get(detail, "sandbox"));
    if (object == NULL || sandbox == NULL)
        return object;
    docker_id(sandbox, id);
    (void)docker_put(object, "container", json_string(id));
    if (strcmp(e->type, "volume_mount") != 0)
        return object;
    (void)json_object_set(object, "destination", json_object_get(detail, "target"));
    (void)docker_put(object, "propagation", json_string(""));
    (void)docker_put(
        object, "read/write",
        json_string(json_is_true(json_object_get(detail, "readOnly")) ? "false" : "true"));
    return object;
}

static json_t *encode_actor(const struct event *e, const struct docker_action *a,
                            const struct sandbox *s)
{
    auto_ptr(json_decref) json_t *detail = NULL;
    const char *image = NULL;
    char id[DOCKER_ID_LEN + 1];

    if (strcmp(a->type, "volume") == 0)
        return json_pack("{s:s, s:o}", "ID", e->name, "Attributes", encode_volume_attributes(e));
    docker_id(e->sandbox, id);
    if (strcmp(a->type, "image") == 0 &&
        json_parse(e->detail, strlen(e->detail), sizeof(e->detail), &detail, NULL) == 0)
        image = json_string_value(json_object_get(detail, "image"));
    if (strcmp(a->type, "image") == 0 && image == NULL)
        image = e->name;
    return json_pack("{s:s, s:o}", "ID", image != NULL ? image : id, "Attributes",
                     encode_attributes(e, s));
}

static json_t *encode_event(const struct event *e, const struct docker_action *a,
                            const struct sandbox *s)
{
    auto_ptr(json_decref) json_t *kept = docker_kept(s != NULL ? sandbox_spec(s) : NULL);
    bool container = strcmp(a->type, "container") == 0;
    char id[DOCKER_ID_LEN + 1], action[ACTION_MAX];
    json_t *root;

    docker_id(e->sandbox, id);
    action_text(e, a, action);
    root = json_pack("{s:s, s:s, s:o, s:s, s:I, s:I}", "Type", a->type, "Action", action, "Actor",
                     encode_actor(e, a, s), "scope", "local", "time", (json_int_t)e->time_ms / 1000,
                     "timeNano", (json_int_t)e->time_ms * MS_NS);
    if (root != NULL && container) {
        (void)docker_put(root, "status", json_string(action));
        (void)docker_put(root, "id", json_string(id));
        (void)docker_put(root, "from", json_string(s != NULL ? docker_image_name(s, kept) : ""));
    }
    return root;
}

/* ---- networks ---- */

static bool stream_wants_network(const struct docker_event_stream *st, const struct event *e,
                                 const struct docker_action *a, const struct sandbox *s,
                                 const char *network)
{
    const struct network_entry *entry = network_find(st->native->config.supervisor, network);
    char id[DOCKER_ID_LEN + 1], container[DOCKER_ID_LEN + 1];

    docker_network_id(network, id);
    docker_id(e->sandbox, container);
    return (st->since_ms == 0 || e->time_ms >= st->since_ms) &&
           (st->until_ms == 0 || e->time_ms <= st->until_ms) && stream_may_see(st, e, s) &&
           filters_match(st->filters, "type", "network") &&
           filters_match(st->filters, "scope", "local") && !filters_ask_for_others(st->filters) &&
           filters_get(st->filters, "image", 0) == NULL &&
           filters_match_prefix(st->filters, "event", a->docker) &&
           (filters_match(st->filters, "network", network) ||
            filters_match_prefix(st->filters, "network", id)) &&
           (filters_get(st->filters, "container", 0) == NULL ||
            (e->sandbox[0] != '\0' && (filters_match_prefix(st->filters, "container", container) ||
                                       filters_match(st->filters, "container", e->name)))) &&
           filters_match_labels(st->filters, entry != NULL ? network_labels(entry) : NULL);
}

static json_t *encode_network_event(const struct event *e, const struct docker_action *a,
                                    const char *network)
{
    char id[DOCKER_ID_LEN + 1], container[DOCKER_ID_LEN + 1];
    json_t *attributes = json_pack("{s:s, s:s}", "name", network, "type",
                                   strcmp(network, "none") == 0 ? "null" : "bridge");

    if (e->sandbox[0] != '\0') {
        docker_id(e->sandbox, container);
        (void)docker_put(attributes, "container", json_string(container));
    }
    docker_network_id(network, id);
    return json_pack("{s:s, s:s, s:{s:s, s:o}, s:s, s:I, s:I}", "Type", a->type, "Action",
                     a->docker, "Actor", "ID", id, "Attributes", attributes, "scope", "local",
                     "time", (json_int_t)e->time_ms / 1000, "timeNano",
                     (json_int_t)e->time_ms * MS_NS);
}

/* The network that an event is about, "" for one about none. */
static void event_network(const struct event *e, char ret[SPEC_NETWORK_MAX + 1])
{
    auto_ptr(json_decref) json_t *detail = NULL;
    const char *name = NULL;

    if (e->sandbox[0] == '\0')
        name = e->name;
    else if (json_parse(e->detail, strlen(e->detail), sizeof(e->detail), &detail, NULL) == 0)
        name = json_string_value(json_object_get(detail, "network"));
    (void)snprintf(ret, SPEC_NETWORK_MAX + 1, "%.*s", SPEC_NETWORK_MAX, name != NULL ? name : "");
}

/* Returns false when the stream has been cut off. */
static bool stream_send(struct docker_event_stream *st, json_t *event)
{
    if (http_queued(st->req) <= EVENTS_QUEUE_MAX && reply_json_line(st->req, event, "\n"))
        return true;
    http_abort(st->req);
    stream_end(st);
    return false;
}

static bool stream_tell_network(struct docker_event_stream *st, const struct event *e,
                                const struct docker_action *a, const char *network)
{
    const struct sandbox *s = sandbox_of(st, e);

    return st->dead || !stream_wants_network(st, e, a, s, network) ||
           stream_send(st, encode_network_event(e, a, network));
}

/* Tells of Docker's own networks of a container that starts or ends. Named ones have events. */
static void stream_tell_networks(struct docker_event_stream *st, const struct event *e,
                                 const struct docker_action *a)
{
    const struct sandbox *s = sandbox_of(st, e);
    const char *name;

    for (size_t i = 0; s != NULL && (name = docker_network_at(sandbox_spec(s), i)) != NULL; i++)
        if (docker_network_is_builtin(name) && !stream_tell_network(st, e, a, name))
            return;
}

static void on_stream_event(struct events_reader *r, const struct event *e)
{
    struct docker_event_stream *st = (struct docker_event_stream *)(void *)r;
    const struct docker_action *a = action_find(e->type);
    const struct sandbox *s = a != NULL ? sandbox_of(st, e) : NULL;

    if (st->dead || st->req->gone || a == NULL)
        return;
    if (st->catching_up && (s == NULL || sandbox_get_state(s) != SANDBOX_RUNNING))
        return;
    if (strcmp(a->type, "network") == 0) {
        char network[SPEC_NETWORK_MAX + 1];

        event_network(e, network);
        (void)stream_tell_network(st, e, a, network);
        return;
    }
    if (strcmp(e->type, start_action.core) == 0)
        stream_tell_networks(st, e, &start_action);
    if (!st->dead && stream_wants(st, e, a, s) && !stream_send(st, encode_event(e, a, s)))
        return;
    if (!st->dead && strcmp(e->type, end_action.core) == 0)
        stream_tell_networks(st, e, &end_action);
}

static void on_stream_gone(struct http_request *req)
{
    struct docker_event_stream *st = req->data;

    http_abort(req);
    stream_end(st);
}

static void on_stream_until(uv_timer_t *h)
{
    struct docker_event_stream *st = h->data;
    struct http_request *req = st->req;

    stream_end(st);
    http_end(req);
}

/* ---- the request ---- */

struct docker_events_query {
    const char *since, *until, *filters;
};

static const struct query_field fields[] = {
    {.name = "since",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_events_query, since),
     .max = 64},
    {.name = "until",
     .type = QUERY_STRING,
     .off = offsetof(struct docker_events_query, until),
     .max = 64},
    {.name = "filters", .type = QUERY_STRING, .off = offsetof(struct docker_events_query, filters)},
    {0},
};

static int stream_read_query(struct http_request *req, struct docker_event_stream *st,
                             struct err *err)
{
    static const char *const known[] = {"container", "event",   "image", "label",  "type",
                                        "volume",    "network", "scope", "daemon", NULL};
    struct docker_events_query q = {0};
    int64_t since = 0, until = 0;
    int r;

    r = http_query_known(req, fields, &q, err);
    if (r == 0)
        r = docker_time_query("since", q.since, &since, err);
    if (r == 0)
        r = docker_time_query("until", q.until, &until, err);
    st->since_ms = since / MS_NS;
    st->until_ms = until / MS_NS;
    if (r == 0)
        r = filters_parse(q.filters, known, &st->filters, err);
    return r;
}

static void get_events(struct http_request *req)
{
    struct docker_event_stream *st;
    struct err err = ERR_NONE;
    int64_t left;

    if (!api_watcher_take(req))
        return;
    st = calloc(1, sizeof(*st));
    if (st == NULL || stream_read_query(req, st, &err) < 0) {
        api_watcher_drop(native_of(req));
        if (st == NULL)
            (void)err_errno(&err, -ENOMEM, "events");
        free(st);
        reply_error(req, &err);
        return;
    }
    st->reader.on_event = on_stream_event;
    st->req = req;
    st->native = native_of(req);
    (void)uv_timer_init(http_loop(req), &st->timer); /* cannot fail */
    st->timer.data = st;
    req->data = st;
    req->on_gone = on_stream_gone;
    http_start(req, 200, NULL, "application/json");
    st->subscribed = true;
    st->catching_up = stream_awaits_start(st);
    if (st->catching_up)
        st->since_ms = clock_wall_ms() - STARTED_MS;
    (void)events_subscribe(supervisor_events(st->native->config.supervisor), &st->reader,
                           st->since_ms != 0 ? 1 : 0);
    st->catching_up = false;
    if (st->dead || st->until_ms == 0)
        return;
    left = st->until_ms - clock_wall_ms();
    (void)uv_timer_start(&st->timer, on_stream_until, left > 0 ? (uint64_t)left : 0, 0);
}

const struct route docker_event_routes[] = {
    {"GET", "/events", get_events, 0, 0},
    {0},
};
