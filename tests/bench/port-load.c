/*
 * Both ends of what `make bench` sends through ports. The receiver runs in a sandbox (static); the
 * sender prints {"samples": [[…], …]}.
 *
 *   port-load sink ADDRESS PORT          reads what comes, answers a byte to a connection's first
 * byte port-load bulk ADDRESS PORT CONNS MIB   nanoseconds until the sink has read all of it
 *   port-load short ADDRESS PORT COUNT   nanoseconds of each connect, byte, byte back, close
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 << 10, CONNS_MAX = 1024 };

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

static struct sockaddr_in address(char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((unsigned short)atoi(argv[1]))};

    if (inet_pton(AF_INET, argv[0], &a.sin_addr) != 1)
        die(argv[0]);
    return a;
}

static int connected(const struct sockaddr_in *a)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

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

/* ---- the receiver ---- */

static _Noreturn void sink(char **argv)
{
    struct sockaddr_in a = address(argv);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1,
        ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = listener};
    static char seen[65536];

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 4096) < 0)
        die("listen");
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    for (;;) {
        struct epoll_event got;
        ssize_t n;
        int fd;

        if (epoll_wait(ep, &got, 1, -1) != 1)
            continue;
        if (got.data.fd == listener) {
            fd = accept(listener, NULL, NULL);
            ev.data.fd = fd;
            if (fd >= 0 && fd < (int)sizeof(seen)) {
                seen[fd] = 0;
                epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
            }
            continue;
        }
        fd = got.data.fd;
        n = read(fd, data, sizeof(data));
        if (n > 0 && !seen[fd]) {
            seen[fd] = 1;
            (void)!write(fd, "y", 1);
        }
        if (n <= 0)
            close(fd); /* and so tells the sender that everything was read */
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

/* One process each: what they cost is the same for all that is compared. */
static int bulk(char **argv)
{
    struct sockaddr_in a = address(argv);
    int conns = atoi(argv[2]);
    long long bytes = atoll(argv[3]) << 20, start;
    int go[2], done[2];
    char c;

    if (conns < 1 || conns > CONNS_MAX || pipe(go) < 0 || pipe(done) < 0)
        return 2;
    for (int i = 0; i < conns; i++)
        if (fork() == 0) {
            int fd = connected(&a);

            close(go[1]);
            (void)!write(done[1], "r", 1);
            (void)!read(go[0], &c, 1); /* its end: all are there */
            send_all(fd, bytes / conns);
            shutdown(fd, SHUT_WR);
            while (read(fd, &c, 1) > 0)
                continue;
            (void)!write(done[1], "d", 1);
            _exit(0);
        }
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < conns; i++)
        if (read(done[0], &c, 1) != 1)
            return 1;
    start = now_ns();
    close(go[1]);
    for (int i = 0; i < conns; i++)
        if (read(done[0], &c, 1) != 1)
            return 1;
    printf("{\"samples\": [[%lld]]}\n", now_ns() - start);
    return 0;
}

static int shorts(char **argv)
{
    struct sockaddr_in a = address(argv);
    int count = atoi(argv[2]);

    printf("{\"samples\": [[");
    for (int i = 0; i < count; i++) {
        long long start = now_ns();
        int fd = connected(&a);
        char c;

        if (write(fd, "x", 1) != 1 || read(fd, &c, 1) != 1)
            die("answer");
        close(fd);
        printf("%s%lld", i > 0 ? ", " : "", now_ns() - start);
    }
    printf("]]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && strcmp(argv[1], "sink") == 0)
        sink(argv + 2);
    if (argc == 6 && strcmp(argv[1], "bulk") == 0)
        return bulk(argv + 2);
    if (argc == 5 && strcmp(argv[1], "short") == 0)
        return shorts(argv + 2);
    return 2;
}
