/* Listening sockets: who is at the other end, a thousand of them, more than allowed, and no
 * descriptors left. */

#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "http-rig.h"

static struct http_request *kept;
static size_t gone_count;

static void get_hello(struct http_request *req)
{
    http_reply(req, 200, NULL, "text/plain", "hello", 5);
}

static void on_gone(struct http_request *req)
{
    gone_count++;
    CHECK(req->gone);
}

static void get_later(struct http_request *req)
{
    req->on_gone = on_gone;
    kept = req;
}

static void get_peer(struct http_request *req)
{
    const struct http_peer *p = http_peer(req);
    char text[128];
    int n = snprintf(text, sizeof(text), "%d %d %d %d %zu %d", p->known, (int)p->pid, (int)p->uid,
                     (int)p->gid, p->group_count, p->group_count > 0 ? (int)p->groups[0] : -1);

    http_reply(req, 200, NULL, "text/plain", text, (size_t)n);
}

static const struct route routes[] = {
    {"GET", "/hello", get_hello, 0, 0},
    {"GET", "/later", get_later, 0, 0},
    {"GET", "/peer", get_peer, 0, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

TEST(the_peers_user_is_known)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    char want[128];
    gid_t groups[64];
    int fd, n = getgroups(64, groups);

    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /peer HTTP/1.1\r\n\r\n"));
    (void)snprintf(want, sizeof(want), "1 %d %d %d %d %d", (int)getpid(), (int)getuid(),
                   (int)getgid(), n, n > 0 ? (int)groups[0] : -1);
    CHECK(rig_expect(&rig, fd, &b, want));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

static int listen_at(struct sockaddr_un *addr)
{
    static unsigned n;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr->sun_family = AF_UNIX;
    (void)snprintf(addr->sun_path, sizeof(addr->sun_path), "/tmp/rind-test-http.%d.%u",
                   (int)getpid(), n++);
    (void)unlink(addr->sun_path);
    if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)) < 0 || listen(fd, 512) < 0)
        abort();
    return fd;
}

static int connect_to(struct rig *rig, const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    while (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0) {
        if (errno != EAGAIN)
            abort();
        rig_turn(rig); /* the backlog is full */
    }
    return fd;
}

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        abort();
    (void)fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* What a thousand connections may keep. Under TSan every page in use has others that shadow it. */
#ifdef __SANITIZE_THREAD__
enum { THOUSAND_KIB = 64 << 10 };
#else
enum { THOUSAND_KIB = 16 << 10 };
#endif

/* A thousand idle clients, each of which has begun a head; another one is served at once. */
TEST(thousand_connections)
{
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    struct sockaddr_un addr = {0};
    struct buf b = BUF_INIT(1 << 20);
    struct err err = ERR_NONE;
    static int fds[1100];
    struct rig rig;
    double start;
    long before;
    int refused = 0;

    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        SKIP("cannot have 4096 descriptors");
    rig_open(&rig, NULL, sets);
    CHECK_INT(http_server_listen(rig.server, listen_at(&addr), &err), 0);
    before = resident_kib();
    for (int i = 0; i < 1000; i++) {
        fds[i] = connect_to(&rig, &addr);
        CHECK(rig_text(&rig, fds[i], "GET /hel"));
    }
    printf("# 1000 connections: %ld KiB\n", resident_kib() - before);
    CHECK_INT(http_server_connections(rig.server), 1000);
    CHECK(resident_kib() - before < THOUSAND_KIB);

    fds[1000] = connect_to(&rig, &addr);
    start = rig_now();
    CHECK(rig_text(&rig, fds[1000], "GET /hello HTTP/1.1\r\n\r\n"));
    CHECK(rig_expect(&rig, fds[1000], &b, "hello"));
    printf("# one more is served in %.2f ms\n", rig_now() - start);
    CHECK(rig_now() - start < 50);
    buf_done(&b);

    /* Beyond the limit: said so. */
    for (int i = 1001; i < 1100; i++)
        fds[i] = connect_to(&rig, &addr);
    for (int i = 1001; i < 1100; i++) {
        bool there;

        there = rig_read(&rig, fds[i], &b);
        refused += rig_status(b.data, 0) == 503 || !there;
        buf_done(&b);
    }
    CHECK_INT(refused, 1100 - HTTP_MAX_CONNECTIONS);
    for (int i = 0; i < 1100; i++)
        (void)close(fds[i]);
    for (int i = 0; i < 200 && http_server_connections(rig.server) > 0; i++)
        rig_turn(&rig);
    CHECK_INT(http_server_connections(rig.server), 0);
    (void)unlink(addr.sun_path);
    rig_close(&rig);
}

/* TCP: no credentials, and a client that resets is gone. */
TEST(tcp_listens_where_it_is_told)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);
    struct buf b = BUF_INIT(1 << 20);
    struct err err = ERR_NONE;
    double end = rig_now() + RIG_DEADLINE_MS;
    struct rig rig;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    rig_open(&rig, NULL, sets);
    CHECK_INT(http_server_listen(rig.server, fd, &err), -EINVAL);
    CHECK_STR(err.msg, "the socket does not listen");
    CHECK_INT(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    CHECK_INT(listen(listener, 8), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    CHECK_INT(http_server_listen(rig.server, listener, &err), 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    CHECK(rig_text(&rig, fd, "GET /peer HTTP/1.1\r\n\r\nGET /later HTTP/1.1\r\n\r\n"));
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\n0 0 0 0 0 -1"));
    while (kept == NULL && rig_now() < end)
        rig_turn(&rig);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)close(fd);
    while (gone_count == 0 && rig_now() < end)
        rig_turn(&rig);
    CHECK_INT(gone_count, 1);
    http_reply(kept, 200, NULL, NULL, NULL, 0);
    buf_done(&b);
    rig_close(&rig);
}

/* A client of another user: it knows who, and one user cannot take every connection. In a process
 * of its own. */
static void as_nobody(const struct sockaddr_un *addr)
{
    const gid_t groups[] = {4242, 4343};

    if (setgroups(2, groups) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
        _exit(1);
    for (int i = 0; i < 8; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0)
            _exit(2);
        if (i == 0 && write(fd, "GET /peer HTTP/1.1\r\n\r\n", 22) != 22)
            _exit(3);
    }
    (void)pause();
}

TEST(only_the_owner_and_the_group_connect)
{
    struct sockaddr_un addr = {0};
    struct err err = ERR_NONE;
    struct http_config config;
    double end = rig_now() + RIG_DEADLINE_MS;
    struct rig rig;
    pid_t pid;
    int fd;

    if (getuid() != 0)
        SKIP("not root");
    http_config_init(&config);
    config.max_connections_uid = 4;
    rig_open(&rig, &config, sets);
    CHECK_INT(http_server_listen(rig.server, listen_at(&addr), &err), 0);
    (void)chmod(addr.sun_path, 0666);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0)
        as_nobody(&addr);
    while (http_server_connections(rig.server) < 4 && rig_now() < end)
        rig_turn(&rig);
    for (int i = 0; i < 50; i++) {
        rig_turn(&rig);
        (void)poll(NULL, 0, 2);
    }
    /* Four of them, and those that linger after having been refused; root is not bound. */
    CHECK(http_server_connections(rig.server) <= 8);
    fd = connect_to(&rig, &addr);
    {
        struct buf b = BUF_INIT(1 << 20);

        CHECK(rig_text(&rig, fd, "GET /hello HTTP/1.1\r\n\r\n"));
        CHECK(rig_expect(&rig, fd, &b, "hello"));
        buf_done(&b);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(fd);
    (void)unlink(addr.sun_path);
    rig_close(&rig);
}

/* No descriptor left: the client is turned away, the listener does not spin, and goes on when there
 * is one. */
TEST(out_of_descriptors)
{
    struct rlimit old, limit;
    struct sockaddr_un addr = {0};
    struct buf b = BUF_INIT(1 << 20);
    struct err err = ERR_NONE;
    int fds[64], n = 0, fd, last;
    struct rig rig;

    rig_open(&rig, NULL, sets);
    CHECK_INT(http_server_listen(rig.server, listen_at(&addr), &err), 0);
    fd = connect_to(&rig, &addr);
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    last = dup(0);
    (void)close(last);
    limit = (struct rlimit){.rlim_cur = (rlim_t)last + 8, .rlim_max = old.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (n < 64 && (fds[n] = dup(0)) >= 0)
        n++;
    CHECK(rig_text(&rig, fd, "GET /hello HTTP/1.1\r\n\r\n"));
    CHECK(rig_drain(&rig, fd, &b));
    CHECK(b.data == NULL || rig_status(b.data, 0) == 503);
    buf_done(&b);
    (void)close(fd);
    for (int i = 0; i < n; i++)
        (void)close(fds[i]);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    fd = connect_to(&rig, &addr);
    CHECK(rig_text(&rig, fd, "GET /hello HTTP/1.1\r\n\r\n"));
    CHECK(rig_expect(&rig, fd, &b, "hello"));
    buf_done(&b);
    (void)close(fd);
    (void)unlink(addr.sun_path);
    rig_close(&rig);
}

TAP_MAIN
