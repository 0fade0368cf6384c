/*
 * The log segments of a process in the supervisor's directory: <name>.out.0, .out.1, .err.0, .err.1
 * (proto/init-msg.h describes their content). The main process's log continues from run to run,
 * with offsets that only grow. main.run holds the offsets at which the last run began.
 */
#include "sandbox/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "proto/init-msg.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

enum {
    STREAMS = 2,
    SEGMENTS = 2 * STREAMS,
    READ_TRIES = 16,        /* in case init empties segments faster than they are read */
    RUN_MAGIC = 0x4e525244, /* "DRRN" */
};

/*
 * The content of main.run. The file is overwritten in place: a kill cannot leave half of it, and a
 * full disk cannot prevent it.
 */
struct run_mark {
    uint32_t magic, reserved;
    uint64_t began[STREAMS];
};
_Static_assert(sizeof(struct run_mark) == 24, "run_mark is a file format");

/* ---- files ---- */

static void segment_name(char *text, size_t size, const char *name, int i)
{
    (void)snprintf(text, size, "%s.%s.%d", name, i < 2 ? "out" : "err", i % 2);
}

static int logs_open_at(int dir, const char *file, int flags, struct err *err)
{
    int fd = openat(dir, file, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    return fd < 0 ? err_errno(err, -errno, "log %s", file) : fd;
}

static void segments_close(int *fds, int count)
{
    while (count-- > 0)
        (void)close(take_fd(&fds[count]));
}

static int segments_open(int dir, const char *name, bool fresh, int fds[4], struct err *err)
{
    char file[96];

    for (int i = 0; i < SEGMENTS; i++) {
        segment_name(file, sizeof(file), name, i);
        fds[i] = logs_open_at(dir, file, O_RDWR | (fresh ? O_TRUNC : 0), err);
        if (fds[i] < 0) {
            int r = fds[i];

            segments_close(fds, i);
            return r;
        }
    }
    return 0;
}

int logs_open(struct sandbox *s, const char *name, bool fresh, int fds[4], struct err *err)
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, err);

    return dir < 0 ? dir : segments_open(dir, name, fresh, fds, err);
}

void logs_remove(struct sandbox *s, const char *name)
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, NULL);
    char file[96];

    for (int i = 0; dir >= 0 && i < SEGMENTS; i++) {
        segment_name(file, sizeof(file), name, i);
        (void)unlinkat(dir, file, 0);
    }
}

/* ---- reading ---- */

struct segment {
    int fd;
    struct log_header header;
    uint64_t end; /* logical */
};

/* Reads the headers of both segments, the older one first. Returns the number of valid ones. */
static int segments_load(const int fds[2], struct segment ret[2])
{
    int count = 0;

    for (int i = 0; i < 2; i++) {
        struct segment s = {.fd = fds[i]};
        struct stat st;

        if (pread(s.fd, &s.header, sizeof(s.header), 0) != (ssize_t)sizeof(s.header) ||
            !log_header_ok(&s.header) || fstat(s.fd, &st) < 0 ||
            st.st_size < (off_t)sizeof(s.header))
            continue;
        s.end = s.header.start + (uint64_t)st.st_size - sizeof(s.header);
        ret[count++] = s;
    }
    if (count == 2 && ret[0].header.start > ret[1].header.start) {
        struct segment t = ret[0];

        ret[0] = ret[1];
        ret[1] = t;
    }
    return count;
}

/* Checks that init has not emptied the segment since its header was read. */
static bool segment_is_unchanged(const struct segment *s)
{
    struct log_header now;

    return pread(s->fd, &now, sizeof(now), 0) == (ssize_t)sizeof(now) && now.magic == LOG_MAGIC &&
           now.start == s->header.start;
}

/* Returns -EAGAIN if init has changed the segments meanwhile; the caller tries again. */
static ssize_t segments_read_once(const int fds[2], uint64_t *offset, void *buf, size_t size,
                                  uint64_t *ret_lost)
{
    struct segment segments[2];
    int count = segments_load(fds, segments);

    for (int i = 0; i < count; i++) {
        const struct segment *s = &segments[i];
        uint64_t from = *offset < s->header.start ? s->header.start : *offset;
        size_t want;
        ssize_t n;

        if (from >= s->end)
            continue;
        want = s->end - from < size ? (size_t)(s->end - from) : size;
        n = pread(s->fd, buf, want, (off_t)(sizeof(s->header) + (from - s->header.start)));
        if (n < 0)
            return -errno;
        if (!segment_is_unchanged(s))
            return -EAGAIN;
        *ret_lost = from - *offset;
        *offset = from + (uint64_t)n;
        return n;
    }
    return 0;
}

ssize_t logs_read(const int fds[2], uint64_t *offset, void *buf, size_t size, uint64_t *ret_lost)
{
    ssize_t n = -EAGAIN;

    *ret_lost = 0;
    for (int tries = 0; n == -EAGAIN && tries < READ_TRIES; tries++)
        n = segments_read_once(fds, offset, buf, size, ret_lost);
    return n;
}

void logs_state(const int fds[2], struct process_log *ret)
{
    struct segment segments[2];
    int count = segments_load(fds, segments);

    *ret = (struct process_log){.first = 0};
    if (count == 0)
        return;
    ret->first = segments[0].header.start;
    ret->end = segments[count - 1].end;
    for (int i = 0; i < count; i++)
        if (segments[i].header.dropped > ret->dropped)
            ret->dropped = segments[i].header.dropped;
}

/* ---- the main process's log ---- */

static const char mark_name[] = "main.run";

static int logs_write_mark(int dir, const uint64_t began[STREAMS], struct err *err)
{
    const struct run_mark mark = {.magic = RUN_MAGIC, .began = {began[0], began[1]}};
    auto_close int fd = logs_open_at(dir, mark_name, O_WRONLY, err);
    ssize_t n;

    if (fd < 0)
        return fd;
    n = pwrite(fd, &mark, sizeof(mark), 0);
    if (n != (ssize_t)sizeof(mark))
        return err_errno(err, n < 0 ? -errno : -ENOSPC, "log %s", mark_name);
    return 0;
}

int logs_make_main(struct sandbox *s, struct err *err)
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, err);
    auto_close int mark = FD_NONE;
    int fds[SEGMENTS], r;

    if (dir < 0)
        return dir;
    r = segments_open(dir, "main", false, fds, err);
    if (r < 0)
        return r;
    segments_close(fds, SEGMENTS);
    mark = logs_open_at(dir, mark_name, O_WRONLY, err);
    return mark < 0 ? mark : 0;
}

int logs_begin_main(struct sandbox *s, int fds[4], struct err *err)
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, err);
    uint64_t began[STREAMS];
    struct process_log log;
    int r;

    if (dir < 0)
        return dir;
    r = segments_open(dir, "main", false, fds, err);
    if (r < 0)
        return r;
    for (int i = 0; i < STREAMS; i++) {
        logs_state(&fds[2 * i], &log);
        began[i] = log.end;
    }
    r = logs_write_mark(dir, began, err);
    if (r < 0)
        segments_close(fds, SEGMENTS);
    return r;
}

void logs_main_began(struct sandbox *s, uint64_t ret[2])
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, NULL);
    auto_close int fd =
        dir < 0 ? FD_NONE : openat(dir, mark_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct run_mark mark;
    bool known = fd >= 0 && pread(fd, &mark, sizeof(mark), 0) == (ssize_t)sizeof(mark) &&
                 mark.magic == RUN_MAGIC;

    for (int i = 0; i < STREAMS; i++)
        ret[i] = known && mark.began[i] <= INT64_MAX ? mark.began[i] : 0;
}
