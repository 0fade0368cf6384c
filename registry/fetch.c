/*
 * FETCH: a blob into the parent's fd. It only appends; after a connection that broke off it goes on
 * where it was. Runs in the threads of rind-registry.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "call.h"
#include "header.h"
#include "requests.h"

enum { PATH_ROOM = 128, WORTH = 1 << 20 /* bytes after which a transfer counts as going well */ };

struct fetch {
    struct errand *e;
    struct registry_host *h;
    int64_t size, have; /* of the blob; have: what fd has */
    int64_t asked;      /* the first byte that was asked for; 0: all */
    int64_t drop;       /* bytes at the begin of this answer that fd has already */
    bool begun;         /* this answer's head was looked at */
    bool no_range;      /* the host does not know ranges of this blob */
    char etag[256];
};

static int fetch_mismatch(const struct fetch *f, const char *what, struct trouble *t)
{
    return trouble_set(t, REGISTRY_DIGEST, -EBADMSG, "%s: blob %s: %s", f->h->shown,
                       f->e->msg.digest, what);
}

/* Where the bytes of an answer begin. */
static int fetch_begin(struct fetch *f, const struct http_response *p, struct trouble *t)
{
    int64_t first = 0, last = 0, total = -1;

    f->begun = true;
    if (p->status == 206) {
        if (!header_content_range(p->content_range, &first, &last, &total) || first > f->have ||
            (total >= 0 && total != f->size))
            return fetch_mismatch(f, "another range came than was asked for", t);
    } else if (p->length >= 0 && p->length != f->size) {
        return fetch_mismatch(f, "it has another size there than the manifest says", t);
    }
    f->drop = f->have - first;
    if (p->etag[0] != '\0' && strncmp(p->etag, "W/", 2) != 0)
        (void)snprintf(f->etag, sizeof(f->etag), "%s", p->etag);
    return 0;
}

static int fetch_write(const struct fetch *f, const char *at, size_t len, struct trouble *t)
{
    while (len > 0) {
        ssize_t n = write(f->e->fd, at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return trouble_set(t, REGISTRY_LOCAL, -errno, "write a blob: %s", strerror(errno));
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int fetch_on_body(void *data, const struct http_response *p, const void *bytes, size_t len,
                         struct trouble *t)
{
    struct fetch *f = data;
    const char *at = bytes;
    int r = f->begun ? 0 : fetch_begin(f, p, t);

    if (r < 0)
        return r;
    if (f->drop > 0) {
        size_t n = (int64_t)len < f->drop ? len : (size_t)f->drop;

        f->drop -= (int64_t)n;
        at += n;
        len -= n;
    }
    if ((int64_t)len > f->size - f->have)
        return fetch_mismatch(f, "more bytes came than the manifest says", t);
    r = fetch_write(f, at, len, t);
    if (r < 0)
        return r;
    f->have += (int64_t)len;
    errand_tell_progress(f->e, f->have);
    return 0;
}

static int fetch_judge(struct fetch *f, const struct http_response *p, struct trouble *t)
{
    if (p->status == 416 && f->asked > 0) {
        f->no_range = true;
        (void)fetch_mismatch(f, "the registry does not have the range that was asked for", t);
        t->may_pass = true;
        return t->code;
    }
    if (p->status != 200 && p->status != 206)
        return call_refused(f->h, p, "blob unknown", t);
    if (f->have == f->size)
        return 0;
    (void)trouble_set(t, REGISTRY_CONNECT, -ECONNRESET,
                      "%s: blob %s ended after %" PRId64 " of %" PRId64 " bytes", f->h->shown,
                      f->e->msg.digest, f->have, f->size);
    t->may_pass = true;
    return t->code;
}

static int fetch_attempt(struct fetch *f, struct trouble *t)
{
    char path[PATH_ROOM], range[64], if_range[300];
    struct call c = {.method = "GET",
                     .path = path,
                     .body_fd = FD_NONE,
                     .on_body = fetch_on_body,
                     .data = f,
                     .once = true};
    struct http_response p;
    int r;

    (void)snprintf(path, sizeof(path), "blobs/%s", f->e->msg.digest);
    f->asked = f->no_range ? 0 : f->have;
    if (f->asked > 0) {
        (void)snprintf(range, sizeof(range), "Range: bytes=%" PRId64 "-", f->asked);
        c.headers[0] = range;
        if (f->etag[0] != '\0') {
            (void)snprintf(if_range, sizeof(if_range), "If-Range: %s", f->etag);
            c.headers[1] = if_range;
        }
    }
    f->begun = false;
    f->drop = 0;
    r = call_perform(f->e, f->h, &c, &p, NULL, t);
    if (r < 0)
        return r;
    r = fetch_judge(f, &p, t);
    http_response_done(&p);
    return r;
}

static int fetch_from(struct fetch *f, struct trouble *t)
{
    int64_t before = f->have;
    int attempt = 0, r;

    f->etag[0] = '\0';
    f->no_range = false;
    for (;;) {
        r = fetch_attempt(f, t);
        if (r == 0)
            return 0;
        if (f->have - before >= WORTH) {
            before = f->have;
            attempt = 0;
            f->e->waited_ms = 0;
        }
        if (!errand_try_again(f->e, &attempt, t))
            return r;
    }
}

int request_fetch(struct errand *e, struct registry_msg *done, int *ret_fd, struct trouble *t)
{
    struct fetch f = {.e = e, .size = e->msg.size, .have = e->msg.offset};
    size_t at = 0;
    int r = 0;

    (void)ret_fd;
    if (e->fd < 0)
        return trouble_set(t, REGISTRY_LOCAL, -EBADF, "a blob without a descriptor for it");
    if (f.have == f.size) {
        done->offset = f.have;
        return 0;
    }
    while ((f.h = request_next_host(e, true, &at)) != NULL) {
        r = fetch_from(&f, t);
        if (r == 0 || !request_goes_on(e, f.h, t))
            break;
    }
    done->offset = f.have;
    return r;
}
