/*
 * The sidecar personality against what workerd does: a child is the daemon (supervisor and
 * launcher) with one sandbox and its sidecar; this process is workerd on the host, and by sockets
 * of the sandbox's own namespace the app inside. Needs root.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "daemon/supervisor.h"
#include "image/embed.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "policy/publish.h"
#include "ports/network.h"
#include "proto/rmtree.h"
#include "sandbox/channel.h"
#include "sandbox/paths.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-internal.h"
#include "spec/spec.h"
#include "tap.h"
#include "workerd/sidecar.h"

enum { LIMIT_S = 120, WAIT_MS = 15000 };

/* ---- the daemon ---- */

struct told {
    pid_t pid;
    uint16_t port;
    char message[480];
};

struct world {
    uv_loop_t loop;
    uv_poll_t control;
    struct supervisor *sup;
    struct sandbox *s;
    uint16_t handler;
    int told, orders;
};

static int launcher_child(const char *dir, int sock)
{
    static const char *const prefixes[] = {"/", NULL};
    static struct publish_rules rules;
    static struct network network;
    const struct net_config net = {.pools4 = NULL};
    struct launcher_config config = {.state_dir = dir,
                                     .ids_dir = CORE_IDS_DIR,
                                     .bind_prefixes = prefixes,
                                     .publish = &rules,
                                     .init_image = embed_init().data,
                                     .init_size = embed_init().len};
    struct err err = ERR_NONE;
    struct launcher *l;

    if (publish_rules_any(&rules) < 0 || network_open(&network, &net, NULL, &err) < 0) {
        (void)fprintf(stderr, "# launcher: %s\n", err.msg);
        return 1;
    }
    config.net = &network.ops;
    if (launcher_open(&config, &l, &err) < 0 || launcher_recover(l, &err) < 0 ||
        launcher_serve(l, sock, &err) < 0) {
        (void)fprintf(stderr, "# launcher: %s\n", err.msg);
        return 1;
    }
    launcher_free(l);
    return 0;
}

/* Of init, on the host. */
static pid_t init_pid(const struct sandbox *s)
{
    char path[64], text[512] = "";
    const char *at;
    int fd;

    if (s->channel == NULL)
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", channel_pidfd(s->channel));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    (void)!read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    at = strstr(text, "\nPid:");
    return at != NULL ? atoi(at + 5) : 0;
}

static void tell(struct world *w, uint16_t port, const struct err *err)
{
    struct told t = {.port = port, .pid = init_pid(w->s)};

    (void)snprintf(t.message, sizeof(t.message), "%s", err != NULL ? err->msg : "");
    (void)!write(w->told, &t, sizeof(t));
}

static void on_sidecar(void *data, int r, uint16_t port, const struct err *err)
{
    tell(data, r == 0 ? port : 0, err);
}

static void on_started(void *data, int r, const struct err *err)
{
    struct world *w = data;
    const struct sidecar_config config = {.egress_port = w->handler, .tls = true, .dns = true};
    struct err own = ERR_NONE;

    if (r < 0 || sidecar_start(w->s, &config, on_sidecar, w, &own) < 0)
        tell(w, 0, r < 0 ? err : &own);
}

static void on_ready(void *data)
{
    struct world *w = data;
    const struct caller owner = {.uid = 0, .fd = -1};
    char sleep_[] = "/bin/sleep", time_[] = "1000";
    char *argv[] = {sleep_, time_, NULL};
    struct spec *spec = spec_new();
    struct err err = ERR_NONE;

    if (spec_set_command(spec, argv, &err) < 0 || spec_set_network(spec, "none", &err) < 0 ||
        sandbox_create(w->sup, spec, &owner, true, on_started, w, &w->s, &err) < 0)
        (void)fprintf(stderr, "# create: %s\n", err.msg);
}

static void on_gone(void *data)
{
    uv_stop(&((struct world *)data)->loop);
}

static void on_removed(void *data, int r, const struct err *err)
{
    (void)r;
    (void)err;
    uv_stop(&((struct world *)data)->loop);
}

/* 's': stop the sidecar; 'a': start another beside it; end of file: end. */
static void on_order(uv_poll_t *h, int status, int events)
{
    struct world *w = h->data;
    const struct sidecar_config config = {.egress_port = 1};
    struct err err = ERR_NONE;
    char c;

    (void)status;
    (void)events;
    if (read(w->orders, &c, 1) != 1) {
        (void)uv_poll_stop(h);
        if (sandbox_remove(w->s, true, on_removed, w, &err) < 0)
            uv_stop(&w->loop);
    } else if (c == 's') {
        sidecar_stop(w->s);
        tell(w, sidecar_port(w->s), NULL);
    } else {
        tell(w, sidecar_start(w->s, &config, NULL, NULL, &err) == 0, &err);
    }
}

static int daemon_child(const char *dir, uint16_t handler, int told, int orders)
{
    static struct world w;
    struct supervisor_config config = {.limits = supervisor_limits_default(), .tree = ""};
    struct err err = ERR_NONE;
    int pair[2], base, root, state = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;
    pid_t launcher;

    w.handler = handler;
    w.told = told;
    w.orders = orders;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
        image_default_layers(state, &base, &root, &err) < 0)
        return 1;
    (void)signal(SIGPIPE, SIG_IGN);
    launcher = fork();
    if (launcher == 0) {
        (void)close(pair[0]);
        _exit(launcher_child(dir, pair[1]));
    }
    (void)close(pair[1]);
    (void)uv_loop_init(&w.loop);
    (void)mkdirat(state, "supervisor", 0700);
    config.loop = &w.loop;
    config.launcher = pair[0];
    config.dir_fd = openat(state, "supervisor", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    config.shim_fd = memfd_program("shim", embed_shim().data, embed_shim().len);
    config.on_ready = on_ready;
    config.on_gone = on_gone;
    config.data = &w;
    if (policies_load(state, NULL, &config.policies, &err) < 0 ||
        supervisor_new(&config, &w.sup, &err) < 0) {
        (void)fprintf(stderr, "# supervisor: %s\n", err.msg);
        return 1;
    }
    (void)uv_poll_init(&w.loop, &w.control, orders);
    w.control.data = &w;
    (void)uv_poll_start(&w.control, UV_READABLE, on_order);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&w.control, NULL);
    supervisor_close(w.sup);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&w.loop) != 0)
        return 2;
    supervisor_free(w.sup);
    return waitpid(launcher, &status, 0) == launcher && status == 0 ? 0 : 3;
}

/* ---- workerd, and the app ---- */

static struct {
    char dir[64];
    pid_t daemon;
    int told, orders; /* pipes */
    int handler;      /* listens on the host's loopback */
    uint16_t handler_port;
    struct told at;
    int home;
} T;

static void impatient(int fd)
{
    const struct timeval t = {.tv_sec = WAIT_MS / 1000};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
}

static int listen_on(uint16_t port, uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_INT(listen(fd, 8), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    impatient(fd);
    if (ret_port != NULL)
        *ret_port = ntohs(a.sin_port);
    return fd;
}

static void inside(bool in)
{
    char path[64];
    int fd;

    if (!in) {
        CHECK_INT(setns(T.home, CLONE_NEWNET), 0);
        return;
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)T.at.pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_INT(setns(fd, CLONE_NEWNET), 0);
    (void)close(fd);
}

/* A socket of the app's. */
static int app_socket(int type)
{
    int fd;

    inside(true);
    fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    inside(false);
    impatient(fd);
    return fd;
}

static int connect_to(int fd, const char *address, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

    (void)inet_pton(AF_INET, address, &a.sin_addr);
    return connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ? -errno : 0;
}

static int app_connect(const char *address, uint16_t port)
{
    int fd = app_socket(SOCK_STREAM);

    CHECK_INT(connect_to(fd, address, port), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), (long)strlen(text));
}

/* All there is up to `end`, or to the end of the stream (NULL); a reset is "RESET". */
static const char *hear(int fd, const char *end)
{
    static char text[16384];
    size_t len = 0;
    ssize_t n = 0;

    text[0] = '\0';
    while (len + 1 < sizeof(text) && (end == NULL || strstr(text, end) == NULL) &&
           (n = recv(fd, text + len, end == NULL ? sizeof(text) - len - 1 : 1, 0)) > 0) {
        len += (size_t)n;
        text[len] = '\0';
    }
    if (n < 0 && errno == ECONNRESET)
        (void)snprintf(text, sizeof(text), "RESET");
    return text;
}

/* A connection that the handler gets, and what it is asked. */
static int asked(char *head, size_t size)
{
    int fd = accept(T.handler, NULL, NULL);

    CHECK(fd >= 0);
    impatient(fd);
    (void)snprintf(head, size, "%s", hear(fd, "\r\n\r\n"));
    return fd;
}

static int ingress(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_INT(connect_to(fd, "127.0.0.1", T.at.port), 0);
    impatient(fd);
    return fd;
}

static const char *request(const char *text)
{
    int fd = ingress();
    const char *answer;

    say(fd, text);
    answer = hear(fd, NULL);
    (void)close(fd);
    return answer;
}

static const char *put(const char *json)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "PUT /egress HTTP/1.1\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(json), json);
    return request(text);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

#define CHECK_BEGINS(text, with)                                                                   \
    do {                                                                                           \
        const char *text_ = (text);                                                                \
        if (!begins(text_, with))                                                                  \
            tap_fail("\"%.100s\" does not begin with \"%s\"", text_, with);                        \
    } while (0)

static void open_all(void)
{
    int told[2], orders[2];

    if (T.daemon != 0)
        return;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)alarm(LIMIT_S);
    (void)strcpy(T.dir, "/tmp/rind-sidecar-XXXXXX");
    CHECK(mkdtemp(T.dir) != NULL);
    T.home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    T.handler = listen_on(0, &T.handler_port);
    CHECK_INT(pipe2(told, O_CLOEXEC), 0);
    CHECK_INT(pipe2(orders, O_CLOEXEC), 0);
    (void)fflush(stdout);
    T.daemon = fork();
    if (T.daemon == 0) {
        (void)close(told[0]);
        (void)close(orders[1]);
        _exit(daemon_child(T.dir, T.handler_port, told[1], orders[0]));
    }
    (void)close(told[1]);
    (void)close(orders[0]);
    T.told = told[0];
    T.orders = orders[1];
    CHECK_INT(read(T.told, &T.at, sizeof(T.at)), sizeof(T.at));
    CHECK_STR(T.at.message, "");
    CHECK(T.at.port != 0);
}

TEST(it_listens_when_it_says_so)
{
    open_all();
    CHECK_BEGINS(put("{\"port\":1}"), "HTTP/1.1 204 ");
    CHECK_BEGINS(request("GET /ca HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 ");
    CHECK(strstr(request("GET /ca HTTP/1.1\r\n\r\n"), "BEGIN CERTIFICATE") != NULL);
}

TEST(what_the_ingress_refuses)
{
    CHECK_BEGINS(request("GET /other HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 ");
    CHECK_BEGINS(request("POST /egress HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 ");
    CHECK_BEGINS(request("PUT /ca HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 ");
    CHECK_BEGINS(put(""), "HTTP/1.1 400 ");
    CHECK_BEGINS(put("{"), "HTTP/1.1 400 ");
    CHECK_BEGINS(put("{\"port\":0}"), "HTTP/1.1 400 ");
    CHECK_BEGINS(put("{\"internet\":{\"enabled\":1}}"), "HTTP/1.1 400 ");
    CHECK_BEGINS(put("{\"dns\":{\"allowHostnames\":[\"a b\"]}}"), "HTTP/1.1 400 ");
    CHECK_BEGINS(put("{\"dns\":{\"allowHostnames\":\"a\"}}"), "HTTP/1.1 400 ");
    CHECK_BEGINS(request("nonsense\r\n\r\n"), "HTTP/1.1 400 ");
    CHECK_BEGINS(request("CONNECT x HTTP/1.1\r\nX-Dst-Addr: nowhere\r\n\r\n"), "HTTP/1.1 422 ");
    CHECK_BEGINS(request("CONNECT 10.0.0.1:80 HTTP/1.1\r\nX-Dst-Addr: 10.0.0.1:80\r\n\r\n"),
                 "HTTP/1.1 403 ");
    CHECK_BEGINS(request("PUT /egress HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
                 "HTTP/1.1 413 ");
}

/* Its answer is there, and it goes on and on: it is cut off, and others are served meanwhile. */
TEST(a_client_that_does_not_stop)
{
    static char much[256 << 10];
    pid_t child = fork();
    int fd, status;

    CHECK(child >= 0);
    if (child == 0) {
        fd = ingress();
        say(fd, "GET /other HTTP/1.1\r\n\r\n");
        while (send(fd, much, sizeof(much), MSG_NOSIGNAL) > 0)
            ;
        _exit(0);
    }
    CHECK_BEGINS(request("GET /ca HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 ");
    CHECK_INT(waitpid(child, &status, 0), child);
    CHECK_INT(status, 0);
}

TEST(into_the_network)
{
    static const char connect_[] =
        "CONNECT 127.0.0.1:7000 HTTP/1.1\r\nX-Dst-Addr: 127.0.0.1:7000\r\n\r\n";
    int server, fd, c;

    CHECK_BEGINS(request(connect_), "HTTP/1.1 400 "); /* nobody listens */
    inside(true);
    server = listen_on(7000, NULL);
    inside(false);
    fd = ingress();
    say(fd, connect_);
    say(fd, "early"); /* in one packet with the head, perhaps */
    CHECK_STR(hear(fd, "\r\n\r\n"), "HTTP/1.1 200 OK\r\n\r\n");
    c = accept(server, NULL, NULL);
    impatient(c);
    CHECK_STR(hear(c, "early"), "early");
    say(c, "late");
    CHECK_INT(shutdown(fd, SHUT_WR), 0); /* half closed: the other direction goes on */
    CHECK_STR(hear(c, NULL), "");
    say(c, "r");
    (void)close(c);
    CHECK_STR(hear(fd, NULL), "later");
    (void)close(fd);
    (void)close(server);
}

static void point_at(uint16_t port)
{
    char json[64];

    (void)snprintf(json, sizeof(json), "{\"port\":%u}", port);
    CHECK_BEGINS(put(json), "HTTP/1.1 204 ");
}

TEST(out_of_the_network)
{
    char head[4096];
    int app, h;

    point_at(T.handler_port);
    /* A server that speaks first is not held up. */
    app = app_connect("192.0.2.1", 25);
    h = asked(head, sizeof(head));
    CHECK_BEGINS(head, "CONNECT 192.0.2.1:25 HTTP/1.1\r\n");
    CHECK(strstr(head, "X-Tls-Sni") == NULL && strstr(head, "X-Hostname") == NULL);
    say(h, "HTTP/1.1 202 Accepted\r\n\r\n220 hello\r\n");
    CHECK_STR(hear(app, "\n"), "220 hello\r\n");
    say(app, "EHLO\r\n");
    CHECK_STR(hear(h, "\n"), "EHLO\r\n");
    (void)close(h);
    CHECK_STR(hear(app, NULL), "");
    (void)close(app);
    /* HTTP shows its host, at port 80 as at any other. */
    app = app_connect("192.0.2.1", 80);
    say(app, "GET /x HTTP/1.1\r\nHost: Api.Example:80\r\n\r\n");
    h = asked(head, sizeof(head));
    CHECK(strstr(head, "X-Hostname: api.example\r\n") != NULL);
    say(h, "HTTP/1.1 200 OK\r\n\r\n");
    CHECK_BEGINS(hear(h, "\r\n\r\n"), "GET /x HTTP/1.1\r\n");
    (void)close(h);
    (void)close(app);
    app = app_connect("192.0.2.1", 8080);
    say(app, "GET /x HTTP/1.1\r\nHost: api.example\r\n\r\n");
    h = asked(head, sizeof(head));
    CHECK_BEGINS(head, "CONNECT 192.0.2.1:8080 HTTP/1.1\r\n");
    CHECK(strstr(head, "X-Hostname: api.example\r\n") != NULL);
    (void)close(h);
    CHECK_STR(hear(app, NULL), "RESET"); /* no answer at all */
    (void)close(app);
    app = app_connect("192.0.2.1", 8080);
    say(app, "neither TLS nor HTTP\r\n");
    h = asked(head, sizeof(head));
    CHECK(strstr(head, "X-Hostname") == NULL);
    (void)close(h);
    CHECK_STR(hear(app, NULL), "RESET");
    (void)close(app);
}

TEST(refused_connections_are_reset)
{
    static const char *const answers[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                          "HTTP/1.1 503 x\r\n\r\n", "HTTP/1.1 302 x\r\n\r\n",
                                          "nonsense\r\n\r\n"};
    char head[4096];

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        int app = app_connect("192.0.2.1", 9), h;

        say(app, "hi");
        h = asked(head, sizeof(head));
        say(h, answers[i]);
        CHECK_STR(hear(app, NULL), "RESET");
        (void)close(h);
        (void)close(app);
    }
    point_at(1); /* nobody listens there */
    int app = app_connect("192.0.2.1", 9);
    CHECK_STR(hear(app, NULL), "RESET");
    (void)close(app);
    point_at(T.handler_port);
}

/* ---- TLS ---- */

static X509_STORE *trusted(void)
{
    X509_STORE *store = X509_STORE_new();
    const char *pem = strstr(request("GET /ca HTTP/1.1\r\n\r\n"), "-----BEGIN");
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    CHECK(cert != NULL && X509_STORE_add_cert(store, cert) == 1);
    X509_free(cert);
    BIO_free(bio);
    return store;
}

/* The app's side, in a process of its own: what it hears, or "failed". */
static pid_t tls_app(int fd, int out)
{
    pid_t pid;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl;
    char text[64] = "failed";
    int n;

    SSL_CTX_set_cert_store(ctx, trusted());
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    pid = fork();
    if (pid != 0) {
        SSL_CTX_free(ctx);
        return pid;
    }
    ssl = SSL_new(ctx);
    (void)SSL_set_fd(ssl, fd);
    (void)SSL_set_tlsext_host_name(ssl, "secure.example");
    (void)SSL_set1_host(ssl, "secure.example");
    if (SSL_connect(ssl) == 1 && SSL_write(ssl, "ping\n", 5) == 5 &&
        (n = SSL_read(ssl, text, sizeof(text) - 1)) > 0)
        text[n] = '\0';
    (void)!write(out, text, strlen(text));
    _exit(0);
}

TEST(tls_is_served_with_a_certificate_of_the_name)
{
    char head[4096];
    int pipes[2], app = app_connect("192.0.2.1", 443), h;
    pid_t pid;

    CHECK_INT(pipe2(pipes, O_CLOEXEC), 0);
    pid = tls_app(app, pipes[1]);
    h = asked(head, sizeof(head));
    CHECK_BEGINS(head, "CONNECT 192.0.2.1:443 HTTP/1.1\r\n");
    CHECK(strstr(head, "X-Tls-Sni: secure.example\r\n") != NULL);
    say(h, "HTTP/1.1 200 OK\r\n\r\n");
    CHECK_STR(hear(h, "\n"), "ping\n"); /* plain */
    say(h, "pong");
    char text[64] = "";
    CHECK_INT(read(pipes[0], text, sizeof(text) - 1), 4);
    CHECK_STR(text, "pong");
    (void)waitpid(pid, NULL, 0);
    (void)close(h);
    (void)close(app);
    /* 202: end to end, whatever it is. */
    app = app_connect("192.0.2.1", 443);
    pid = tls_app(app, pipes[1]);
    h = asked(head, sizeof(head));
    say(h, "HTTP/1.1 202 Accepted\r\n\r\n");
    unsigned char first = 0;
    CHECK_INT(recv(h, &first, 1, 0), 1);
    CHECK_INT(first, 22);
    (void)close(h);
    CHECK_INT(read(pipes[0], text, sizeof(text) - 1), 6);
    (void)waitpid(pid, NULL, 0);
    (void)close(app);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

/* ---- names, and no internet ---- */

/* rcode of the answer for A of a one-label name below "example", and the address. */
static int ask_name(char label, unsigned char address[4])
{
    unsigned char q[] = {0, 7,   1,   0,   0,   1,   0,   0,   0, 0, 0, 0, 1, (unsigned char)label,
                         7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 1, 0, 1};
    unsigned char a[512];
    int fd = app_socket(SOCK_DGRAM), rcode = -1;
    ssize_t n;

    CHECK_INT(connect_to(fd, "1.1.1.1", 53), 0);
    CHECK_INT(send(fd, q, sizeof(q), 0), sizeof(q));
    n = recv(fd, a, sizeof(a), 0);
    if (n > 12 && a[1] == 7)
        rcode = a[3] & 15;
    if (n > 4 && a[7] == 1)
        (void)memcpy(address, a + n - 4, 4); /* no EDNS was asked for: the record is the last */
    (void)close(fd);
    return rcode;
}

TEST(without_the_internet)
{
    static const unsigned char stand[4] = {11, 0, 0, 1};
    unsigned char address[4] = {0};
    int fd, app, h;
    char head[4096];

    CHECK_BEGINS(
        put("{\"dns\":{\"allowHostnames\":[\"a.example\"]},\"internet\":{\"enabled\":false}}"),
        "HTTP/1.1 204 ");
    CHECK_INT(ask_name('a', address), 0);
    CHECK(memcmp(address, stand, 4) == 0);
    CHECK_INT(ask_name('b', address), 3);
    CHECK_BEGINS(put("{\"dns\":{\"allowHostnames\":[]}}"), "HTTP/1.1 204 ");
    CHECK_INT(ask_name('a', address), 3);
    CHECK_BEGINS(put("{\"dns\":{\"allowHostnames\":[\"*\"]}}"), "HTTP/1.1 204 ");
    CHECK_INT(ask_name('b', address), 0);
    /* The leaks of the original: UDP, ICMP. It is in force when the PUT is answered. */
    fd = app_socket(SOCK_DGRAM);
    CHECK_INT(connect_to(fd, "192.0.2.1", 99), 0);
    CHECK_INT(send(fd, "x", 1, 0) < 0 ? -errno : 0, -EPERM);
    (void)close(fd);
    /* Connections still go to workerd, which says no. */
    app = app_connect("192.0.2.1", 9);
    h = asked(head, sizeof(head));
    say(h, "HTTP/1.1 202 x\r\n\r\n");
    (void)close(h);
    CHECK_STR(hear(app, NULL), "");
    (void)close(app);
}

TEST(the_end_of_it)
{
    struct told t;
    int fd, status;

    CHECK_INT(write(T.orders, "a", 1), 1);
    CHECK_INT(read(T.told, &t, sizeof(t)), sizeof(t));
    CHECK_INT(t.port, 0);
    CHECK(strstr(t.message, "has one") != NULL);
    CHECK_INT(write(T.orders, "s", 1), 1);
    CHECK_INT(read(T.told, &t, sizeof(t)), sizeof(t));
    CHECK_INT(t.port, 0);
    fd = app_socket(SOCK_STREAM);
    CHECK_INT(connect_to(fd, "192.0.2.1", 80), -ECONNREFUSED); /* and not out some other way */
    (void)close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect_to(fd, "127.0.0.1", T.at.port), -ECONNREFUSED);
    (void)close(fd);
    (void)close(T.orders);
    CHECK_INT(waitpid(T.daemon, &status, 0), T.daemon);
    CHECK_INT(status, 0);
    CHECK_INT(rmtree_at(AT_FDCWD, T.dir, 0), 0);
}

int main(void)
{
    if (geteuid() != 0) {
        (void)printf("1..0 # SKIP needs root\n");
        return 0;
    }
    return tap_run();
}
