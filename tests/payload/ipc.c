/* IPC objects, abstract sockets, keyrings: what a sandbox could share with others. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "payload.h"

/* ipc KEY NAME [create]: SysV objects by key, a queue by name. */
static int cmd_ipc(int argc, char **argv)
{
    key_t key = (key_t)number(argc > 1 ? argv[1] : "0");
    const char *name = argc > 2 ? argv[2] : "/x";
    bool create = argc > 3;
    int flags = create ? IPC_CREAT | 0666 : 0;

    js_open(NULL, '{');
    js_result("shm", shmget(key, create ? 4096 : 0, flags));
    js_result("sem", semget(key, create ? 1 : 0, flags));
    js_result("msg", msgget(key, flags));
    js_result("mq", create ? mq_open(name, O_RDWR | O_CREAT, 0600, NULL) : mq_open(name, O_RDWR));
    js_close('}');
    putchar('\n');
    return 0;
}

static socklen_t abstract(struct sockaddr_un *a, const char *name)
{
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* Connects to abstract names. */
static int cmd_abstract(int argc, char **argv)
{
    js_open(NULL, '{');
    for (int i = 1; i < argc; i++) {
        struct sockaddr_un a;
        socklen_t len = abstract(&a, argv[i]);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        js_result(argv[i], connect(fd, (struct sockaddr *)&a, len));
        close(fd);
    }
    js_close('}');
    putchar('\n');
    return 0;
}

/* Listens on an abstract name, says ready, waits for stdin to end. */
static int cmd_abstract_listen(int argc, char **argv)
{
    struct sockaddr_un a;
    socklen_t len = abstract(&a, argc > 1 ? argv[1] : "x");
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char c;

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 8) < 0)
        return complain("listen");
    puts("ready");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        continue;
    return 0;
}

/* TCP over 127.0.0.1 to itself: loopback is up. */
static int cmd_loopback(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)argc;
    (void)argv;
    if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 1) < 0)
        return complain("listen");
    getsockname(l, (struct sockaddr *)&a, &len);
    if (connect(c, (struct sockaddr *)&a, sizeof(a)) < 0)
        return complain("connect");
    puts("ok");
    return 0;
}

/* What fits into fd until it takes nothing for a while. */
static long long fill_socket(int fd)
{
    static char data[65536];
    long long sum = 0;

    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int idle = 0; idle < 10; idle++) {
        ssize_t n = send(fd, data, sizeof(data), MSG_NOSIGNAL);

        if (n > 0) {
            sum += n;
            idle = -1;
        } else {
            (void)usleep(200);
        }
    }
    return sum;
}

/* Connections to itself of which nobody reads: how many bytes wait in them. */
static int cmd_tcphog(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    long long sum = 0;

    if (argc != 2)
        return 2;
    if (bind(l, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(l, 16) < 0)
        return complain("listen");
    getsockname(l, (struct sockaddr *)&a, &len);
    for (long i = 0; i < number(argv[1]); i++) {
        int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int s = -1;

        if (c >= 0 && connect(c, (struct sockaddr *)&a, sizeof(a)) == 0)
            s = accept4(l, NULL, NULL, SOCK_CLOEXEC);
        if (s < 0)
            return complain("connect");
        sum += fill_socket(c) + fill_socket(s);
    }
    printf("{\"bytes\": %lld}\n", sum);
    return 0;
}

/* Reaches for ADDRESS PORT over TCP. */
static int cmd_tcp(int argc, char **argv)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (argc != 3 || inet_pton(AF_INET, argv[1], &a.sin_addr) != 1)
        return 2;
    a.sin_port = htons((uint16_t)number(argv[2]));
    js_open(NULL, '{');
    js_result("result", connect(fd, (struct sockaddr *)&a, sizeof(a)));
    js_close('}');
    putchar('\n');
    return 0;
}

/* keyctl commands: 10 search, 11 read, 1 join session, 0 get id. */
static int cmd_keys(int argc, char **argv)
{
    long user_ring = -4, session_ring = -3;

    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    js_result("get_user", syscall(SYS_keyctl, 0, user_ring, 0));
    js_result("get_session", syscall(SYS_keyctl, 0, session_ring, 0));
    js_result("search", syscall(SYS_keyctl, 10, user_ring, "user", "rind-canary", 0));
    js_result("request", syscall(SYS_request_key, "user", "rind-canary", NULL, 0));
    js_result("add", syscall(SYS_add_key, "user", "rind-probe", "x", 1, user_ring));
    js_result("join", syscall(SYS_keyctl, 1, NULL));
    js_close('}');
    putchar('\n');
    return 0;
}

const struct cmd ipc_cmds[] = {
    {"ipc", cmd_ipc, "KEY /NAME [create]"},
    {"abstract", cmd_abstract, "NAME…: connects"},
    {"abstract-listen", cmd_abstract_listen, "NAME"},
    {"loopback", cmd_loopback, ""},
    {"tcp", cmd_tcp, "ADDRESS PORT"},
    {"tcphog", cmd_tcphog, "CONNECTIONS: full in both directions"},
    {"keys", cmd_keys, ""},
    {0},
};
