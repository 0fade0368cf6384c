/* The contents of regular files for pack.c, with holes as GNU sparse format. Runs in B of worker.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "pack-internal.h"

enum {
    COPY_BYTES = 1 << 18,
    /* Smaller holes do not justify a format that some readers lack. */
    HOLES_MIN = 1 << 20,
    SEGMENTS_MAX = 16384,
    MAP_LINE_MAX = 2 * 21,
};

struct file_segment {
    uint64_t at, len;
};

struct segments {
    struct file_segment *items; /* owned */
    size_t count;
    uint64_t bytes;
};

int put_bytes(struct packer *p, const void *bytes, size_t len, struct err *err)
{
    p->written += len;
    return p->sink->bytes(p->sink->data, bytes, len, err);
}

static int put_padding(struct packer *p, struct err *err)
{
    static const uint8_t zeros[TAR_BLOCK];
    size_t over = (size_t)(p->written % TAR_BLOCK);

    return over == 0 ? 0 : put_bytes(p, zeros, TAR_BLOCK - over, err);
}

int put_item(struct packer *p, struct err *err)
{
    ssize_t n = tar_put_item(p->head, &p->item);

    return n < 0 ? err_errno(err, (int)n, "its attributes") : put_bytes(p, p->head, (size_t)n, err);
}

/* Writes len bytes from `at` on; zeros if the file has become shorter. */
static int put_range(struct packer *p, int fd, uint64_t at, uint64_t len, struct err *err)
{
    static uint8_t buf[COPY_BYTES];
    bool ended = false;
    int r = 0;

    if (lseek(fd, (off_t)at, SEEK_SET) < 0)
        return err_errno(err, -errno, "seek");
    while (r == 0 && len > 0) {
        size_t want = len < sizeof(buf) ? (size_t)len : sizeof(buf);
        ssize_t n = ended ? 0 : read(fd, buf, want);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "read");
        if (n == 0) {
            ended = true;
            (void)memset(buf, 0, want);
            n = (ssize_t)want;
        }
        r = put_bytes(p, buf, (size_t)n, err);
        len -= (uint64_t)n;
    }
    return r;
}

static int put_plain(struct packer *p, int fd, uint64_t size, struct err *err)
{
    int r;

    p->item.size = size;
    r = put_item(p, err);
    if (r == 0)
        r = put_range(p, fd, 0, size, err);
    return r < 0 ? r : put_padding(p, err);
}

/* Finds the file's data segments. Returns false when it is better packed completely. */
static bool file_find_segments(int fd, uint64_t size, struct segments *s)
{
    off_t at = 0;

    s->items = malloc(SEGMENTS_MAX * sizeof(*s->items));
    if (s->items == NULL)
        return false;
    while (s->count < SEGMENTS_MAX - 1 && (uint64_t)at < size) {
        off_t data = lseek(fd, at, SEEK_DATA), hole;

        if (data < 0 || (uint64_t)data >= size)
            break;
        hole = lseek(fd, data, SEEK_HOLE);
        if (hole < 0)
            return false;
        at = (uint64_t)hole < size ? hole : (off_t)size;
        s->items[s->count++] = (struct file_segment){(uint64_t)data, (uint64_t)(at - data)};
        s->bytes += (uint64_t)(at - data);
    }
    if (s->count == SEGMENTS_MAX - 1 || size - s->bytes < HOLES_MIN)
        return false;
    /* The map must reach to the end of the file. */
    if (s->count == 0 || s->items[s->count - 1].at + s->items[s->count - 1].len < size)
        s->items[s->count++] = (struct file_segment){size, 0};
    return true;
}

static int put_sparse(struct packer *p, int fd, uint64_t size, const struct segments *s,
                      struct err *err)
{
    size_t cap = (s->count + 1) * MAP_LINE_MAX, len = 0, padded;
    auto_free char *map = malloc(cap + TAR_BLOCK);
    int r;

    if (map == NULL)
        return err_errno(err, -ENOMEM, "its map");
    len += (size_t)snprintf(map, cap, "%zu\n", s->count);
    for (size_t i = 0; i < s->count; i++)
        len += (size_t)snprintf(map + len, cap - len, "%" PRIu64 "\n%" PRIu64 "\n", s->items[i].at,
                                s->items[i].len);
    padded = (len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    (void)memset(map + len, 0, padded - len);
    p->item.sparse = true;
    p->item.real_size = size;
    p->item.size = padded + s->bytes;
    r = put_item(p, err);
    if (r == 0)
        r = put_bytes(p, map, padded, err);
    for (size_t i = 0; r == 0 && i < s->count; i++)
        if (s->items[i].len > 0)
            r = put_range(p, fd, s->items[i].at, s->items[i].len, err);
    return r < 0 ? r : put_padding(p, err);
}

int put_file(struct packer *p, int fd, const struct stat *st, struct err *err)
{
    uint64_t size = (uint64_t)st->st_size;
    struct segments s = {.items = NULL};
    int r;

    /* Only a file with fewer blocks than bytes can have large holes. */
    if (size >= HOLES_MIN && (uint64_t)st->st_blocks * 512 < size - HOLES_MIN / 2 &&
        file_find_segments(fd, size, &s))
        r = put_sparse(p, fd, size, &s, err);
    else
        r = put_plain(p, fd, size, err);
    free(s.items);
    return r;
}
