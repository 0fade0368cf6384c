/* Terminals, signals, and key strokes pushed into other people's terminals. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include "payload.h"

static void put_terminal(const char *key, int fd)
{
    struct winsize w = {0};
    struct stat st = {0};
    char path[32], link[256];
    ssize_t n;

    js_open(key, '{');
    js_int("isatty", isatty(fd));
    js_result("size", ioctl(fd, TIOCGWINSZ, &w));
    js_int("rows", w.ws_row);
    js_int("cols", w.ws_col);
    if (fstat(fd, &st) == 0)
        js_int("major", major(st.st_rdev));
    js_int("pgrp", tcgetpgrp(fd));
    js_int("sid", tcgetsid(fd));
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    n = readlink(path, link, sizeof(link));
    js_strn("link", link, n < 0 ? 0 : (size_t)n);
    js_close('}');
}

static int cmd_tty(int argc, char **argv)
{
    int fd;

    (void)argc;
    (void)argv;
    js_open(NULL, '{');
    js_int("sid", getsid(0));
    js_int("pgid", getpgid(0));
    put_terminal("0", 0);
    put_terminal("1", 1);
    put_terminal("2", 2);
    fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    js_result("dev_tty", fd);
    if (fd >= 0)
        put_terminal("tty", fd);
    fd = open("/dev/ptmx", O_RDWR | O_CLOEXEC | O_NOCTTY);
    js_result("dev_ptmx", fd);
    js_close('}');
    putchar('\n');
    return 0;
}

static void on_winch(int sig)
{
    (void)sig;
}

/* Prints the size, and again at each SIGWINCH, until it is ROWS x COLS. */
static int cmd_winch(int argc, char **argv)
{
    int rows = (int)number(argc > 1 ? argv[1] : "0"), cols = (int)number(argc > 2 ? argv[2] : "0");
    struct sigaction sa = {.sa_handler = on_winch};
    struct winsize w = {0};
    sigset_t winch, old;

    sigemptyset(&winch);
    sigaddset(&winch, SIGWINCH);
    sigprocmask(SIG_BLOCK, &winch, &old);
    sigaction(SIGWINCH, &sa, NULL);
    for (;;) {
        if (ioctl(0, TIOCGWINSZ, &w) < 0)
            return complain("TIOCGWINSZ");
        printf("size %d %d\n", w.ws_row, w.ws_col);
        fflush(stdout);
        if (w.ws_row == rows && w.ws_col == cols)
            return 0;
        sigsuspend(&old);
    }
}

static volatile sig_atomic_t caught;

static void on_any(int sig)
{
    caught = sig;
}

/* Waits with handlers for everything that can be caught; names each signal; ends after COUNT with
 * STATUS. */
static int cmd_catch(int argc, char **argv)
{
    long long count = number(argc > 1 ? argv[1] : "1");
    struct sigaction sa = {.sa_handler = on_any};
    sigset_t all, old;

    sigfillset(&all);
    sigfillset(&sa.sa_mask);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int s = 1; s < 32; s++)
        sigaction(s, &sa, NULL);
    sigemptyset(&old);
    sigaddset(&old, SIGCHLD);
    puts("ready");
    fflush(stdout);
    while (count-- > 0) {
        caught = 0;
        while (caught == 0)
            sigsuspend(&old);
        printf("%s\n", signal_name(caught));
        fflush(stdout);
    }
    return argc > 2 ? (int)number(argv[2]) : 0;
}

/* Ignores all that can be ignored. */
static int cmd_stubborn(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    for (int s = 1; s < 32; s++) {
        if (s != SIGCHLD)
            signal(s, SIG_IGN);
    }
    puts("ready");
    fflush(stdout);
    while (pause() < 0)
        continue;
    return 0;
}

#define TIOCSTI_NR   0x5412UL
#define TIOCLINUX_NR 0x541cUL

#if defined(__x86_64__)
static long ioctl_i386(int fd, unsigned request, const void *arg)
{
    long ret;

    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "a"(54), "b"((long)fd), "c"((long)request), "d"(arg)
                     : "memory", "r8", "r9", "r10", "r11");
    if (ret < 0) {
        errno = (int)-ret;
        return -1;
    }
    return ret;
}
#endif

struct push {
    int fd;
    unsigned long request;
    bool compat;
    char *low; /* below 4 GiB */
};

static long push_key(void *arg)
{
    const struct push *p = arg;

    p->low[0] = p->request == TIOCLINUX_NR ? 2 : 'x';
#if defined(__x86_64__)
    if (p->compat)
        return ioctl_i386(p->fd, (unsigned)p->request, p->low);
#endif
    return syscall(SYS_ioctl, p->fd, p->request, p->low);
}

/* Pushes a key into fds 0, 1, 2 and /dev/tty in every spelling of the call. */
static int cmd_tiocsti(int argc, char **argv)
{
    static const unsigned long high[] = {0, 1UL << 32, 1UL << 63, 0xffffffffUL << 32};
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    int fds[] = {0, 1, 2, tty};
    char *low;

    (void)argc;
    (void)argv;
#if defined(__x86_64__)
    flags |= MAP_32BIT;
#endif
    low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (low == MAP_FAILED)
        return complain("mmap");
    js_open(NULL, '{');
    for (size_t f = 0; f < 4; f++) {
        for (size_t h = 0; h < sizeof(high) / sizeof(high[0]); h++) {
            struct push sti = {fds[f], TIOCSTI_NR | high[h], false, low};
            struct push lin = {fds[f], TIOCLINUX_NR | high[h], false, low};
            char key[64];

            snprintf(key, sizeof(key), "sti fd%zu high%zu", f, h);
            js_outcome(key, in_child(push_key, &sti));
            snprintf(key, sizeof(key), "linux fd%zu high%zu", f, h);
            js_outcome(key, in_child(push_key, &lin));
        }
#if defined(__x86_64__)
        {
            struct push compat = {fds[f], TIOCSTI_NR, true, low};
            char key[64];

            snprintf(key, sizeof(key), "sti fd%zu i386", f);
            js_outcome(key, in_child(push_key, &compat));
        }
#endif
    }
    js_close('}');
    putchar('\n');
    return 0;
}

const struct cmd tty_cmds[] = {
    {"tty", cmd_tty, ": what the terminals are"},
    {"winch", cmd_winch, "ROWS COLS: sizes until that one is seen"},
    {"catch", cmd_catch, "COUNT [STATUS]: says ready, names signals"},
    {"stubborn", cmd_stubborn, ": ignores signals, says ready"},
    {"tiocsti", cmd_tiocsti, ": pushes keys in every spelling"},
    {0},
};
