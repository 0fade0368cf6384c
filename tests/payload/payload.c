/*
 * main, the command table, and the little that all commands share (JSON, names, probes in a child).
 * usage: payload COMMAND [ARG…], or linked under the name of a command.
 */

#include "payload.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct cmd *const tables[] = {
    facts_cmds, fs_cmds,  fuse_cmds,  guard_cmds, io_cmds,  ipc_cmds,   load_cmds,
    lock_cmds,  net_cmds, serve_cmds, setid_cmds, sys_cmds, table_cmds, tty_cmds,
};

/* ---- JSON ---------------------------------------------------------------------------------- */

static bool need_comma;

static void lead(const char *key)
{
    if (need_comma)
        putchar(',');
    need_comma = true;
    if (key != NULL)
        printf("\"%s\":", key);
}

void js_open(const char *key, char bracket)
{
    lead(key);
    putchar(bracket);
    need_comma = false;
}

void js_close(char bracket)
{
    putchar(bracket);
    need_comma = true;
}

static void put_escaped(const char *s, size_t len)
{
    putchar('"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

void js_strn(const char *key, const char *value, size_t len)
{
    lead(NULL);
    if (key != NULL) {
        put_escaped(key, strlen(key));
        putchar(':');
    }
    put_escaped(value, len);
}

void js_str(const char *key, const char *value)
{
    js_strn(key, value, strlen(value));
}

void js_int(const char *key, long long value)
{
    lead(key);
    printf("%lld", value);
}

void js_hex(const char *key, unsigned long long value)
{
    lead(key);
    printf("\"%llx\"", value);
}

void js_result(const char *key, long ret)
{
    js_str(key, ret >= 0 ? "ok" : errno_name(errno));
}

void js_outcome(const char *key, long outcome)
{
    char text[32];

    if (outcome <= -KILLED) {
        snprintf(text, sizeof(text), "SIG%s", signal_name((int)(-outcome - KILLED)));
        js_str(key, text);
    } else {
        js_str(key, outcome >= 0 ? "ok" : errno_name((int)-outcome));
    }
}

/* ---- names --------------------------------------------------------------------------------- */

#define E(n)                                                                                       \
    {                                                                                              \
        n, #n                                                                                      \
    }
static const struct {
    int value;
    const char *name;
} errnos[] = {
    E(EPERM),           E(ENOENT),        E(ESRCH),        E(EINTR),           E(EIO),
    E(ENXIO),           E(E2BIG),         E(ENOEXEC),      E(EBADF),           E(ECHILD),
    E(EAGAIN),          E(ENOMEM),        E(EACCES),       E(EFAULT),          E(ENOTBLK),
    E(EBUSY),           E(EEXIST),        E(EXDEV),        E(ENODEV),          E(ENOTDIR),
    E(EISDIR),          E(EINVAL),        E(ENFILE),       E(EMFILE),          E(ENOTTY),
    E(ETXTBSY),         E(EFBIG),         E(ENOSPC),       E(ESPIPE),          E(EROFS),
    E(EMLINK),          E(EPIPE),         E(ERANGE),       E(EDEADLK),         E(ENAMETOOLONG),
    E(ENOSYS),          E(ENOTEMPTY),     E(ELOOP),        E(EOVERFLOW),       E(ENOTSOCK),
    E(EAFNOSUPPORT),    E(EADDRINUSE),    E(ECONNREFUSED), E(ETIMEDOUT),       E(ENOKEY),
    E(EPROTONOSUPPORT), E(ENOPROTOOPT),   E(EOPNOTSUPP),   E(ENODATA),         E(EDQUOT),
    E(EUSERS),          E(EADDRNOTAVAIL), E(ENETUNREACH),  E(ESOCKTNOSUPPORT), E(EPROTOTYPE),
    E(EHOSTUNREACH),
};

const char *errno_name(int e)
{
    static char other[16];

    for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++) {
        if (errnos[i].value == e)
            return errnos[i].name;
    }
    snprintf(other, sizeof(other), "E%d", e);
    return other;
}

static const char *const signals[] = {
    [SIGHUP] = "HUP",   [SIGINT] = "INT",   [SIGQUIT] = "QUIT",     [SIGILL] = "ILL",
    [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT", [SIGBUS] = "BUS",       [SIGFPE] = "FPE",
    [SIGKILL] = "KILL", [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",
    [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",     [SIGCHLD] = "CHLD",
    [SIGCONT] = "CONT", [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",     [SIGTTIN] = "TTIN",
    [SIGTTOU] = "TTOU", [SIGURG] = "URG",   [SIGXCPU] = "XCPU",     [SIGXFSZ] = "XFSZ",
    [SIGPROF] = "PROF", [SIGIO] = "IO",     [SIGVTALRM] = "VTALRM", [SIGWINCH] = "WINCH",
    [SIGPWR] = "PWR",   [SIGSYS] = "SYS",
};

const char *signal_name(int sig)
{
    static char other[16];

    if (sig > 0 && (size_t)sig < sizeof(signals) / sizeof(signals[0]) && signals[sig] != NULL)
        return signals[sig];
    snprintf(other, sizeof(other), "%d", sig);
    return other;
}

/* ---- small helpers ------------------------------------------------------------------------- */

long slurp(const char *path, char *buf, size_t cap)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    while (len < cap - 1) {
        ssize_t n = read(fd, buf + len, cap - 1 - len);

        if (n < 0) {
            int saved = errno;

            close(fd);
            errno = saved;
            return -1;
        }
        if (n == 0)
            break;
        len += (size_t)n;
    }
    close(fd);
    buf[len] = '\0';
    return (long)len;
}

long long number(const char *text)
{
    char *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "payload: not a number: '%s'\n", text);
        exit(2);
    }
    return (long long)v;
}

double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        continue;
}

int complain(const char *what)
{
    fprintf(stderr, "payload: %s: %s\n", what, errno_name(errno));
    return 1;
}

long in_child(long (*probe)(void *arg), void *arg)
{
    int status;
    pid_t pid;
    long ret;
    long *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return -errno;
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(2);
        errno = 0;
        *shared = probe(arg);
        if (*shared < 0)
            *shared = -errno;
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    ret = WIFSIGNALED(status) ? -(KILLED + WTERMSIG(status)) : *shared;
    munmap(shared, sizeof(*shared));
    return ret;
}

/* ---- commands ------------------------------------------------------------------------------ */

static int usage(void)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct cmd *c = tables[t]; c->name != NULL; c++)
            fprintf(stderr, "payload %s %s\n", c->name, c->usage);
    }
    return 2;
}

static const struct cmd *find(const char *name)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const struct cmd *c = tables[t]; c->name != NULL; c++) {
            if (strcmp(c->name, name) == 0)
                return c;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const struct cmd *c = find(base != NULL ? base + 1 : "");
    int skip = c == NULL ? 1 : 0, status;

    if (c == NULL && argc > 1)
        c = find(argv[1]);
    if (c == NULL)
        return usage();
    status = c->fn(argc - skip, argv + skip);
    return fflush(stdout) == 0 ? status : complain("stdout");
}
