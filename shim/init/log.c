/*
 * Writes logs by splice at an offset, so no process copies the bytes. A reader of the file never
 * sees a byte twice or misses one, even if a process is killed meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/exec-table.h"

enum { SPLICE_CHUNK = 1 << 20, DISCARD_CHUNK = 64 << 10 };

static int log_write_header(const struct log *l, unsigned segment, uint64_t start)
{
    const struct log_header h = {.magic = LOG_MAGIC, .start = start, .dropped = l->dropped};

    return pwrite(l->segments[segment], &h, sizeof(h), 0) == (ssize_t)sizeof(h) ? 0 : -errno;
}

/*
 * Continues where an earlier run has ended: behind the newer one of the valid segments. Only the
 * file's size says how much it holds, because init may have been killed at any time.
 */
static bool log_take_up(struct log *l)
{
    struct log_header h;
    struct stat st;
    bool found = false;

    for (unsigned i = 0; i < 2; i++) {
        if (pread(l->segments[i], &h, sizeof(h), 0) != (ssize_t)sizeof(h) || !log_header_ok(&h) ||
            fstat(l->segments[i], &st) < 0)
            continue;
        if (h.dropped > l->dropped)
            l->dropped = h.dropped;
        if (found && h.start < l->start)
            continue;
        found = true;
        l->current = i;
        l->start = h.start;
        l->used = (uint64_t)st.st_size - sizeof(h);
    }
    return found;
}

int log_open(struct log *l, int pipe_fd, const int segments[2], uint32_t size)
{
    struct stat st;

    *l = (struct log){.pipe = pipe_fd, .segments = {segments[0], segments[1]}, .size = size};
    for (int i = 0; i < 2; i++)
        if (fstat(segments[i], &st) < 0 || !S_ISREG(st.st_mode) ||
            (fcntl(segments[i], F_GETFL) & O_APPEND) != 0)
            return -EINVAL;
    if (size < LOG_SIZE_MIN)
        return -EINVAL;
    if (log_take_up(l))
        return 0;
    if (ftruncate(l->segments[0], 0) < 0) /* a segment without a valid header */
        return -errno;
    return log_write_header(l, 0, 0);
}

/*
 * Empties the other segment and continues there, after its header is written. Bytes in a segment
 * without a header would be lost without being counted.
 */
static bool log_rotate(struct log *l)
{
    unsigned next = 1 - l->current;

    if (ftruncate(l->segments[next], 0) < 0 || log_write_header(l, next, l->start + l->used) < 0)
        return false;
    l->start += l->used;
    l->used = 0;
    l->current = next;
    return true;
}

/*
 * Drops bytes when the disk is full, because the process must not block. The header counts them.
 * Returns whether more may come.
 */
static bool log_discard(struct log *l)
{
    char scratch[4096];
    size_t left = DISCARD_CHUNK;
    ssize_t n = 1;
    bool more;

    while (left > 0) {
        n = read(l->pipe, scratch, sizeof(scratch));
        if (n <= 0)
            break;
        l->dropped += (uint64_t)n;
        left -= (size_t)n < left ? (size_t)n : left;
    }
    more = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (left < DISCARD_CHUNK)
        (void)log_write_header(l, l->current, l->start);
    return more;
}

bool log_move(struct log *l)
{
    off_t at;
    ssize_t n;

    if (l->used >= l->size && !log_rotate(l))
        return log_discard(l);
    at = (off_t)(sizeof(struct log_header) + l->used);
    n = splice(l->pipe, NULL, l->segments[l->current], &at,
               l->size - l->used < SPLICE_CHUNK ? (size_t)(l->size - l->used) : SPLICE_CHUNK,
               SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (n > 0) {
        l->used += (uint64_t)n;
        return true;
    }
    if (n == 0)
        return false;
    if (errno == EAGAIN || errno == EINTR)
        return true;
    return log_discard(l);
}

void log_close(struct log *l)
{
    if (l->pipe >= 0)
        (void)close(l->pipe);
    for (int i = 0; i < 2; i++)
        if (l->segments[i] >= 0)
            (void)close(l->segments[i]);
    *l = (struct log){.pipe = -1, .segments = {-1, -1}};
}
