/* Upgrades: early data, half-closes in each direction, and bytes both ways at once. */

#include <signal.h>
#include <sys/ioctl.h>

#include "http-rig.h"

static struct {
    struct http_request *req;
    size_t got, ends, gone, drained;
    bool echo, ends_at_once;
    const char *said_at_once;
    char text[256];
} S;

static void on_gone(struct http_request *req)
{
    S.gone++;
    http_end(req);
    S.req = NULL;
}

static void on_raw(struct http_request *req, const char *data, size_t len)
{
    if (data == NULL) {
        S.ends++;
        return;
    }
    if (S.got + len < sizeof(S.text))
        (void)memcpy(S.text + S.got, data, len);
    S.got += len;
    if (S.echo && http_write(req, data, len))
        http_body_pause(req);
}

static void on_raw_drain(struct http_request *req)
{
    S.drained++;
    http_body_resume(req);
}

static void post_upgrade(struct http_request *req)
{
    static const struct http_header headers[] = {{"X-Stream", "raw"}, {NULL, NULL}};

    S.req = req;
    req->on_gone = on_gone;
    req->on_drain = on_raw_drain;
    if (req->body.len > 0)
        (void)snprintf(S.text, sizeof(S.text), "%s", req->body.data);
    S.got = req->body.len;
    http_upgrade(req, req->upgrade ? "tcp" : NULL, headers, on_raw);
    if (S.said_at_once == NULL)
        return;
    http_wait_for_head(req);
    (void)http_write(req, S.said_at_once, strlen(S.said_at_once));
    if (S.ends_at_once)
        http_end(take(S.req));
}

static int detached = -1;
static struct buf early = BUF_INIT(64 << 10);

static void any_detach(struct http_request *req)
{
    detached = http_detach(req, "/else?where", &early);
}

static struct buf unsent = BUF_INIT(64 << 10), unread = BUF_INIT(64 << 10);
static uv_timer_t later;

static void on_later(uv_timer_t *t)
{
    detached = http_give_away(t->data, "tcp", &unsent, &unread);
}

static void post_give_away(struct http_request *req)
{
    later.data = req;
    if (strcmp(http_param(req, "when"), "now") == 0)
        on_later(&later);
    else
        (void)uv_timer_start(&later, on_later, 0, 0);
}

static const struct route routes[] = {
    {"POST", "/give/{when}", post_give_away, ROUTE_UPGRADE, 0},
    {"POST", "/upgrade", post_upgrade, ROUTE_BODY | ROUTE_UPGRADE, 0},
    {"POST", "/detach", any_detach, ROUTE_STREAM, 0},
    {"GET", "/detach", any_detach, ROUTE_STREAM, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

static void open_clean(struct rig *rig)
{
    (void)memset(&S, 0, sizeof(S));
    rig_open(rig, NULL, sets);
}

static int find(const struct buf *b, const char *text)
{
    return b->data != NULL && strstr(b->data, text) != NULL;
}

#define UPGRADE "POST /upgrade HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"

/* The head anew, what was read behind it, and a connection that the server knows nothing of. */
TEST(detached_connections_are_somebody_elses)
{
    static const struct {
        const char *request, *early;
    } rows[] = {
        {"GET /detach?a=1 HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
         "GET /else?where?a=1 HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"},
        {"POST /detach HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nso far",
         "POST /else?where HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nso far"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig rig;
        char c[8] = "";
        int fd;

        open_clean(&rig);
        fd = rig_client(&rig);
        detached = -1;
        early.len = 0;
        CHECK(rig_text(&rig, fd, rows[i].request));
        for (double end = rig_now() + RIG_DEADLINE_MS; detached < 0 && rig_now() < end;)
            rig_turn(&rig);
        CHECK(detached >= 0);
        CHECK(early.len == strlen(rows[i].early) &&
              memcmp(early.data, rows[i].early, early.len) == 0);
        /* What comes now is read by nobody but whom it was given to, also after the server's end.
         */
        CHECK_INT(send(fd, "more", 4, 0), 4);
        rig_turn(&rig);
        rig_close(&rig);
        CHECK_INT(recv(detached, c, sizeof(c), MSG_DONTWAIT), 4);
        CHECK_STR(c, "more");
        CHECK_INT(send(detached, "bye", 3, 0), 3);
        (void)close(detached);
        CHECK_INT(recv(fd, c, sizeof(c), MSG_DONTWAIT), 3);
        CHECK_INT(recv(fd, c, sizeof(c), MSG_DONTWAIT), 0);
        (void)close(fd);
    }
    buf_done(&early);
}

/* From within the handler and later: the head of the answer, what was read behind that of the
 * request, and a connection that the server knows nothing of. */
TEST(given_away_after_an_upgrade)
{
    static const char *const whens[] = {"now", "later"};

    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        char c[8] = "", text[200];
        int fd;

        open_clean(&rig);
        CHECK_INT(uv_timer_init(&rig.loop, &later), 0);
        fd = rig_client(&rig);
        detached = -1;
        unsent.len = unread.len = 0;
        (void)snprintf(text, sizeof(text),
                       "POST /give/%s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                       "Upgrade: tcp\r\nContent-Length: 0\r\n\r\nearly",
                       whens[i]);
        CHECK(rig_text(&rig, fd, text));
        for (double end = rig_now() + RIG_DEADLINE_MS; detached < 0 && rig_now() < end;)
            rig_turn(&rig);
        CHECK(detached >= 0);
        CHECK(buf_append(&unsent, "", 1) == 0);
        CHECK(strncmp(unsent.data, "HTTP/1.1 101 ", 13) == 0);
        CHECK(find(&unsent, "Connection: Upgrade\r\n") && find(&unsent, "Upgrade: tcp\r\n"));
        CHECK(strcmp(unsent.data + unsent.len - 5, "\r\n\r\n") == 0);
        CHECK(unread.len == 5 && memcmp(unread.data, "early", 5) == 0);
        for (double end = rig_now() + RIG_DEADLINE_MS;
             http_server_connections(rig.server) > 0 && rig_now() < end;)
            rig_turn(&rig);
        CHECK_INT(http_server_connections(rig.server), 0);
        CHECK_INT(send(fd, "more", 4, 0), 4);
        rig_turn(&rig);
        uv_close((uv_handle_t *)&later, NULL);
        rig_close(&rig);
        CHECK_INT(recv(detached, c, sizeof(c), MSG_DONTWAIT), 4);
        CHECK_STR(c, "more");
        (void)close(detached);
        CHECK_INT(recv(fd, c, sizeof(c), MSG_DONTWAIT), 0);
        (void)close(fd);
    }
    buf_done(&unsent);
    buf_done(&unread);
}

TEST(upgrade_with_early_data)
{
    static const char *const texts[] = {
        UPGRADE "Content-Length: 4\r\n\r\nbodyearly",
        UPGRADE "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\nearly",
    };

    for (size_t k = 0; k < 4; k++) {
        struct buf b = BUF_INIT(1 << 20);
        const char *text = texts[k % 2];
        struct rig rig;
        int fd;

        open_clean(&rig);
        S.echo = true;
        fd = rig_client(&rig);
        if (k < 2) {
            CHECK(rig_text(&rig, fd, text));
        } else {
            for (; *text != '\0'; text++)
                CHECK(rig_send(&rig, fd, text, 1));
        }
        CHECK(rig_expect(&rig, fd, &b, "early"));
        CHECK(strstr(b.data, "HTTP/1.1 101 Switching Protocols\r\n") == b.data);
        CHECK(find(&b, "Connection: Upgrade\r\n") && find(&b, "Upgrade: tcp\r\n"));
        CHECK(find(&b, "X-Stream: raw\r\n") && find(&b, "\r\n\r\nearly"));
        CHECK_STR(S.text, "bodyearly");
        CHECK(rig_text(&rig, fd, "GET /length HTTP/1.1\r\n\r\n")); /* is now only bytes */
        CHECK(rig_expect(&rig, fd, &b, "GET /length HTTP/1.1\r\n\r\n"));

        /* The client's half-close is told, and our direction goes on. */
        (void)shutdown(fd, SHUT_WR);
        for (int i = 0; i < 10; i++)
            rig_turn(&rig);
        CHECK_INT(S.ends, 1);
        CHECK_INT(S.gone, 0);
        (void)http_write(S.req, "after", 5);
        CHECK(rig_expect(&rig, fd, &b, "after"));
        http_end(take(S.req));
        CHECK(rig_drain(&rig, fd, &b));
        buf_done(&b);
        (void)close(fd);
        rig_close(&rig);
    }
}

/* A client whose connection has been upgraded; *b has the head. */
static int upgraded(struct rig *rig, struct buf *b)
{
    int fd = rig_client(rig);

    CHECK(rig_text(rig, fd, UPGRADE "\r\n"));
    CHECK(rig_expect(rig, fd, b, "\r\n\r\n"));
    return fd;
}

/* Lets the loop and its clock run. */
static void turn_for(struct rig *rig, int ms)
{
    for (double end = rig_now() + ms; rig_now() < end;)
        rig_turn(rig);
}

/* One read takes the head alone, however late it comes: docker-py loses what it reads with it. */
TEST(output_waits_for_the_head_to_be_read)
{
    for (int ends = 0; ends < 2; ends++) {
        struct buf b = BUF_INIT(1 << 20);
        struct rig rig;
        int fd;

        open_clean(&rig);
        S.said_at_once = "first";
        S.ends_at_once = ends == 1;
        fd = rig_client(&rig);
        CHECK(rig_text(&rig, fd, UPGRADE "\r\n"));
        turn_for(&rig, 30);
        CHECK(rig_read(&rig, fd, &b));
        CHECK(b.len > 4 && memcmp(b.data + b.len - 4, "\r\n\r\n", 4) == 0);
        CHECK(rig_expect(&rig, fd, &b, "\r\n\r\nfirst"));
        if (ends == 0) {
            (void)http_write(S.req, "second", 6); /* at once, now */
            CHECK(rig_read(&rig, fd, &b));
            CHECK(find(&b, "firstsecond"));
            http_end(take(S.req));
        }
        CHECK(rig_drain(&rig, fd, &b));
        buf_done(&b);
        (void)close(fd);
        rig_close(&rig);
    }
}

/* Nor does it wait for ever, or longer than its client is there. */
TEST(heads_that_are_not_read)
{
    struct buf b = BUF_INIT(1 << 20);
    double end = rig_now() + RIG_DEADLINE_MS;
    int fd, gone, there = 0, head = 0;
    struct rig rig;

    open_clean(&rig);
    S.said_at_once = "first";
    gone = rig_client(&rig);
    CHECK(rig_text(&rig, gone, UPGRADE "\r\n"));
    turn_for(&rig, 5);
    (void)close(gone);
    turn_for(&rig, 5);
    CHECK_INT(S.gone, 1);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, UPGRADE "\r\n"));
    turn_for(&rig, 5);
    CHECK_INT(ioctl(fd, FIONREAD, &head), 0);
    do {
        turn_for(&rig, 5);
        CHECK_INT(ioctl(fd, FIONREAD, &there), 0);
    } while (there == head && rig_now() < end);
    CHECK_INT(there, head + 5);
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\nfirst"));
    http_end(take(S.req));
    CHECK(rig_drain(&rig, fd, &b));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

/* Who closes all of it is gone, and has not half-closed. */
TEST(upgrade_closed_by_the_client)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    open_clean(&rig);
    fd = upgraded(&rig, &b);
    (void)close(fd);
    for (int i = 0; i < 20; i++)
        rig_turn(&rig);
    CHECK_INT(S.ends, 0);
    CHECK_INT(S.gone, 1);
    buf_done(&b);
    rig_close(&rig);
}

/* Echo to a client that sends and does not read, then reads all: no byte lost, no memory grown. */
TEST(upgrade_full_duplex)
{
    struct buf b = BUF_INIT(64 << 20);
    static char data[4 << 20];
    struct rig rig;
    size_t sent = 0, head, most = 0;
    double end = rig_now() + RIG_DEADLINE_MS;
    int fd;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 31 + (i >> 9));
    open_clean(&rig);
    S.echo = true;
    fd = upgraded(&rig, &b);
    head = b.len;
    for (int idle = 0; idle < 20;) {
        ssize_t n = send(fd, data + sent, sizeof(data) - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        rig_turn(&rig);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        most = http_queued(S.req) > most ? http_queued(S.req) : most;
    }
    printf("# the server holds %zu of %zu bytes for a client that does not read\n", most, sent);
    CHECK(sent < sizeof(data));
    CHECK(most <= HTTP_QUEUE_PAUSE + 65536);
    while (b.len - head < sizeof(data) && rig_now() < end) {
        ssize_t n = send(fd, data + sent, sizeof(data) - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        sent += n > 0 ? (size_t)n : 0;
        CHECK(rig_read(&rig, fd, &b));
    }
    CHECK_INT(b.len - head, sizeof(data));
    CHECK(memcmp(b.data + head, data, sizeof(data)) == 0);
    CHECK(S.drained > 0);
    buf_done(&b);
    (void)close(fd);
    for (int i = 0; i < 20; i++)
        rig_turn(&rig);
    CHECK_INT(S.gone, 1);
    rig_close(&rig);
}
enum { PIECE = 64 << 10 };

/* As a taker of output does: a head, and then what a pipe has. Whether the client is to be waited
 * for. */
static bool write_piece(int pipe[2], char fill)
{
    static char piece[PIECE];

    (void)memset(piece, fill, sizeof(piece));
    CHECK_INT(write(pipe[1], piece, sizeof(piece)), sizeof(piece));
    (void)http_write(S.req, "head", 4);
    return http_write_pipe(S.req, pipe[0], sizeof(piece));
}

static void open_pipe(int pipe[2], int flags)
{
    (void)signal(SIGPIPE, SIG_IGN);
    CHECK_INT(pipe2(pipe, O_CLOEXEC | O_NONBLOCK | flags), 0);
}

static void close_pipe(int pipe[2])
{
    (void)close(pipe[0]);
    (void)close(pipe[1]);
}

/* What the socket has no room for waits in the queue, behind what went, and the pipe is empty. */
static void from_a_pipe(int flags)
{
    struct buf b = BUF_INIT(4 << 20);
    size_t pieces = 0, head, at;
    bool direct = false;
    struct rig rig;
    int fd, pipe[2];
    char c;

    open_clean(&rig);
    open_pipe(pipe, flags);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, UPGRADE "\r\n"));
    CHECK(!http_all_taken(S.req));
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\n"));
    head = b.len;
    CHECK(http_all_taken(S.req));
    for (bool full = false; !full && pieces < 26; pieces++) {
        full = write_piece(pipe, (char)('a' + pieces));
        direct = direct || http_queued(S.req) == 0;
        CHECK(!http_all_taken(S.req));
        CHECK(read(pipe[0], &c, 1) < 0 && errno == EAGAIN);
    }
    CHECK(direct);
    CHECK(pieces < 26);
    CHECK(http_queued(S.req) > HTTP_QUEUE_PAUSE);
    for (double end = rig_now() + RIG_DEADLINE_MS;
         b.len - head < pieces * (PIECE + 4) && rig_now() < end;)
        CHECK(rig_read(&rig, fd, &b));
    CHECK_INT(b.len - head, pieces * (PIECE + 4));
    CHECK(S.drained > 0);
    CHECK(http_all_taken(S.req));
    at = head;
    for (size_t i = 0; i < pieces; i++, at += PIECE + 4) {
        CHECK(memcmp(b.data + at, "head", 4) == 0);
        CHECK(b.data[at + 4] == (char)('a' + i));
        CHECK(memcmp(b.data + at + 4, b.data + at + 5, PIECE - 1) == 0);
    }
    http_end(take(S.req));
    CHECK(rig_drain(&rig, fd, &b));
    buf_done(&b);
    (void)close(fd);
    close_pipe(pipe);
    rig_close(&rig);
}

TEST(upgrade_from_a_pipe)
{
    from_a_pipe(0);
}

/* Where one read gives a page at most. */
TEST(upgrade_from_a_pipe_of_packets)
{
    from_a_pipe(O_DIRECT);
}

/* A pipe that has less than was said: what is announced and does not come ends the connection. */
TEST(upgrade_from_a_pipe_that_has_less)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd, pipe[2];

    open_clean(&rig);
    open_pipe(pipe, 0);
    fd = upgraded(&rig, &b);
    CHECK_INT(write(pipe[1], "less", 4), 4);
    CHECK(http_write_pipe(S.req, pipe[0], 5));
    CHECK(rig_drain(&rig, fd, &b));
    CHECK(find(&b, "\r\n\r\nless"));
    CHECK_INT(S.gone, 1);
    buf_done(&b);
    (void)close(fd);
    close_pipe(pipe);
    rig_close(&rig);
}

/* A client that has gone, as we do not know yet. */
TEST(upgrade_from_a_pipe_to_nobody)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd, pipe[2];

    open_clean(&rig);
    open_pipe(pipe, 0);
    fd = upgraded(&rig, &b);
    (void)close(fd);
    CHECK_INT(write(pipe[1], "piece", 5), 5);
    (void)http_write_pipe(S.req, pipe[0], 5);
    for (double end = rig_now() + RIG_DEADLINE_MS; S.gone == 0 && rig_now() < end;)
        rig_turn(&rig);
    CHECK_INT(S.gone, 1);
    buf_done(&b);
    close_pipe(pipe);
    rig_close(&rig);
}

TAP_MAIN
