/*
 * Both ends of what `make bench` sends through ports. The receiver runs in a sandbox (static); the
 * sender prints {"samples": [[…], …]}.
 *
 *   port-load sink ADDRESS PORT             reads what comes, answers a byte to the first of each;
 *                                           or sends as much as is asked for
 *   port-load bulk ADDRESS PORT CONNS MIB   nanoseconds until the sink has read all of it
 *   port-load pull ADDRESS PORT CONNS MIB   nanoseconds until all of it has come from the sink
 *   port-load short ADDRESS PORT COUNT      nanoseconds of each connect, byte, byte back, close
 *   port-load many ADDRESS PORT COUNT CONNS nanoseconds of COUNT of those, by CONNS at a time
 *   port-load floor SOCKET ADDRESS PORT     joins who connects to a unix socket with a sink
 *
 * Of a sender ADDRESS may be a unix socket ("/…") that speaks rind's API, and PORT the path of a
 * port's stream there; with a `+` in front of it the sender asks for the socket itself.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 << 10, CONNS_MAX = 1024, PATIENCE_S = 20 };

static char data[PIECE];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* In one read, as any client does, and no further: what follows is not ours. It comes in one piece.
 */
static void read_head(int fd)
{
    char head[512];
    ssize_t len = recv(fd, head, sizeof(head), MSG_PEEK);
    const char *end = len > 0 ? memmem(head, (size_t)len, "\r\n\r\n", 4) : NULL;

    if (end == NULL || memcmp(head, "HTTP/1.1 101", 12) != 0)
        die("upgrade");
    len = end + 4 - head;
    if (recv(fd, head, (size_t)len, 0) != len)
        die("upgrade");
}

/* What comes with the answer; the connection to the daemon is closed. */
static int take_socket(int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr first;
    } room = {.bytes = {0}};
    char head[512];
    struct iovec iov = {.iov_base = head, .iov_len = sizeof(head)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = room.bytes,
                         .msg_controllen = sizeof(room.bytes)};
    int taken;

    if (recvmsg(fd, &msg, MSG_CMSG_CLOEXEC) < 12 || memcmp(head, "HTTP/1.1 101", 12) != 0 ||
        msg.msg_controllen < CMSG_LEN(sizeof(int)))
        die("socket of a port");
    memcpy(&taken, CMSG_DATA(&room.first), sizeof(taken));
    close(fd);
    return taken;
}

static int api_stream(char **argv)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const bool itself = argv[1][0] == '+';
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char head[512];
    int len;

    if (strlen(argv[0]) >= sizeof(a.sun_path))
        die("path");
    memcpy(a.sun_path, argv[0], strlen(argv[0]) + 1);
    while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        if (errno != EAGAIN)
            die("connect");
    len = snprintf(head, sizeof(head),
                   "POST %s HTTP/1.1\r\nHost: rind\r\nConnection: Upgrade\r\nUpgrade: tcp%s\r\n"
                   "Content-Length: 0\r\n\r\n",
                   argv[1] + itself, itself ? "-socket" : "");
    if (write(fd, head, (size_t)len) != len)
        die("upgrade");
    if (itself)
        return take_socket(fd);
    read_head(fd);
    return fd;
}

static struct sockaddr_in address(char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((unsigned short)atoi(argv[1]))};

    if (inet_pton(AF_INET, argv[0], &a.sin_addr) != 1)
        die(argv[0]);
    return a;
}

static int connected(char **argv)
{
    struct sockaddr_in name, *a = &name;
    int fd, on = 1;

    if (argv[0][0] == '/')
        return api_stream(argv);
    name = address(argv);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Where bbr is the host's default it paces with a timer for each segment, and the kernel bills
     * what a timer does to whoever runs just then: to the proxy as often as not. What is measured
     * uses what it likes. */
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) < 0)
        die("socket");
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* ---- in the sandbox ---- */

/* What asks a sink for bytes; everything else that senders send begins with another byte. */
static const char ask_format[] = "G%lld\n";

struct peer {
    int fd;
    bool seen;
    long long owed;
};

/* Whether it is still there. */
static bool receive(int ep, struct peer *p)
{
    ssize_t n = read(p->fd, data, sizeof(data) - 1);
    struct epoll_event ev = {.events = EPOLLOUT, .data.ptr = p};

    if (n <= 0)
        return false;
    data[n] = '\0';
    if (!p->seen && sscanf(data, ask_format, &p->owed) == 1)
        (void)epoll_ctl(ep, EPOLL_CTL_MOD, p->fd, &ev);
    else if (!p->seen)
        (void)!write(p->fd, "y", 1);
    p->seen = true;
    return true;
}

static bool send_some(struct peer *p)
{
    ssize_t n = send(p->fd, data, p->owed < PIECE ? (size_t)p->owed : (size_t)PIECE, MSG_DONTWAIT);

    if (n > 0)
        p->owed -= n;
    return p->owed > 0 && (n > 0 || errno == EAGAIN);
}

static _Noreturn void sink(char **argv)
{
    struct sockaddr_in a = address(argv);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1,
        ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN}, got;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 4096) < 0)
        die("listen");
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        struct peer *p;

        if (epoll_wait(ep, &got, 1, -1) != 1)
            continue;
        p = got.data.ptr;
        if (p == NULL) {
            p = calloc(1, sizeof(*p));
            if (p == NULL || (p->fd = accept(listener, NULL, NULL)) < 0)
                die("accept");
            ev.data.ptr = p;
            epoll_ctl(ep, EPOLL_CTL_ADD, p->fd, &ev);
        } else if (!(p->owed > 0 ? send_some(p) : receive(ep, p))) {
            close(p->fd); /* and so tells the sender that everything was read, or sent */
            free(p);
        }
    }
}

/* ---- the floor ---- */

/*
 * The least that anybody in between can do for one who comes through a unix socket: two splices
 * when there is something to read. No bounds, no fairness, no sandbox. It answers an upgrade as
 * rind's API does.
 */
struct joined {
    struct end {
        struct joined *both;
        struct end *other;
        int fd, pipe[2]; /* what has been read of fd, and goes to the other */
        ssize_t held;
        bool ended;
    } ends[2];
};

static void watch(int ep, int op, struct end *e, unsigned events)
{
    struct epoll_event ev = {.events = events, .data.ptr = e};

    if (epoll_ctl(ep, op, e->fd, &ev) < 0)
        die("watch");
}

static void join(int ep, int fd, const struct sockaddr_in *to)
{
    static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\n\r\n";
    struct joined *j = calloc(1, sizeof(*j));
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    char head[1024];

    if (j == NULL || read(fd, head, sizeof(head)) <= 0 || write(fd, answer, sizeof(answer) - 1) < 0)
        die("upgrade");
    if (setsockopt(out, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) < 0 ||
        connect(out, (const struct sockaddr *)to, sizeof(*to)) < 0)
        die("join");
    setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    for (int i = 0; i < 2; i++) {
        struct end *e = &j->ends[i];

        *e = (struct end){.both = j, .other = &j->ends[1 - i], .fd = i == 0 ? fd : out};
        if (pipe(e->pipe) < 0)
            die("join");
        (void)fcntl(e->pipe[1], F_SETPIPE_SZ, 1 << 20);
        (void)fcntl(e->fd, F_SETFL, O_NONBLOCK);
        watch(ep, EPOLL_CTL_ADD, e, EPOLLIN);
    }
}

static void unjoin(struct joined *j)
{
    for (int i = 0; i < 2; i++) {
        close(j->ends[i].fd);
        close(j->ends[i].pipe[0]);
        close(j->ends[i].pipe[1]);
    }
    free(j);
}

/* What an end waits for: bytes, while none of its own are on the way; and room, while the other's
 * are. */
static void wait_again(int ep, struct end *e)
{
    bool more = e->held == 0 && !e->ended;

    watch(ep, EPOLL_CTL_MOD, e, (more ? EPOLLIN : 0) | (e->other->held > 0 ? EPOLLOUT : 0));
}

/* From e to the other: what has been read goes out before more is read. Whether both are there. */
static bool flow(int ep, struct end *e)
{
    bool waited = e->held > 0;
    ssize_t n;

    if (!waited)
        e->held = splice(e->fd, NULL, e->pipe[1], NULL, 4 << 20, SPLICE_F_MOVE);
    if (e->held <= 0) {
        e->ended = e->held == 0 || errno != EAGAIN;
        e->held = 0;
        if (e->ended && e->other->ended) {
            unjoin(e->both);
            return false;
        }
        if (e->ended) {
            shutdown(e->other->fd, SHUT_WR);
            wait_again(ep, e);
        }
        return true;
    }
    n = splice(e->pipe[0], NULL, e->other->fd, NULL, (size_t)e->held, SPLICE_F_MOVE);
    if (n < 0 && errno != EAGAIN) {
        unjoin(e->both);
        return false;
    }
    e->held -= n > 0 ? n : 0;
    if (waited != (e->held > 0)) {
        wait_again(ep, e);
        wait_again(ep, e->other);
    }
    return true;
}

static _Noreturn void floor_of_all(char **argv)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct sockaddr_in to = address(argv + 1);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
        ep = epoll_create1(EPOLL_CLOEXEC);
    struct end self = {.fd = listener};

    if (strlen(argv[0]) >= sizeof(a.sun_path))
        die("path");
    memcpy(a.sun_path, argv[0], strlen(argv[0]) + 1);
    if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 4096) < 0)
        die("listen");
    watch(ep, EPOLL_CTL_ADD, &self, EPOLLIN);
    for (;;) {
        struct epoll_event got;
        struct end *e;

        if (epoll_wait(ep, &got, 1, -1) != 1)
            continue;
        e = got.data.ptr;
        if (e == &self)
            join(ep, accept(listener, NULL, NULL), &to);
        else if ((got.events & EPOLLOUT) == 0 || flow(ep, e->other))
            if ((got.events & ~(unsigned)EPOLLOUT) != 0 && e->held == 0)
                (void)flow(ep, e);
    }
}

/* ---- the sender ---- */

static void send_all(int fd, long long bytes)
{
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes < PIECE ? (size_t)bytes : (size_t)PIECE);

        if (n <= 0)
            die("write");
        bytes -= n;
    }
}

static void push(int fd, long long bytes)
{
    char c;

    send_all(fd, bytes);
    shutdown(fd, SHUT_WR);
    while (read(fd, &c, 1) > 0)
        continue;
}

static void pull(int fd, long long bytes)
{
    char ask[32];
    int len = snprintf(ask, sizeof(ask), ask_format, bytes);
    ssize_t n;

    if (write(fd, ask, (size_t)len) != len)
        die("ask");
    while ((n = read(fd, data, sizeof(data))) > 0)
        bytes -= n;
    if (bytes != 0)
        die("pull");
}

/* One process each: what they cost is the same for all that is compared. */
static int all_at_once(char **argv, void (*one)(int fd, long long bytes))
{
    int conns = atoi(argv[2]), bad = 0, status;
    long long bytes = atoll(argv[3]) << 20, start;
    int go[2], done[2];
    char c;

    if (conns < 1 || conns > CONNS_MAX || pipe(go) < 0 || pipe(done) < 0)
        return 2;
    for (int i = 0; i < conns; i++)
        if (fork() == 0) {
            int fd;

            alarm(PATIENCE_S); /* not inherited */
            close(go[1]);
            fd = connected(argv);
            (void)!write(done[1], "r", 1);
            (void)!read(go[0], &c, 1); /* its end: all are there */
            one(fd, bytes / conns);
            (void)!write(done[1], "d", 1);
            _exit(0);
        }
    close(done[1]); /* so that the last child's end is one here, too */
    for (int i = 0; i < conns; i++)
        if (read(done[0], &c, 1) != 1)
            return 1;
    start = now_ns();
    close(go[1]);
    for (int i = 0; i < conns; i++)
        if (read(done[0], &c, 1) != 1)
            return 1;
    printf("{\"samples\": [[%lld]]}\n", now_ns() - start);
    while (wait(&status) > 0) /* so that their time counts as the bench's */
        bad += status != 0;
    return bad != 0;
}

static void one_short(char **argv)
{
    int fd = connected(argv);
    char c;

    if (write(fd, "x", 1) != 1 || read(fd, &c, 1) != 1)
        die("answer");
    close(fd);
}

static int many(char **argv)
{
    int count = atoi(argv[2]), by = atoi(argv[3]), status, bad = 0;
    long long start = now_ns();

    if (by < 1 || by > CONNS_MAX)
        return 2;
    for (int i = 0; i < by; i++)
        if (fork() == 0) {
            alarm(PATIENCE_S);
            for (int n = i; n < count; n += by)
                one_short(argv);
            _exit(0);
        }
    while (wait(&status) > 0)
        bad += status != 0;
    printf("{\"samples\": [[%lld]]}\n", now_ns() - start);
    return bad != 0;
}

static int shorts(char **argv)
{
    int count = atoi(argv[2]);

    printf("{\"samples\": [[");
    for (int i = 0; i < count; i++) {
        long long start = now_ns();

        one_short(argv);
        printf("%s%lld", i > 0 ? ", " : "", now_ns() - start);
    }
    printf("]]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc > 4 && strcmp(argv[1], "floor") != 0)
        alarm(2 * PATIENCE_S); /* a sender whom nobody answers ends */
    if (argc == 4 && strcmp(argv[1], "sink") == 0)
        sink(argv + 2);
    if (argc == 5 && strcmp(argv[1], "floor") == 0)
        floor_of_all(argv + 2);
    if (argc == 6 && strcmp(argv[1], "bulk") == 0)
        return all_at_once(argv + 2, push);
    if (argc == 6 && strcmp(argv[1], "pull") == 0)
        return all_at_once(argv + 2, pull);
    if (argc == 6 && strcmp(argv[1], "many") == 0)
        return many(argv + 2);
    if (argc == 5 && strcmp(argv[1], "short") == 0)
        return shorts(argv + 2);
    return 2;
}
