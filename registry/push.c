/*
 * PUSH_BLOB and PUSH_MANIFEST. A blob goes as one PATCH with its length and an empty PUT behind it,
 * which is the form that registries are tested with; where PATCH is not known, as one PUT. Runs in
 * the threads of rind-registry.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "call.h"
#include "document.h"
#include "requests.h"

enum { PATH_ROOM = 1024, ANSWER_MAX = 64 << 10 };

struct push {
    struct errand *e;
    struct registry_host *h;
    bool is_stream, no_patch;
    struct url place; /* of the upload, while it is open */
    bool open;
    bool spent; /* a stream was read from */
};

static bool status_is_done(int status)
{
    return status >= 200 && status < 300;
}

/* Remembers where an upload goes on. */
static int push_move(struct push *p, const struct http_response *a, const struct url *from,
                     struct trouble *t)
{
    struct err err = ERR_NONE;
    struct url next;

    if (a->location[0] == '\0') {
        if (p->open)
            return 0; /* it goes on where it was */
        return trouble_set(t, REGISTRY_MALFORMED, -EPROTO, "%s: an upload without a Location",
                           p->h->shown);
    }
    if (url_join(from, a->location, &next, &err) < 0)
        return trouble_set(t, REGISTRY_ADDRESS, err.code, "%s: sent an upload to %s", p->h->shown,
                           err.msg);
    if (from->https && !next.https)
        return trouble_set(t, REGISTRY_ADDRESS, -EPROTONOSUPPORT,
                           "%s: sent an upload from https to http, to %s, which is refused",
                           p->h->shown, next.host);
    p->place = next;
    p->open = true;
    return 0;
}

/* 1: the registry has it. */
static int push_look(struct push *p, struct trouble *t)
{
    char path[PATH_ROOM];
    const struct call c = {.method = "HEAD", .path = path, .body_fd = FD_NONE};
    struct http_response a;
    int r;

    (void)snprintf(path, sizeof(path), "blobs/%s", p->e->msg.digest);
    r = call_perform(p->e, p->h, &c, &a, NULL, t);
    if (r < 0)
        return r;
    if (a.status == 401)
        r = call_refused(p->h, &a, "authentication required", t);
    else
        r = a.status == 200;
    http_response_done(&a);
    return r;
}

/* Begins an upload. 1: it was mounted instead. */
static int push_begin(struct push *p, const char *mount_from, struct trouble *t)
{
    char path[PATH_ROOM];
    const struct call c = {.method = "POST",
                           .path = path,
                           .mount_from = mount_from,
                           .body_fd = FD_NONE,
                           .bytes = "",
                           .headers = {"Content-Type:"},
                           .answer_max = ANSWER_MAX};
    struct http_response a;
    struct url from;
    int r;

    if (mount_from != NULL)
        (void)snprintf(path, sizeof(path), "blobs/uploads/?mount=%s&from=%s", p->e->msg.digest,
                       mount_from);
    else
        (void)snprintf(path, sizeof(path), "blobs/uploads/");
    r = call_perform(p->e, p->h, &c, &a, &from, t);
    if (r < 0)
        return r;
    if (a.status == 201 && mount_from != NULL)
        r = 1;
    else if (a.status == 202)
        r = push_move(p, &a, &from, t);
    else
        r = call_refused(p->h, &a, "the upload was not begun", t);
    http_response_done(&a);
    return r;
}

static void push_on_sent(void *data, int64_t bytes)
{
    struct push *p = data;

    p->spent = true;
    errand_tell_progress(p->e, bytes);
}

/* The last step: names the digest. With the body in it if there was no PATCH. */
static int push_close(struct push *p, bool with_body, struct trouble *t)
{
    struct url u = p->place, from;
    struct call c = {.method = "PUT",
                     .url = &u,
                     .headers = {"Content-Type: application/octet-stream"},
                     .body_fd = with_body ? p->e->fd : FD_NONE,
                     .body_size = p->e->msg.size,
                     .body_is_stream = with_body && p->is_stream,
                     .on_sent = push_on_sent,
                     .bytes = with_body ? NULL : "",
                     .answer_max = ANSWER_MAX,
                     .data = p,
                     .once = true};
    struct http_response a;
    int r;

    if (url_add_query(&u, "digest", p->e->msg.digest) < 0)
        return trouble_set(t, REGISTRY_MALFORMED, -E2BIG, "%s: an upload's Location is too long",
                           p->h->shown);
    r = call_perform(p->e, p->h, &c, &a, &from, t);
    if (r < 0)
        return r;
    if (status_is_done(a.status))
        p->open = false;
    else
        r = call_refused(p->h, &a, "the blob was not taken", t);
    http_response_done(&a);
    return r;
}

static int push_patch(struct push *p, struct trouble *t)
{
    const struct call c = {.method = "PATCH",
                           .url = &p->place,
                           .headers = {"Content-Type: application/octet-stream"},
                           .body_fd = p->e->fd,
                           .body_size = p->e->msg.size,
                           .body_is_stream = p->is_stream,
                           .on_sent = push_on_sent,
                           .answer_max = ANSWER_MAX,
                           .data = p,
                           .once = true};
    struct http_response a;
    struct url from;
    int r = call_perform(p->e, p->h, &c, &a, &from, t);

    if (r < 0)
        return r;
    if (status_is_done(a.status)) {
        r = push_move(p, &a, &from, t);
    } else {
        r = call_refused(p->h, &a, "the blob was not taken", t);
        if (a.status == 404 || a.status == 416) /* the upload is lost: a new one may do */
            t->may_pass = true;
        if (a.status == 405 && (!p->spent || !p->is_stream))
            p->no_patch = t->may_pass = true;
    }
    http_response_done(&a);
    return r;
}

/* Tells the registry that an upload is given up. Whether it listens does not matter. */
static void push_give_up(struct push *p)
{
    const struct call c = {.method = "DELETE",
                           .url = &p->place,
                           .body_fd = FD_NONE,
                           .answer_max = ANSWER_MAX,
                           .once = true};
    struct http_response a;
    struct trouble t;

    if (p->open && !http_is_canceled(p->e->http) && call_perform(p->e, p->h, &c, &a, NULL, &t) == 0)
        http_response_done(&a);
    p->open = false;
}

static int push_attempt(struct push *p, struct trouble *t)
{
    int r = p->open ? 0 : push_begin(p, NULL, t);

    if (r == 0 && !p->no_patch)
        r = push_patch(p, t);
    if (r == 0)
        r = push_close(p, p->no_patch, t);
    if (r < 0)
        push_give_up(p);
    return r;
}

static int push_check_fd(struct push *p, struct trouble *t)
{
    const struct errand *e = p->e;
    struct stat st;

    if (e->fd < 0 || fstat(e->fd, &st) < 0)
        return trouble_set(t, REGISTRY_LOCAL, -EBADF, "a blob without a descriptor of it");
    p->is_stream = !S_ISREG(st.st_mode);
    if (!p->is_stream && st.st_size != e->msg.size)
        return trouble_set(t, REGISTRY_LOCAL, -EIO, "a blob of another size than was said");
    return 0;
}

int request_push_blob(struct errand *e, struct registry_msg *done, int *ret_fd, struct trouble *t)
{
    struct push p = {.e = e, .h = session_origin(e->session)};
    int attempt = 0, r = push_check_fd(&p, t);

    (void)ret_fd;
    if (r == 0)
        r = push_look(&p, t);
    if (r < 0)
        return r;
    if (r == 1) {
        done->flags |= REGISTRY_EXISTS;
        return 0;
    }
    if (e->msg.name[0] != '\0') {
        r = push_begin(&p, e->msg.name, t);
        if (r == 1) {
            done->flags |= REGISTRY_MOUNTED;
            (void)snprintf(done->name, sizeof(done->name), "%s", e->msg.name);
            return 0;
        }
        if (r < 0 && (t->fault == REGISTRY_CANCELED || t->fault == REGISTRY_CONNECT))
            return r;
        /* An upload that has begun in its stead goes on; after a refusal it is sent as any other.
         */
    }
    for (;;) {
        r = push_attempt(&p, t);
        if (r == 0 || (p.is_stream && p.spent) || !errand_try_again(e, &attempt, t))
            return r;
    }
}

/* ---- manifests ---- */

static int manifest_read(const struct errand *e, struct buf *ret, struct trouble *t)
{
    char part[16384];
    struct stat st;

    if (e->fd < 0 || fstat(e->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != e->msg.size ||
        st.st_size > DOCUMENT_MAX)
        return trouble_set(t, REGISTRY_LOCAL, -EINVAL,
                           "a manifest without a file of its size, at most 4 MiB");
    while ((int64_t)ret->len < st.st_size) {
        ssize_t n = pread(e->fd, part, sizeof(part), (off_t)ret->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || buf_append(ret, part, (size_t)n) < 0)
            return trouble_set(t, REGISTRY_LOCAL, n < 0 ? -errno : -EIO, "read the manifest");
    }
    return 0;
}

int request_push_manifest(struct errand *e, struct registry_msg *done, int *ret_fd,
                          struct trouble *t)
{
    struct registry_host *h = session_origin(e->session);
    auto_buf struct buf body = BUF_INIT(DOCUMENT_MAX + 1);
    char path[PATH_ROOM], type[MEDIA_TYPE_MAX + 32];
    struct call c = {.method = "PUT",
                     .path = path,
                     .headers = {type},
                     .body_fd = FD_NONE,
                     .answer_max = ANSWER_MAX};
    struct http_response a;
    int r = manifest_read(e, &body, t);

    (void)ret_fd;
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "manifests/%s", e->msg.name);
    (void)snprintf(type, sizeof(type), "Content-Type: %s", e->msg.media_type);
    c.bytes = body.data != NULL ? body.data : "";
    c.bytes_len = body.len;
    r = call_perform(e, h, &c, &a, NULL, t);
    if (r < 0)
        return r;
    if (!status_is_done(a.status))
        r = call_refused(h, &a, "the manifest was not taken", t);
    else if (digest_ok(a.digest) && e->msg.digest[0] != '\0' &&
             strcmp(a.digest, e->msg.digest) != 0)
        r = trouble_set(t, REGISTRY_DIGEST, -EBADMSG,
                        "%s: it has stored the manifest under another digest, %s", h->shown,
                        a.digest);
    (void)snprintf(done->digest, sizeof(done->digest), "%s", e->msg.digest);
    http_response_done(&a);
    return r;
}
