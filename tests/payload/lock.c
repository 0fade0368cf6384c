/* Locks that a process of a sandbox shares with whoever has the other end, held for as long as it
 * likes. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "payload.h"

enum { BLOCK = 1 << 16 };

static char block[BLOCK];

/* ---- a pipe's, by somebody else ---- */

static int unix_socket(const char *path, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

/* A byte, and room for a descriptor. */
struct message {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr first;
    } control;
    char byte;
    struct iovec iov;
    struct msghdr hdr;
};

static struct msghdr *message_init(struct message *m)
{
    (void)memset(m, 0, sizeof(*m));
    m->iov = (struct iovec){.iov_base = &m->byte, .iov_len = 1};
    m->hdr = (struct msghdr){.msg_iov = &m->iov,
                             .msg_iovlen = 1,
                             .msg_control = m->control.bytes,
                             .msg_controllen = sizeof(m->control.bytes)};
    return &m->hdr;
}

/* lock-give PATH: gives its output's pipe to who listens there, and waits. */
static int cmd_give(int argc, char **argv)
{
    struct message m;
    struct msghdr *hdr = message_init(&m);
    struct sockaddr_un addr;
    int sock = unix_socket(argc > 1 ? argv[1] : "", &addr), out = 1;

    while (connect(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        nap(0.01);
    m.control.first = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    (void)memcpy(CMSG_DATA(&m.control.first), &out, sizeof(int));
    if (sendmsg(sock, hdr, 0) < 0)
        return complain("sendmsg");
    for (;;)
        (void)pause();
}

/* What is said once the first thread sleeps in splice, with the lock: what comes before that could
 * still be read or written by others. */
static struct {
    const char *word;
    int fd; /* closed after that; -1: none */
} asleep;

static void *say_asleep(void *arg)
{
    enum {
        TRIES = 500,
        STEP_MS = 10
    }; /* where the kernel does not tell, it is said all the same */
    char path[64], text[256], call[16];

    (void)arg;
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)getpid());
    (void)snprintf(call, sizeof(call), "%d ", SYS_splice);
    for (int i = 0; i < TRIES && (slurp(path, text, sizeof(text)) <= 0 ||
                                  strncmp(text, call, strlen(call)) != 0);
         i++)
        nap(STEP_MS / 1000.0);
    puts(asleep.word);
    (void)fflush(stdout);
    if (asleep.fd >= 0)
        (void)close(asleep.fd);
    return NULL;
}

/* Sleeps in splice with the lock of one of them, a pipe. */
static int sleep_with(int from, int to, const char *word, int closed)
{
    pthread_t thread;

    asleep.word = word;
    asleep.fd = closed;
    if (pthread_create(&thread, NULL, say_asleep, NULL) != 0)
        return complain("thread");
    (void)splice(from, NULL, to, NULL, BLOCK, 0);
    return 0;
}

/* Full, as nobody reads it any more; and then it is longer. 0 or -1. */
static int fill(int pipe)
{
    int idle = 0;

    if (fcntl(pipe, F_SETFL, O_NONBLOCK) < 0)
        return -1;
    while (idle < 20) {
        ssize_t n = write(pipe, block, BLOCK);

        if (n < 0 && errno != EAGAIN)
            return -1;
        idle = n < 0 ? idle + 1 : 0;
        if (n < 0)
            nap(0.02);
    }
    if (fcntl(pipe, F_SETFL, 0) < 0)
        return -1;
    return fcntl(pipe, F_SETPIPE_SZ, 2 * fcntl(pipe, F_GETPIPE_SZ)) < 0 ? -1 : 0;
}

/* lock-take PATH [hide]: takes one, fills it, says so, and sleeps with its lock; hide: the
 * descriptor is not in its table then. */
static int cmd_take(int argc, char **argv)
{
    struct message m;
    struct msghdr *hdr = message_init(&m);
    struct sockaddr_un addr;
    int sock = unix_socket(argc > 1 ? argv[1] : "", &addr), conn, taken, pair[2];

    if (bind(sock, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(sock, 1) < 0 ||
        chmod(addr.sun_path, 0777) < 0)
        return complain("listen");
    conn = accept(sock, NULL, NULL);
    if (recvmsg(conn, hdr, 0) <= 0 || CMSG_FIRSTHDR(hdr) == NULL)
        return complain("recvmsg");
    (void)memcpy(&taken, CMSG_DATA(CMSG_FIRSTHDR(hdr)), sizeof(int));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return complain("socketpair");
    /* Whoever reads has something to read as soon as it wants to, and not before we sleep. */
    if (fill(taken) < 0)
        return complain("fill");
    return sleep_with(pair[0], taken, "sleeps", argc > 2 ? taken : -1);
}

/* lock-input: sleeps with the lock of its stdin's pipe, in which there is something. */
static int cmd_input(int argc, char **argv)
{
    struct pollfd p = {.fd = 0, .events = POLLIN};
    int pair[2];

    (void)argc;
    (void)argv;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return complain("socketpair");
    while (send(pair[0], block, BLOCK, MSG_DONTWAIT) > 0)
        ;
    (void)poll(&p, 1, -1);
    return sleep_with(0, pair[0], "holds", -1);
}

/* ---- a file operation's input ---- */

static void on_alarm(int signo)
{
    (void)signo;
}

/* The read end of the stdin of the first sandbox-shim that it sees, which it stops. */
static int stdin_of_shim(void)
{
    for (int pid = 2;; pid = pid < 4000 ? pid + 1 : 2) {
        char path[64], name[64];
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
        if (slurp(path, name, sizeof(name)) <= 0 || strcmp(name, "sandbox-shim") != 0)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/0", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && kill(pid, SIGSTOP) == 0)
            return fd;
    }
}

/* lock-shim: makes room in the full pipe of a file operation's input, and sleeps with its lock;
 * again and again, as somebody may have filled it in between. */
static int cmd_shim(int argc, char **argv)
{
    const struct itimerval often = {{.tv_usec = 300000}, {.tv_usec = 300000}};
    const struct sigaction quiet = {.sa_handler = on_alarm};
    int pair[2], fd;

    (void)argc;
    (void)argv;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return complain("socketpair");
    while (send(pair[0], block, BLOCK, MSG_DONTWAIT) > 0)
        ;
    puts("ready");
    (void)fflush(stdout);
    fd = stdin_of_shim();
    puts("stopped");
    (void)fflush(stdout);
    if (sigaction(SIGALRM, &quiet, NULL) < 0 || setitimer(ITIMER_REAL, &often, NULL) < 0)
        return complain("timer");
    for (;;) {
        (void)!read(fd, block, BLOCK / 2);
        (void)!splice(fd, NULL, pair[0], NULL, BLOCK, 0);
    }
}

const struct cmd lock_cmds[] = {
    {"lock-give", cmd_give, "PATH: gives its stdout to who listens"},
    {"lock-take", cmd_take, "PATH [hide]: takes one, fills it, and sleeps with its lock"},
    {"lock-input", cmd_input, ": holds the lock of its stdin"},
    {"lock-shim", cmd_shim, ": holds the lock of a file operation's stdin"},
    {0},
};
