#include "base/terminal.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { DEFAULT_ROWS = 24, DEFAULT_COLS = 80 };

void terminal_begin(struct terminal *t, bool typed)
{
    int fd = typed ? STDIN_FILENO : STDOUT_FILENO;
    struct termios raw;

    t->fd = -1;
    if (tcgetattr(fd, &t->before) < 0)
        return;
    raw = t->before;
    if (typed)
        cfmakeraw(&raw);
    else
        raw.c_oflag &= ~(tcflag_t)OPOST;
    if (tcsetattr(fd, TCSADRAIN, &raw) == 0)
        t->fd = fd;
}

void terminal_end(struct terminal *t)
{
    if (t->fd >= 0)
        (void)tcsetattr(t->fd, TCSADRAIN, &t->before);
    t->fd = -1;
}

void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
    struct winsize size = {.ws_row = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        size.ws_row = 0;
    if (size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = DEFAULT_ROWS, .ws_col = DEFAULT_COLS};
    *ret_rows = size.ws_row;
    *ret_cols = size.ws_col;
}

bool terminal_has_hung_up(void)
{
    struct termios t;

    return tcgetattr(STDIN_FILENO, &t) < 0 && errno == EIO;
}

int terminal_take_signals(bool stop, sigset_t *ret_before)
{
    /* Not among them: signals about this process itself, and job control of its terminal. */
    static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                                    SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGURG};
    sigset_t set;
    int fd;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        (void)sigaddset(&set, passed_on[i]);
    if (stop)
        (void)sigaddset(&set, SIGTSTP);
    if (sigprocmask(SIG_BLOCK, &set, ret_before) < 0)
        return -errno;
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    (void)signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe returns EPIPE instead */
    return fd;
}

ssize_t terminal_write(int fd, bool is_file, const void *data, size_t len)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    ssize_t n;

    if (!is_file && poll(&p, 1, 0) <= 0)
        return -EAGAIN;
    n = write(fd, data, is_file || len < TERMINAL_WRITE_MAX ? len : TERMINAL_WRITE_MAX);
    return n < 0 ? -errno : n;
}
