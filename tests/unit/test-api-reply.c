/* What errors look like, JSON bodies, and server-sent events with a reader that stops. */

#include <stddef.h>

#include "http-rig.h"
#include "http/error.h"
#include "http/json-body.h"
#include "http/sse.h"
#include "json/decode.h"

/* ---- errors ---- */

TEST(every_code_has_a_status)
{
    static const struct {
        int code, status;
    } rows[] = {
        {ENOENT, 404},  {EEXIST, 409}, {EBUSY, 409},  {EINVAL, 400},      {ERANGE, 400},
        {E2BIG, 413},   {EPERM, 403},  {EACCES, 403}, {ENOSPC, 507},      {EOPNOTSUPP, 501},
        {EAGAIN, 503},  {EMFILE, 503}, {EUSERS, 429}, {ETIMEDOUT, 504},   {ETIME, 408},
        {EIO, 500},     {0, 500},      {123456, 500}, {EMEDIUMTYPE, 415}, {ENOMEM, 503},
        {EUCLEAN, 409},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_INT(error_status(rows[i].code), rows[i].status);
        CHECK_INT(error_status(-rows[i].code), rows[i].status);
    }
    for (int code = 0; code < 200; code++) {
        CHECK(error_name(code)[0] == 'E');
        CHECK(error_reason(error_status(code))[0] != '\0');
    }
    CHECK_STR(error_name(-ENOENT), "ENOENT");
    CHECK_STR(error_name(100000), "EUNKNOWN");
}

struct thing {
    int64_t pids;
    char *name;
};

static const struct jfield thing_fields[] = {
    {.name = "pids", .decode = j_int64, .off = offsetof(struct thing, pids), .min = 1, .max = 100},
    {.name = "name",
     .decode = j_string,
     .off = offsetof(struct thing, name),
     .max = 8,
     .required = true},
    {0},
};

static void post_thing(struct http_request *req)
{
    struct thing t = {0};
    struct err err = ERR_NONE;
    int r = json_body(req, thing_fields, &t, &err);

    if (r < 0)
        reply_error(req, &err);
    else
        reply_json(req, 201, json_pack("{s:s, s:I}", "name", t.name, "pids", (json_int_t)t.pids));
    free(t.name);
}

static void get_error(struct http_request *req)
{
    struct err err = ERR_NONE;

    (void)err_set(&err, -EBUSY, "it is \"busy\" \xff");
    if (http_header(req, "x-step") != NULL)
        reply_error_step(req, &err, "mount");
    else if (http_header(req, "x-format") != NULL)
        reply_errorf(req, -ENOENT, "no sandbox '%s'", "a");
    else if (http_header(req, "x-null") != NULL)
        reply_json(req, 200, NULL);
    else if (http_header(req, "x-empty") != NULL)
        reply_empty(req, 204);
    else
        reply_error(req, &err);
}

/* ---- events ---- */

static struct {
    struct sse *sse;
    int drained, gone;
} E;

static void on_sse_drain(struct sse *s, void *data)
{
    CHECK(s == E.sse && data == &E);
    E.drained++;
}

static void on_sse_gone(struct sse *s, void *data)
{
    CHECK(s == E.sse && data == &E);
    E.gone++;
    sse_close(take(E.sse));
}

static void get_events(struct http_request *req)
{
    const struct sse_options options = {
        .heartbeat_ms = 30,
        .pause = 64 << 10,
        .max = 256 << 10,
        .on_drain = on_sse_drain,
        .on_gone = on_sse_gone,
        .data = &E,
    };

    CHECK_INT(sse_open(req, &options, &E.sse), 0);
}

static const struct route routes[] = {
    {"POST", "/thing", post_thing, ROUTE_BODY, 0},
    {"GET", "/error", get_error, 0, 0},
    {"GET", "/events", get_events, 0, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

TEST(a_reply_has_the_documented_shape)
{
    static const struct {
        const char *text;
        int status;
        const char *body;
    } rows[] = {
        {"GET /error HTTP/1.1\r\n\r\n", 409,
         "{\"error\":{\"code\":\"EBUSY\",\"message\":\"it is \\\"busy\\\" ?\",\"errno\":16}}"},
        {"GET /error HTTP/1.1\r\nX-Step: 1\r\n\r\n", 409,
         "{\"error\":{\"code\":\"EBUSY\",\"message\":\"it is \\\"busy\\\" "
         "?\",\"step\":\"mount\",\"errno\":16}}"},
        {"GET /error HTTP/1.1\r\nX-Format: 1\r\n\r\n", 404,
         "{\"error\":{\"code\":\"ENOENT\",\"message\":\"no sandbox 'a'\",\"errno\":2}}"},
        {"GET /error HTTP/1.1\r\nX-Null: 1\r\n\r\n", 503,
         "{\"error\":{\"code\":\"ENOMEM\",\"message\":\"out of memory\",\"errno\":12}}"},
        {"GET /nope HTTP/1.1\r\n\r\n", 404,
         "{\"error\":{\"code\":\"ENOENT\",\"message\":\"no such path\"}}"},
        {"POST /thing HTTP/1.1\r\nContent-Length: 21\r\n\r\n{\"name\":\"a\",\"pids\":7}", 201,
         "{\"name\":\"a\",\"pids\":7}"},
        {"POST /thing HTTP/1.1\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: "
         "12\r\n\r\n{\"name\":\"a\"}",
         201, "{\"name\":\"a\",\"pids\":0}"},
        {"POST /thing HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: "
         "12\r\n\r\n{\"name\":\"a\"}",
         415, "the body must be application/json"},
        {"POST /thing HTTP/1.1\r\nContent-Type: application/jsonp\r\nContent-Length: "
         "12\r\n\r\n{\"name\":\"a\"}",
         415, "the body must be application/json"},
        {"POST /thing HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400, "name: "},
        {"POST /thing HTTP/1.1\r\nContent-Length: 21\r\n\r\n{\"name\":\"a\",\"pids\":0}", 400,
         "pids: must be between 1 and 100"},
        {"POST /thing HTTP/1.1\r\nContent-Length: 10\r\n\r\n{\"name\":\"a", 400, "body: line 1"},
        {"POST /thing HTTP/1.1\r\nContent-Length: 2\r\n\r\n[]", 400, "must be a JSON object"},
        {"POST /thing HTTP/1.1\r\nContent-Length: 23\r\n\r\n{\"name\":\"a\",\"name\":\"b\"}", 400,
         "duplicate"},
    };
    struct rig rig;
    char *answer;

    rig_open(&rig, NULL, sets);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        answer = rig_talk(&rig, rows[i].text);
        if (rig_status(answer, 0) != rows[i].status || strstr(answer, rows[i].body) == NULL)
            tap_fail("%s: %s", rows[i].text, answer);
        free(answer);
    }
    answer = rig_talk(&rig, "GET /error HTTP/1.1\r\nX-Empty: 1\r\n\r\n");
    CHECK(strstr(answer, "HTTP/1.1 204 No Content\r\n") == answer);
    CHECK(strstr(answer, "Content-Length") == NULL && strstr(answer, "chunked") == NULL);
    free(answer);
    rig_close(&rig);
}

/* ---- server-sent events ---- */

/* Opens the stream; the reply's head is in b. */
static int open_events(struct rig *rig, struct buf *b)
{
    int fd;

    (void)memset(&E, 0, sizeof(E));
    rig_open(rig, NULL, sets);
    fd = rig_client(rig);
    CHECK(rig_text(rig, fd, "GET /events HTTP/1.1\r\n\r\n"));
    CHECK(rig_expect(rig, fd, b, "\r\n\r\n"));
    CHECK(strstr(b->data, "Content-Type: text/event-stream\r\n") != NULL);
    CHECK(strstr(b->data, "Cache-Control: no-store\r\n") != NULL);
    return fd;
}

TEST(an_event_has_the_documented_shape)
{
    static const struct {
        const char *id, *event, *data, *text;
    } rows[] = {
        {"7", "exit", "{}", "id: 7\nevent: exit\ndata: {}\n\n"},
        {NULL, NULL, "x", "\ndata: x\n\n"},
        {NULL, NULL, "", "\ndata: \n\n"},
        {NULL, "e", "a\nb", "event: e\ndata: a\ndata: b\n\n"},
        {NULL, "f", "a\r\nb\rc\n", "event: f\ndata: a\ndata: b\ndata: c\ndata: \n\n"},
        {NULL, "g", "a\n\nevent: evil", "event: g\ndata: a\ndata: \ndata: event: evil\n\n"},
    };
    struct buf b = BUF_INIT(1 << 20);
    char big[SSE_FIELD_MAX + 2];
    struct rig rig;
    int fd = open_events(&rig, &b);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_INT(sse_send(E.sse, rows[i].id, rows[i].event, rows[i].data, strlen(rows[i].data)),
                  0);
        if (!rig_expect(&rig, fd, &b, rows[i].text))
            tap_fail("want %s in %s", rows[i].text, b.data);
    }
    (void)memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    CHECK_INT(sse_send(E.sse, "a\nb", NULL, "", 0), -EINVAL);
    CHECK_INT(sse_send(E.sse, NULL, "a\rb", "", 0), -EINVAL);
    CHECK_INT(sse_send(E.sse, big, NULL, "", 0), -EINVAL);
    /* Silence is filled with comments. */
    buf_done(&b);
    CHECK(rig_expect(&rig, fd, &b, "3\r\n:\n\n\r\n"));
    sse_close(take(E.sse));
    CHECK(rig_expect(&rig, fd, &b, "\r\n0\r\n\r\n"));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

/* A producer that can wait is told to, and told when to go on. */
TEST(events_with_back_pressure)
{
    static char data[8192];
    struct buf b = BUF_INIT(64 << 20);
    struct rig rig;
    int fd = open_events(&rig, &b), sent = 0, rounds = 0;

    (void)memset(data, 'x', sizeof(data));
    while (rounds < 4) {
        int r = sse_send(E.sse, NULL, NULL, data, sizeof(data));

        CHECK(r == 0 || r == 1);
        sent++;
        if (r == 0)
            continue;
        CHECK(sent < 200);
        CHECK_INT(E.drained, rounds);
        for (int i = 0; i < 200 && E.drained == rounds; i++)
            CHECK(rig_read(&rig, fd, &b));
        CHECK_INT(E.drained, ++rounds);
        sent = 0;
    }
    (void)close(fd);
    for (int i = 0; i < 10; i++)
        rig_turn(&rig);
    CHECK_INT(E.gone, 1);
    buf_done(&b);
    rig_close(&rig);
}

/* One that cannot wait: the reader that has stopped is cut off, and hears why when it reads again.
 */
TEST(events_cut_off)
{
    static char data[1000];
    struct buf b = BUF_INIT(64 << 20);
    struct rig rig;
    int fd = open_events(&rig, &b), r = 0;
    char id[16] = "";
    size_t total = 0;

    (void)memset(data, 'x', sizeof(data));
    for (int i = 0; i < 100000 && r >= 0; i++) {
        (void)snprintf(id, sizeof(id), "%d", i);
        r = sse_send(E.sse, id, "tick", data, sizeof(data));
        total += sizeof(data);
    }
    CHECK_INT(r, -ENOBUFS);
    printf("# cut off after %zu bytes\n", total);
    CHECK(total < 2 << 20); /* 256 KiB of ours and what the socket takes */
    CHECK_INT(sse_send(E.sse, id, "tick", data, sizeof(data)), -ENOBUFS);
    CHECK(rig_expect(&rig, fd, &b, "\r\n0\r\n\r\n"));
    (void)snprintf(data, sizeof(data),
                   "event: dropped\ndata: {\"reason\":\"reader too slow\",\"last\":\"%d\"}\n\n",
                   atoi(id) - 1);
    CHECK(strstr(b.data, data) != NULL);
    sse_close(take(E.sse));
    CHECK_INT(E.gone, 0);
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

TEST(events_reader_gone)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd = open_events(&rig, &b);

    (void)close(fd);
    CHECK(sse_send(E.sse, NULL, NULL, "x", 1) != -EINVAL); /* not noticed yet, or just now */
    CHECK_INT(E.gone, 0);                                  /* never from inside of a call */
    for (int i = 0; i < 10; i++)
        rig_turn(&rig);
    CHECK_INT(E.gone, 1);
    buf_done(&b);
    rig_close(&rig);
}

TAP_MAIN
