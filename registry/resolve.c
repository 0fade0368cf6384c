/*
 * RESOLVE: from a tag or digest to an image for a platform, by index, manifest and configuration.
 * Runs in the threads of rind-registry.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "call.h"
#include "document.h"
#include "requests.h"

enum { PATH_ROOM = 512, SHA256_BYTES = 32 };

/* A body whose digest was compared. */
struct received {
    char digest[DIGEST_LEN + 1];
    char media_type[MEDIA_TYPE_MAX + 1]; /* of the header; "" = none */
    struct buf body;                     /* owned */
};

static void received_done(struct received *g)
{
    buf_done(&g->body);
}

static void digest_of(const void *data, size_t len, char ret[DIGEST_LEN + 1])
{
    unsigned char md[EVP_MAX_MD_SIZE] = {0};
    unsigned n = 0;
    size_t at = 7;

    (void)EVP_Digest(data, len, md, &n, EVP_sha256(), NULL);
    (void)snprintf(ret, DIGEST_LEN + 1, "%s", "sha256:");
    for (unsigned i = 0; i < SHA256_BYTES; i++)
        at += (size_t)snprintf(ret + at, 3, "%02x", md[i]);
}

struct registry_host *request_next_host(struct errand *e, bool by_digest, size_t *at)
{
    struct session *s = e->session;

    while (*at < s->remote_count) {
        struct registry_host *h = &s->remotes[(*at)++];

        if (!h->is_mirror)
            return h;
        if ((e->msg.flags & REGISTRY_NO_MIRRORS) != 0 || s->job->push ||
            h->pull == (by_digest ? JOB_PULL_TAG : JOB_PULL_DIGEST))
            continue;
        return h;
    }
    return NULL;
}

bool request_goes_on(const struct errand *e, const struct registry_host *h, const struct trouble *t)
{
    (void)e;
    return h->is_mirror && t->fault != REGISTRY_CANCELED && t->fault != REGISTRY_LOCAL;
}

/* ---- one document ---- */

/* What is asked for: a manifest by tag or digest, or the blob of a configuration. */
struct document_wanted {
    const char *name, *digest; /* digest: what it must have, or "" */
    int64_t size;              /* -1: not known */
    bool is_blob;
    size_t most; /* bytes */
};

static int wanted_call(const struct document_wanted *w, bool head, char path[PATH_ROOM],
                       struct call *ret)
{
    const int n = snprintf(path, PATH_ROOM, "%s/%s", w->is_blob ? "blobs" : "manifests", w->name);

    *ret = (struct call){.method = head ? "HEAD" : "GET",
                         .path = path,
                         .body_fd = FD_NONE,
                         .answer_max =
                             w->size >= 0 && (size_t)w->size < w->most ? (size_t)w->size : w->most};
    if (!w->is_blob)
        ret->headers[0] = "Accept: " DOCUMENT_ACCEPT;
    return n > 0 && n < PATH_ROOM ? 0 : -ENAMETOOLONG;
}

/* What Docker says when the name is not there, or not for this user. */
static int wanted_refused(const struct registry_host *h, const struct document_wanted *w,
                          const struct http_response *p, struct trouble *t)
{
    const bool hub = strcmp(h->shown, "docker.io") == 0;
    const uint32_t status = (uint32_t)p->status;
    char said[TROUBLE_TEXT_MAX + 1];
    const char *colon = digest_ok(w->name) ? "@" : ":";

    (void)call_refused(h, p, w->is_blob ? "blob unknown" : "manifest unknown", t);
    /* without the host, which is in the name */
    (void)snprintf(said, sizeof(said), "%s", t->text + strlen(h->shown) + 2);
    if (t->fault == REGISTRY_NOT_FOUND)
        (void)trouble_set(t, REGISTRY_NOT_FOUND, -ENOENT, "manifest for %s/%s%s%s not found: %s",
                          h->shown, h->repository, colon, w->name, said);
    else if (hub && (t->fault == REGISTRY_DENIED || t->fault == REGISTRY_UNAUTHORIZED))
        (void)trouble_set(
            t, t->fault, t->code,
            "pull access denied for %s, repository does not exist or may require "
            "'docker login': %s",
            strncmp(h->repository, "library/", 8) == 0 ? h->repository + 8 : h->repository, said);
    t->status = status;
    return t->code;
}

static int received_check(const struct registry_host *h, const struct document_wanted *w,
                          const struct http_response *p, struct received *g, struct trouble *t)
{
    digest_of(g->body.data, g->body.len, g->digest);
    if (w->digest[0] != '\0' && strcmp(g->digest, w->digest) != 0)
        return trouble_set(t, REGISTRY_DIGEST, -EBADMSG,
                           "%s: %s verification failed for digest %s: what came has another one",
                           h->shown, w->is_blob ? "blob" : "manifest", w->digest);
    if (w->size >= 0 && (int64_t)g->body.len != w->size)
        return trouble_set(t, REGISTRY_DIGEST, -EBADMSG,
                           "%s: %s has %zu bytes and should have %lld", h->shown, w->digest,
                           g->body.len, (long long)w->size);
    if (digest_ok(p->digest) && strcmp(p->digest, g->digest) != 0)
        return trouble_set(t, REGISTRY_DIGEST, -EBADMSG,
                           "%s: the manifest has another digest than its Docker-Content-Digest",
                           h->shown);
    return 0;
}

static int host_get(struct errand *e, struct registry_host *h, const struct document_wanted *w,
                    struct received *ret, struct trouble *t)
{
    char path[PATH_ROOM];
    struct http_response p;
    struct call c;
    int r = wanted_call(w, false, path, &c);

    if (r < 0)
        return trouble_set(t, REGISTRY_LOCAL, r, "a name that is too long");
    r = call_perform(e, h, &c, &p, NULL, t);
    if (r < 0)
        return r;
    if (p.status != 200) {
        r = wanted_refused(h, w, &p, t);
        http_response_done(&p);
        return r;
    }
    *ret = (struct received){.body = p.body};
    (void)snprintf(ret->media_type, sizeof(ret->media_type), "%s", p.media_type);
    r = received_check(h, w, &p, ret, t);
    if (r < 0)
        received_done(ret);
    return r;
}

static int wanted_get(struct errand *e, const struct document_wanted *w, struct received *ret,
                      struct registry_host **ret_host, struct trouble *t)
{
    struct registry_host *h;
    size_t at = 0;
    int r = -ENOENT;

    while ((h = request_next_host(e, w->digest[0] != '\0', &at)) != NULL) {
        r = host_get(e, h, w, ret, t);
        *ret_host = h;
        if (r == 0 || !request_goes_on(e, h, t))
            return r;
    }
    return r;
}

/* ---- the first question: has it changed? ---- */

/* 1: `done` has digest, type and size. 0: this does not tell: a refusal of a HEAD has no words, so
 * that they are asked for by GET. */
static int host_head(struct errand *e, struct registry_host *h, const struct document_wanted *w,
                     struct registry_msg *done, struct trouble *t)
{
    char path[PATH_ROOM];
    struct http_response p;
    struct call c;
    int r = wanted_call(w, true, path, &c);

    if (r < 0)
        return trouble_set(t, REGISTRY_LOCAL, r, "a name that is too long");
    c.once = true;
    r = call_perform(e, h, &c, &p, NULL, t);
    if (r < 0)
        return t->fault == REGISTRY_CANCELED ? r : 0;
    if (p.status == 200 && digest_ok(p.digest) &&
        (w->digest[0] == '\0' || strcmp(w->digest, p.digest) == 0)) {
        (void)snprintf(done->digest, sizeof(done->digest), "%s", p.digest);
        (void)snprintf(done->media_type, sizeof(done->media_type), "%s", p.media_type);
        done->size = p.length > 0 ? p.length : 0;
        r = 1;
    }
    http_response_done(&p);
    return r;
}

static int wanted_head(struct errand *e, const struct document_wanted *w, struct registry_msg *done,
                       struct trouble *t)
{
    struct registry_host *h;
    size_t at = 0;
    int r = 0;

    while (r == 0 && (h = request_next_host(e, w->digest[0] != '\0', &at)) != NULL)
        r = host_head(e, h, w, done, t);
    return r;
}

/* ---- an image ---- */

static int document_fault(const struct registry_host *h, enum registry_fault fault,
                          const struct err *err, struct trouble *t)
{
    (void)trouble_from(t, fault, err);
    return trouble_wrap(t, "%s", h->shown);
}

static int resolve_config(struct errand *e, const struct document *manifest, bool check,
                          struct trouble *t)
{
    const struct registry_job *job = e->session->job;
    const struct image_limits limits = {.layers = job->layers_max, .bytes = job->bytes_max};
    enum registry_fault fault = REGISTRY_MALFORMED;
    struct registry_host *h = session_origin(e->session);
    struct pointed config;
    struct received g;
    struct err err = ERR_NONE;
    size_t layers;
    int r = document_check_manifest(manifest, &limits, &config, &layers, &fault, &err);

    if (r < 0)
        return document_fault(h, fault, &err, t);
    {
        const struct document_wanted w = {.name = config.digest,
                                          .digest = config.digest,
                                          .size = config.size,
                                          .is_blob = true,
                                          .most = DOCUMENT_CONFIG_MAX};

        r = wanted_get(e, &w, &g, &h, t);
    }
    if (r < 0)
        return r;
    if (check) {
        r = document_check_config(g.body.data != NULL ? g.body.data : "", g.body.len,
                                  &job->platform, layers, &fault, &err);
        if (r < 0)
            r = document_fault(h, fault, &err, t);
    }
    if (r == 0)
        r = errand_send_document(e, REGISTRY_DOCUMENT_CONFIG, g.digest, config.media_type,
                                 g.body.data, g.body.len, t);
    received_done(&g);
    return r;
}

/* One level: gets a document, sends it, and goes down to what it points to. */
static int resolve_level(struct errand *e, const struct document_wanted *w, int level,
                         struct registry_msg *done, struct trouble *t)
{
    const bool top_only = (e->msg.flags & REGISTRY_TOP_ONLY) != 0;
    auto_ptr(document_free) struct document *d = NULL;
    enum registry_fault fault = REGISTRY_MALFORMED;
    struct registry_host *h = NULL;
    struct pointed next;
    struct err err = ERR_NONE;
    struct received g;
    struct document_wanted down;
    int r = wanted_get(e, w, &g, &h, t);

    if (r < 0)
        return r;
    r = document_open(g.media_type, g.body.data != NULL ? g.body.data : "", g.body.len, &d, &fault,
                      &err);
    if (r < 0)
        r = document_fault(h, fault, &err, t);
    else
        r = errand_send_document(e, d->kind, g.digest, d->media_type, g.body.data, g.body.len, t);
    if (r == 0 && level == 0) {
        (void)snprintf(done->digest, sizeof(done->digest), "%s", g.digest);
        (void)snprintf(done->media_type, sizeof(done->media_type), "%s", d->media_type);
        done->size = (int64_t)g.body.len;
    }
    received_done(&g);
    if (r < 0)
        return r;
    if (d->kind == REGISTRY_DOCUMENT_MANIFEST)
        return resolve_config(e, d, !top_only, t);
    if (top_only)
        return 0;
    if (level == 2)
        return trouble_set(t, REGISTRY_UNSUPPORTED, -EOPNOTSUPP,
                           "%s: an index in an index in an index", h->shown);
    r = document_choose(d, &e->session->job->platform, &next, &fault, &err);
    if (r < 0)
        return document_fault(h, fault, &err, t);
    if (next.size > DOCUMENT_MAX)
        return trouble_set(t, REGISTRY_LIMIT, -EFBIG, "%s: a manifest larger than 4 MiB", h->shown);
    down = (struct document_wanted){
        .name = next.digest, .digest = next.digest, .size = next.size, .most = DOCUMENT_MAX};
    return resolve_level(e, &down, level + 1, done, t);
}

int request_resolve(struct errand *e, struct registry_msg *done, int *ret_fd, struct trouble *t)
{
    const bool by_digest = digest_ok(e->msg.name), head = (e->msg.flags & REGISTRY_HEAD) != 0;
    const struct document_wanted w = {.name = e->msg.name,
                                      .digest = by_digest ? e->msg.name : "",
                                      .size = -1,
                                      .most = DOCUMENT_MAX};
    int r = 0;

    (void)ret_fd;
    if (head || (e->msg.digest[0] != '\0' && !by_digest)) {
        r = wanted_head(e, &w, done, t);
        if (r < 0)
            return r;
        if (r == 1 && head)
            return 0;
        if (r == 1 && strcmp(done->digest, e->msg.digest) == 0) {
            done->flags |= REGISTRY_UNCHANGED;
            return 0;
        }
        if (head) { /* a registry that does not say the digest by itself */
            struct registry_host *h;
            struct received g;

            r = wanted_get(e, &w, &g, &h, t);
            if (r < 0)
                return r;
            (void)snprintf(done->digest, sizeof(done->digest), "%s", g.digest);
            (void)snprintf(done->media_type, sizeof(done->media_type), "%s", g.media_type);
            done->size = (int64_t)g.body.len;
            received_done(&g);
            return 0;
        }
        done->digest[0] = '\0';
    }
    return resolve_level(e, &w, 0, done, t);
}
