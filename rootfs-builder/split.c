#include "split.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "path.h"

struct splitter {
    struct tarball *t;                 /* borrowed */
    const struct split_limits *limits; /* borrowed */
    const struct split_sink *sink;     /* borrowed */
    uint64_t files, entries;
};

static int put_zeros(const struct splitter *s, uint64_t len, struct err *err)
{
    static const char zeros[65536];
    int r = 0;

    while (r == 0 && len > 0) {
        size_t n = len < sizeof(zeros) ? (size_t)len : sizeof(zeros);

        r = s->sink->bytes(s->sink->data, zeros, n, err);
        len -= n;
    }
    return r;
}

/* Holes are written as zeros. */
static int put_contents(const struct splitter *s, uint64_t size, struct err *err)
{
    uint64_t pos = 0, at = 0;
    const void *data = NULL;
    size_t len = 0;
    int r;

    while ((r = tarball_data(s->t, &data, &len, &at, err)) > 0) {
        if (at > size || len > size - at || at < pos)
            return err_set(err, -EBADMSG, "contents beyond its size");
        r = put_zeros(s, at - pos, err);
        if (r == 0)
            r = s->sink->bytes(s->sink->data, data, len, err);
        if (r < 0)
            return r;
        pos = at + len;
    }
    return r < 0 ? r : put_zeros(s, size - pos, err);
}

static int split_entry(struct splitter *s, const struct entry *e, struct err *err)
{
    int r;

    if (s->entries >= s->limits->entries)
        return err_set(err, -E2BIG, "more than %" PRIu64 " entries", s->limits->entries);
    s->entries++;
    if (strlen(e->name) > WORKER_PATH_MAX || strlen(e->link) > WORKER_PATH_MAX)
        return err_errno(err, -ENAMETOOLONG, "its name");
    if (e->size > s->limits->files - s->files)
        return err_set(err, -EFBIG, "files of more than %" PRIu64 " bytes", s->limits->files);
    s->files += e->size;
    r = s->sink->entry(s->sink->data, e, err);
    return r <= 0 || e->kind != ENTRY_FILE ? (r < 0 ? r : 0) : put_contents(s, e->size, err);
}

int split(struct tarball *t, const struct split_limits *limits, const struct split_sink *sink,
          uint64_t *ret_entries, char *reterr_entry, struct err *err)
{
    struct splitter s = {.t = t, .limits = limits, .sink = sink};
    struct entry e;
    int r;

    reterr_entry[0] = '\0';
    while ((r = tarball_next(t, &e, err)) > 0) {
        (void)snprintf(reterr_entry, PATH_ROOM, "%s", e.name);
        r = split_entry(&s, &e, err);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = tarball_drain(t, err);
    if (r < 0)
        return r;
    reterr_entry[0] = '\0';
    *ret_entries = s.entries;
    return 0;
}
