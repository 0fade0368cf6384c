/* What must be refused, with what, and that nothing behind it is taken for a request; what must not
 * be refused. */

#include "http-rig.h"

static unsigned handled;

static void get_any(struct http_request *req)
{
    handled++;
    http_reply(req, 200, NULL, "text/plain", "ok", 2);
}

static void post_echo(struct http_request *req)
{
    handled++;
    http_reply(req, 200, NULL, "text/plain", req->body.data, req->body.len);
}

static void on_stream(struct http_request *req, const char *data, size_t len)
{
    (void)len;
    if (data == NULL)
        http_reply(req, 200, NULL, "text/plain", "end", 3);
}

static void post_stream(struct http_request *req)
{
    handled++;
    http_body_start(req, on_stream);
}

static const struct route routes[] = {
    {"GET", "/", get_any, 0, 0},
    {"GET", "/things/{id}", get_any, 0, 0},
    {"GET", "/images/{name...}/json", get_any, 0, 0},
    {"POST", "/echo", post_echo, ROUTE_BODY, 0},
    {"POST", "/none", get_any, 0, 0},
    {"POST", "/stream", post_stream, ROUTE_STREAM, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

#define GET  "GET / HTTP/1.1\r\n"
#define POST "POST /echo HTTP/1.1\r\n"
/* Behind what is refused: must never be answered. */
#define NEXT "GET /things/smuggled HTTP/1.1\r\n\r\n"

static const struct {
    const char *what, *text;
    int status;
} refused[] = {
    {"LF alone", "GET / HTTP/1.1\nHost: x\n\n", 400},
    {"LF alone behind a header", GET "Host: x\n\r\n", 400},
    {"CR alone", GET "Host: x\rFoo: y\r\n\r\n", 400},
    {"CR CR LF", GET "Host: x\r\r\n\r\n", 400},
    {"control byte", GET "Host: \x01\r\n\r\n", 400},
    {"DEL", GET "Host: \x7f\r\n\r\n", 400},
    {"folded header", GET "Host: x\r\n y\r\n\r\n", 400},
    {"folded with a tab", GET "Host: x\r\n\ty\r\n\r\n", 400},
    {"blank before the request line", " " GET "\r\n", 400},
    {"first header begins with a blank", GET " Host: x\r\n\r\n", 400},
    {"blank before the colon", GET "Host : x\r\n\r\n", 400},
    {"no colon", GET "Host\r\n\r\n", 400},
    {"empty name", GET ": x\r\n\r\n", 400},
    {"name that is no token", GET "Ho(st: x\r\n\r\n", 400},
    {"name with a byte above 0x7f", GET "H\xf6st: x\r\n\r\n", 400},
    {"two blanks in the request line", "GET  / HTTP/1.1\r\n\r\n", 400},
    {"blank behind the version", "GET / HTTP/1.1 \r\n\r\n", 505},
    {"tab in the request line", "GET\t/ HTTP/1.1\r\n\r\n", 400},
    {"no version", "GET /\r\n\r\n", 400},
    {"HTTP/0.9", "GET / HTTP/0.9\r\n\r\n", 505},
    {"HTTP/2.0", "GET / HTTP/2.0\r\n\r\n", 505},
    {"HTTP/1.2", "GET / HTTP/1.2\r\n\r\n", 505},
    {"RTSP", "GET / RTSP/1.0\r\n\r\n", 400},
    {"lower case version", "GET / http/1.1\r\n\r\n", 400},
    {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
    {"unknown method", "FROB / HTTP/1.1\r\n\r\n", 400},
    {"lower case method", "get / HTTP/1.1\r\n\r\n", 400},
    {"TLS", "\x16\x03\x01\x02", 400},
    {"fragment", "GET /#x HTTP/1.1\r\n\r\n", 400},
    {"byte above 0x7f in the URL", "GET /\xff HTTP/1.1\r\n\r\n", 400},
    {"backslash target", "GET \\ HTTP/1.1\r\n\r\n", 400},
    {"Host twice", GET "Host: a\r\nHost: b\r\n\r\n", 400},
    {"Content-Length twice", POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx" NEXT, 400},
    {"two Content-Lengths", POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx" NEXT, 400},
    {"a list of lengths", POST "Content-Length: 1, 1\r\n\r\nx" NEXT, 400},
    {"negative length", POST "Content-Length: -1\r\n\r\n" NEXT, 400},
    {"signed length", POST "Content-Length: +1\r\n\r\nx" NEXT, 400},
    {"hex length", POST "Content-Length: 0x1\r\n\r\nx" NEXT, 400},
    {"empty length", POST "Content-Length: \r\n\r\n" NEXT, 400},
    {"length beyond 64 bits", POST "Content-Length: 18446744073709551617\r\n\r\nx" NEXT, 400},
    {"length beyond 63 bits", POST "Content-Length: 9223372036854775808\r\n\r\nx" NEXT, 400},
    {"TE and CL", POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"CL and TE", POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"TE twice",
     POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"TE gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"TE chunked, identity", POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"TE identity", POST "Transfer-Encoding: identity\r\n\r\n" NEXT, 400},
    {"TE xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"TE chunked with a vertical tab", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"TE with a blank before the colon", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"TE in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"Expect twice",
     POST "Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx" NEXT, 400},
    {"other expectation", POST "Expect: 42\r\nContent-Length: 1\r\n\r\nx" NEXT, 417},
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
    {"chunk size no number", CHUNKED "g\r\nx\r\n0\r\n\r\n" NEXT, 400},
    {"chunk size with 0x", CHUNKED "0x1\r\nx\r\n0\r\n\r\n" NEXT, 400},
    {"negative chunk size", CHUNKED "-1\r\nx\r\n0\r\n\r\n" NEXT, 400},
    {"empty chunk size", CHUNKED "\r\nx\r\n0\r\n\r\n" NEXT, 400},
    {"blank in front of a chunk size", CHUNKED " 1\r\nx\r\n0\r\n\r\n" NEXT, 400},
    {"chunk size beyond 64 bits", CHUNKED "10000000000000001\r\nx\r\n0\r\n\r\n" NEXT, 400},
    {"chunk size with LF alone", CHUNKED "1\nx\r\n0\r\n\r\n" NEXT, 400},
    {"chunk size with CR alone", CHUNKED "1\rx\r\n0\r\n\r\n" NEXT, 400},
    {"chunk longer than its size", CHUNKED "1\r\nxy\r\n0\r\n\r\n" NEXT, 400},
    {"chunk ended by LF alone", CHUNKED "1\r\nx\n0\r\n\r\n" NEXT, 400},
    {"last chunk with LF alone", CHUNKED "0\n\n" NEXT, 400},
    {"chunked body that ends early", CHUNKED "5\r\nabc", 400},
    {"body that ends early", POST "Content-Length: 10\r\n\r\nabc", 400},
    {"trailer with LF alone", CHUNKED "0\r\nFoo: x\n\r\n" NEXT, 400},
    {"trailer with a blank before the colon", CHUNKED "0\r\nFoo : x\r\n\r\n" NEXT, 400},
    {"a chunk where none is taken",
     "POST /none HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" NEXT, 400},
};

TEST(malformed_requests_are_refused)
{
    struct rig rig;

    rig_open(&rig, NULL, sets);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        char *answer;

        handled = 0;
        answer = rig_talk(&rig, refused[i].text);
        if (rig_status(answer, 0) != refused[i].status || handled != 0 ||
            rig_status(answer, 1) != 0)
            tap_fail("%s: want %d alone, got %d calls and: %s", refused[i].what, refused[i].status,
                     (int)handled, answer == NULL ? "nothing" : answer);
        else if (strstr(answer, "Connection: close\r\n") == NULL ||
                 strstr(answer, "{\"error\":{\"code\":\"E") == NULL)
            tap_fail("%s: not closed, or not the shape: %s", refused[i].what, answer);
        free(answer);
    }
    rig_close(&rig);
}

TEST(nul_bytes_refused)
{
    static const char text[] = GET "Host: a\0b\r\n\r\n" NEXT;
    struct rig rig;
    char *answer;

    rig_open(&rig, NULL, sets);
    handled = 0;
    answer = rig_talk_bytes(&rig, text, sizeof(text) - 1);
    CHECK_INT(rig_status(answer, 0), 400);
    CHECK_INT(handled, 0);
    free(answer);
    rig_close(&rig);
}

/* Every answer in order; the connection goes on. */
static const struct {
    const char *what, *text;
    int statuses[4];
} taken[] = {
    {"plain", GET "\r\n", {200}},
    {"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", {200}},
    {"no Host", GET "\r\n" GET "\r\n", {200, 200}},
    {"empty lines in front", "\r\n\r\n" GET "\r\n", {200}},
    {"empty line between", GET "\r\n\r\n" GET "\r\n", {200, 200}},
    {"empty value", GET "X:\r\nY: \r\nZ:z\r\n\r\n", {200}},
    {"blanks around a value", GET "Host: \t x \t \r\n\r\n", {200}},
    {"bytes above 0x7f in a value", GET "X: \xc3\xa4\xff\r\n\r\n", {200}},
    {"absolute URI", "GET http://host:80/things/x?y HTTP/1.1\r\n\r\n", {200}},
    {"absolute URI without a path", "GET http://host HTTP/1.1\r\n\r\n", {200}},
    {"absolute URI with a query only", "GET http://host?/things HTTP/1.1\r\n\r\n", {200}},
    {"close", GET "Connection: close\r\n\r\n" GET "\r\n", {200}},
    {"1.0 keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" GET "\r\n", {200, 200}},
    {"1.0 closes", "GET / HTTP/1.0\r\n\r\n" GET "\r\n", {200}},
    {"empty chunked body on GET",
     GET "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET "\r\n",
     {200, 200}},
    {"empty chunked body on POST",
     "POST /none HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET "\r\n",
     {200, 200}},
    {"length 0", "POST /none HTTP/1.1\r\nContent-Length: 0\r\n\r\n" GET "\r\n", {200, 200}},
    {"empty chunked body on a stream",
     "POST /stream HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" GET "\r\n",
     {200, 200}},
    {"stream without a body", "POST /stream HTTP/1.1\r\n\r\n" GET "\r\n", {200, 200}},
    {"body", POST "Content-Length: 3\r\n\r\nabc" GET "\r\n", {200, 200}},
    {"chunks",
     CHUNKED "1\r\na\r\nA;ext=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n" GET "\r\n",
     {200, 200}},
    {"upgrade nobody offers",
     GET "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n" GET "\r\n",
     {200, 200}},
    {"404 goes on", "GET /nope HTTP/1.1\r\n\r\n" GET "\r\n", {404, 200}},
    {"404 with a body goes on",
     "POST /nope HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" GET "\r\n",
     {404, 200}},
    {"404 with chunks goes on",
     "POST /nope HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" GET "\r\n",
     {404, 200}},
    {"405", "PUT / HTTP/1.1\r\n\r\n" GET "\r\n", {405, 200}},
    {"CONNECT", "CONNECT host:1 HTTP/1.1\r\n\r\n" GET "\r\n", {404}},
    {"asterisk", "OPTIONS * HTTP/1.1\r\n\r\n" GET "\r\n", {404, 200}},
    {"traversal in an id", "GET /things/..%2f..%2fetc HTTP/1.1\r\n\r\n" GET "\r\n", {400, 200}},
    {"NUL in an id", "GET /things/a%00b HTTP/1.1\r\n\r\n" GET "\r\n", {400, 200}},
    {"a body where none is taken",
     "POST /none HTTP/1.1\r\nContent-Length: 1\r\n\r\nx" GET "\r\n",
     {400, 200}},
    {"HEAD", "HEAD / HTTP/1.1\r\n\r\n" GET "\r\n", {200, 200}},
};

TEST(odd_but_valid_requests_are_taken)
{
    struct rig rig;

    rig_open(&rig, NULL, sets);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        char *answer = rig_talk(&rig, taken[i].text);

        for (int k = 0; k < 4; k++)
            if (rig_status(answer, k) != taken[i].statuses[k]) {
                tap_fail("%s: reply %d is %d, want %d: %s", taken[i].what, k, rig_status(answer, k),
                         taken[i].statuses[k], answer);
                break;
            }
        free(answer);
    }
    rig_close(&rig);
}

/* The same, a byte at a time: every state of the parser is left and entered again. */
TEST(byte_by_byte)
{
    struct rig rig;

    rig_open(&rig, NULL, sets);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        struct buf b = BUF_INIT(1 << 20);
        int fd = rig_client(&rig);

        for (const char *p = taken[i].text; *p != '\0'; p++)
            if (!rig_send(&rig, fd, p, 1))
                break;
        (void)shutdown(fd, SHUT_WR);
        CHECK(rig_drain(&rig, fd, &b));
        for (int k = 0; k < 4; k++)
            if (rig_status(b.data, k) != taken[i].statuses[k])
                tap_fail("%s: reply %d is %d, want %d", taken[i].what, k, rig_status(b.data, k),
                         taken[i].statuses[k]);
        buf_done(&b);
        (void)close(fd);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct buf b = BUF_INIT(1 << 20);
        int fd = rig_client(&rig);

        handled = 0;
        for (const char *p = refused[i].text; *p != '\0'; p++)
            if (!rig_send(&rig, fd, p, 1))
                break;
        (void)shutdown(fd, SHUT_WR);
        CHECK(rig_drain(&rig, fd, &b));
        if (rig_status(b.data, 0) != refused[i].status || handled > 0)
            tap_fail("%s: %d, want %d", refused[i].what, rig_status(b.data, 0), refused[i].status);
        buf_done(&b);
        (void)close(fd);
    }
    rig_close(&rig);
}

TAP_MAIN
