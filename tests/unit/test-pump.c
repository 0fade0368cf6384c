/* The pump between every kind of descriptor: all bytes, in order, whoever is slow; the end and the
 * error of each side; and what it leaves of descriptors that others use. */

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/file.h"
#include "proto/syscalls.h"
#include "run/pump.h"
#include "tap.h"

enum { DEADLINE_MS = 60000, CHUNK = 65536, SEED = 12345 };

struct job {
    uv_loop_t loop;
    uv_timer_t deadline;
    struct pump pump;
    bool ended, late;
    int error;
};

static void on_done(struct pump *p)
{
    struct job *j = p->data;

    j->ended = true;
    j->error = p->error;
    pump_stop(p);
    uv_close((uv_handle_t *)&j->deadline, NULL);
}

static void on_deadline(uv_timer_t *t)
{
    struct job *j = t->data;

    j->late = true;
    pump_stop(&j->pump);
    uv_close((uv_handle_t *)t, NULL);
}

/* Pumps until the end. Returns the pump's error, or 1 when it did not end. */
static int pump_all(struct job *j, int in, int out, uint64_t ms)
{
    *j = (struct job){.error = 1};
    if (uv_loop_init(&j->loop) != 0 || uv_timer_init(&j->loop, &j->deadline) != 0)
        abort();
    j->deadline.data = j;
    (void)uv_timer_start(&j->deadline, on_deadline, ms, 0);
    CHECK_INT(pump_start(&j->loop, &j->pump, in, out, on_done, j), 0);
    (void)uv_run(&j->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&j->loop), 0);
    return j->error;
}

static uint32_t next(uint32_t *x)
{
    *x = *x * 1664525 + 1013904223;
    return *x >> 8;
}

static void fill(char *buf, size_t len, uint32_t *x)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = (char)next(x);
}

/* In a child: only this one stays open, so that both sides see each other's end. */
static int only(int fd)
{
    if (fd != 3 && dup2(fd, 3) < 0)
        _exit(9);
    (void)sys_close_range(4, ~0U, 0);
    return 3;
}

/* Writes `total` bytes of the sequence in a process of its own. */
static pid_t writer(int fd, size_t total)
{
    pid_t pid = fork();
    uint32_t x = SEED;
    char buf[CHUNK];

    if (pid != 0)
        return pid;
    fd = only(fd);
    (void)signal(SIGPIPE, SIG_DFL);
    while (total > 0) {
        size_t n = total < sizeof(buf) ? total : sizeof(buf);

        fill(buf, n, &x);
        if (write_all(fd, buf, n) < 0)
            _exit(2);
        total -= n;
    }
    _exit(0);
}

/* Checks that it gets just that sequence and its end; pauses now and then when it is slow. */
static pid_t reader(int fd, size_t total, bool slow)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    pid_t pid = fork();
    char buf[CHUNK], want[CHUNK];
    uint32_t x = SEED;

    if (pid != 0)
        return pid;
    fd = only(fd);
    for (unsigned turn = 0;; turn++) {
        size_t size = slow ? 1 + turn % 5000 : sizeof(buf);
        ssize_t n = read(fd, buf, size);

        if (n < 0 || (size_t)n > total)
            _exit(3);
        if (n == 0)
            _exit(total == 0 ? 0 : 4);
        fill(want, (size_t)n, &x);
        if (memcmp(buf, want, (size_t)n) != 0)
            _exit(5);
        total -= (size_t)n;
        if (slow && turn % 16 == 0)
            (void)nanosleep(&pause, NULL);
    }
}

static int status_of(pid_t pid)
{
    int status = -1;

    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

enum kind { PIPE, SOCKET };

static void open_kind(enum kind kind, int fds[2])
{
    int r = kind == PIPE ? pipe2(fds, O_CLOEXEC)
                         : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);

    if (r < 0)
        abort();
}

static void transfer(enum kind from, enum kind to, size_t total, bool slow)
{
    int in[2], out[2];
    struct job j;
    pid_t w, r;

    open_kind(from, in);
    open_kind(to, out);
    w = writer(in[1], total);
    (void)close(in[1]);
    r = reader(out[0], total, slow);
    (void)close(out[0]);
    CHECK_INT(pump_all(&j, in[0], out[1], DEADLINE_MS), 0);
    (void)close(out[1]);
    (void)close(in[0]);
    CHECK_INT(status_of(w), 0);
    CHECK_INT(status_of(r), 0);
}

TEST(a_hundred_megabytes)
{
    transfer(PIPE, PIPE, 100 << 20, false);
}

TEST(sockets_are_pumped)
{
    transfer(SOCKET, PIPE, 8 << 20, false);
    transfer(PIPE, SOCKET, 8 << 20, false);
    transfer(SOCKET, SOCKET, 8 << 20, false);
}

TEST(slow_readers)
{
    transfer(PIPE, PIPE, 1 << 20, true);
    transfer(PIPE, SOCKET, 1 << 20, true);
    transfer(SOCKET, PIPE, 1 << 20, true);
}

TEST(nothing_at_all)
{
    transfer(PIPE, PIPE, 0, false);
    transfer(SOCKET, SOCKET, 0, false);
}

TEST(files_are_pumped)
{
    enum { SIZE = 1 << 20 };
    int from = memfd_create("from", MFD_CLOEXEC), to = memfd_create("to", MFD_CLOEXEC);
    char *data = malloc(SIZE), *got = malloc(SIZE);
    uint32_t x = SEED;
    struct job j;
    int p[2];

    if (data == NULL || got == NULL)
        abort();
    fill(data, SIZE, &x);
    CHECK_INT(write_all(from, data, SIZE), 0);
    CHECK_INT(lseek(from, 0, SEEK_SET), 0);
    CHECK_INT(pump_all(&j, from, to, DEADLINE_MS), 0);
    CHECK_INT(pread(to, got, SIZE, 0), SIZE);
    CHECK(memcmp(data, got, SIZE) == 0);

    /* A file into a pipe, and a pipe into a file at its offset. */
    open_kind(PIPE, p);
    CHECK_INT(lseek(from, SIZE - 1000, SEEK_SET), SIZE - 1000);
    CHECK_INT(pump_all(&j, from, p[1], DEADLINE_MS), 0);
    (void)close(p[1]);
    CHECK_INT(lseek(to, 0, SEEK_SET), 0);
    CHECK_INT(pump_all(&j, p[0], to, DEADLINE_MS), 0);
    CHECK_INT(pread(to, got, 1000, 0), 1000);
    CHECK(memcmp(data + SIZE - 1000, got, 1000) == 0);
    (void)close(p[0]);
    (void)close(from);
    (void)close(to);
    free(data);
    free(got);
}

TEST(a_reader_that_goes)
{
    for (int i = 0; i < 4; i++) {
        int in[2], out[2];
        struct job j;
        pid_t w;

        open_kind(i & 1 ? SOCKET : PIPE, in);
        open_kind(i & 2 ? SOCKET : PIPE, out);
        w = writer(in[1], 1 << 20);
        (void)close(in[1]);
        (void)close(out[0]);
        CHECK_INT(pump_all(&j, in[0], out[1], DEADLINE_MS), -EPIPE);
        (void)close(in[0]);
        (void)close(out[1]);
        CHECK(status_of(w) != 0);
    }
}

TEST(errors_of_a_side)
{
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    int dir = open("/", O_RDONLY | O_CLOEXEC);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct job j;

    CHECK_INT(pump_all(&j, zero, full, DEADLINE_MS), -ENOSPC);
    CHECK_INT(pump_all(&j, dir, null, DEADLINE_MS), -EISDIR);
    CHECK_INT(pump_all(&j, 1000, null, DEADLINE_MS), -EBADF);
    CHECK_INT(pump_all(&j, zero, dir, DEADLINE_MS), -EBADF);
    (void)close(full);
    (void)close(zero);
    (void)close(dir);
    (void)close(null);
}

/* The shell's next command finds its terminal and its pipes as they were. */
TEST(flags_of_others)
{
    int in[2], out[2];
    struct job j;

    for (int nonblock = 0; nonblock < 2; nonblock++) {
        open_kind(PIPE, in);
        open_kind(PIPE, out);
        if (nonblock) {
            (void)fcntl(in[0], F_SETFL, O_NONBLOCK);
            (void)fcntl(out[1], F_SETFL, O_NONBLOCK);
        }
        (void)close(in[1]);
        int before_in = fcntl(in[0], F_GETFL), before_out = fcntl(out[1], F_GETFL);

        CHECK_INT(pump_all(&j, in[0], out[1], DEADLINE_MS), 0);
        CHECK_INT(fcntl(in[0], F_GETFL), before_in);
        CHECK_INT(fcntl(out[1], F_GETFL), before_out);
        (void)close(in[0]);
        (void)close(out[0]);
        (void)close(out[1]);
    }
}

/* A terminal is read and written by the same number: while its reader sleeps nothing spins. */
TEST(both_directions_of_a_terminal)
{
    struct termios raw;
    struct timespec before, after;
    struct job j;
    int master, slave, in[2], out[2];
    struct pump reads = {.started = false};
    char line[8192];

    if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
        abort();
    (void)tcgetattr(slave, &raw);
    cfmakeraw(&raw);
    (void)tcsetattr(slave, TCSANOW, &raw);
    (void)fcntl(master, F_SETFL, O_NONBLOCK);
    open_kind(PIPE, in);
    open_kind(PIPE, out);
    (void)memset(line, 'x', sizeof(line));
    for (int i = 0; i < 6; i++)
        CHECK_INT(write_all(in[1], line, sizeof(line)), 0);

    j = (struct job){.error = 1};
    if (uv_loop_init(&j.loop) != 0 || uv_timer_init(&j.loop, &j.deadline) != 0)
        abort();
    j.deadline.data = &j;
    (void)uv_timer_start(&j.deadline, on_deadline, 300, 0);
    CHECK_INT(pump_start(&j.loop, &reads, master, out[1], on_done, &j), 0);
    CHECK_INT(pump_start(&j.loop, &j.pump, in[0], master, on_done, &j), 0);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    while (!j.late)
        (void)uv_run(&j.loop, UV_RUN_ONCE);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    CHECK(j.late); /* the slave reads nothing, so it is not through */
    CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 < 150);
    pump_stop(&reads);
    (void)uv_run(&j.loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&j.loop), 0);
    const int fds[] = {master, slave, in[0], in[1], out[0], out[1]};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        (void)close(fds[i]);
}

TEST(stopped_before_its_end)
{
    int in[2], out[2];
    struct job j;

    open_kind(PIPE, in);
    open_kind(PIPE, out);
    CHECK_INT(pump_all(&j, in[0], out[1], 50), 1);
    CHECK(j.late && !j.ended);
    pump_stop(&j.pump); /* again, and after the loop: nothing */
    (void)close(in[0]);
    (void)close(in[1]);
    (void)close(out[0]);
    (void)close(out[1]);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as rind has it */
    return tap_run();
}
