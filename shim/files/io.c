/* Input and output of the shim (shim.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "files/shim.h"

/* Copies with read and write. splice(2) would be faster, but it holds the pipe's mutex while it
 * waits for the file. If a file system hangs, the process at the other end of the pipe would hang,
 * too, even if it is non-blocking. */
enum { COPY_BYTES = 65536 };

void shim_stdio_init(void)
{
    struct pollfd fds[3] = {{.fd = 0}, {.fd = 1}, {.fd = 2}};

    (void)signal(SIGPIPE, SIG_IGN); /* a broken pipe becomes EPIPE, which is reported */
    while (poll(fds, 3, 0) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < 3; i++) {
        if (!(fds[i].revents & POLLNVAL))
            continue;
        /* open() returns the lowest free number, which is i. Without /dev an O_PATH fd is used:
         * every operation on it is EBADF. */
        if (open("/dev/null", O_RDWR) < 0 && open("/", O_PATH | O_DIRECTORY) < 0)
            _exit(EXIT_BROKEN);
    }
}

int shim_open(const char *path, int flags, mode_t mode)
{
    int fd;

    do
        fd = open(path, flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* True if the call must be repeated: EINTR, or EAGAIN because another process has made stdio
 * non-blocking; then it polls first. */
static int stdio_try_again(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    if (errno == EINTR)
        return 1;
    if (errno != EAGAIN || fd > STDERR_FILENO)
        return 0;
    return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

ssize_t shim_read(int fd, void *buf, size_t len)
{
    ssize_t n;

    do
        n = read(fd, buf, len);
    while (n < 0 && stdio_try_again(fd, POLLIN));
    if (n < 0 && errno == EBADF && fd == STDIN_FILENO)
        return 0;
    return n < 0 ? -errno : n;
}

int shim_write(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EBADF && (fd == STDOUT_FILENO || fd == STDERR_FILENO)) {
            return 0;
        } else if (!stdio_try_again(fd, POLLOUT)) {
            return -errno;
        }
    }
    return 0;
}

int shim_copy(int in, int out, enum shim_side *ret_side)
{
    static char buf[COPY_BYTES];
    ssize_t n;
    int r;

    while ((n = shim_read(in, buf, sizeof(buf))) > 0) {
        r = shim_write(out, buf, (size_t)n);
        if (r < 0) {
            *ret_side = SHIM_SIDE_OUT;
            return r;
        }
    }
    *ret_side = n < 0 ? SHIM_SIDE_IN : SHIM_SIDE_NONE;
    return (int)n;
}

int shim_fchmod(int fd, mode_t mode)
{
    if (fchmod(fd, mode) == 0)
        return 0;
    if (errno != EPERM || (mode & (S_ISUID | S_ISGID)) == 0)
        return -errno;
    return fchmod(fd, mode & ~(mode_t)(S_ISUID | S_ISGID)) < 0 ? -errno : 0;
}
