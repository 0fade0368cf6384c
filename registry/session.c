/*
 * The shared state behind session.h. Runs in the threads of rind-registry.
 */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/file.h"

enum { FIRST_WAIT_MS = 500, WAIT_DOUBLINGS = 5 };

static void remote_init(struct registry_host *r)
{
    (void)pthread_mutex_init(&r->lock, NULL);
}

void session_init(struct session *s, const struct registry_job *job, int control)
{
    struct registry_host *r;

    *s = (struct session){.job = job, .control = control};
    (void)pthread_mutex_init(&s->send_lock, NULL);
    for (size_t i = 0; i < job->mirror_count; i++) {
        const struct job_mirror *m = &job->mirrors[i];

        r = &s->remotes[s->remote_count++];
        remote_init(r);
        r->host = r->shown = m->host;
        r->repository = m->repository != NULL ? m->repository : job->repository;
        r->credential = &m->credential;
        r->pull = m->pull;
        r->is_mirror = true;
    }
    r = &s->remotes[s->remote_count++];
    remote_init(r);
    r->host = job->host;
    r->shown = job->shown;
    r->repository = job->repository;
    r->credential = &job->credential;
}

struct registry_host *session_origin(struct session *s)
{
    return &s->remotes[s->remote_count - 1];
}

void errand_send(struct errand *e, struct registry_msg *m, int fd)
{
    m->id = e->msg.id;
    (void)pthread_mutex_lock(&e->session->send_lock);
    if (registry_msg_send(e->session->control, m, fd, NULL) < 0 && m->type == REGISTRY_FAILED) {
        /* A text that the codec refuses must not leave the parent waiting. */
        (void)snprintf(m->text, sizeof(m->text), "failed");
        (void)registry_msg_send(e->session->control, m, fd, NULL);
    }
    (void)pthread_mutex_unlock(&e->session->send_lock);
}

void errand_tell_progress(struct errand *e, int64_t offset)
{
    struct registry_msg m = {.type = REGISTRY_PROGRESS, .offset = offset};
    const int64_t now = clock_mono_ms();

    if (now - e->told < REGISTRY_PROGRESS_MS)
        return;
    e->told = now;
    errand_send(e, &m, FD_NONE);
}

int errand_send_document(struct errand *e, enum registry_document kind, const char *digest,
                         const char *media_type, const void *data, size_t len, struct trouble *t)
{
    struct registry_msg m = {.type = REGISTRY_DOCUMENT, .kind = kind, .size = (int64_t)len};
    auto_close int fd = memfd_sealed("rind-document", data, len);

    if (fd < 0)
        return trouble_set(t, REGISTRY_LOCAL, fd, "keep a document: %s", strerror(-fd));
    (void)snprintf(m.digest, sizeof(m.digest), "%s", digest);
    (void)snprintf(m.media_type, sizeof(m.media_type), "%s", media_type);
    errand_send(e, &m, fd);
    return 0;
}

/* Half of it is chance, so that many clients do not come back at the same time. */
static int64_t wait_with_jitter(int attempt)
{
    int64_t ms = FIRST_WAIT_MS << (attempt < WAIT_DOUBLINGS ? attempt : WAIT_DOUBLINGS);
    uint32_t chance = 0;

    if (getrandom(&chance, sizeof(chance), 0) != sizeof(chance))
        return ms;
    return ms / 2 + (int64_t)(chance % (uint32_t)(ms / 2 + 1));
}

bool errand_try_again(struct errand *e, int *attempt, struct trouble *t)
{
    struct registry_msg m = {.type = REGISTRY_RETRYING};
    int64_t ms = t->wait_s >= 0 ? t->wait_s : 0;

    if (!t->may_pass || *attempt >= e->session->job->retries)
        return false;
    /* Longer than this is a "no", however it is said. */
    if (ms > e->session->job->wait_ms / 1000)
        return false;
    ms = t->wait_s >= 0 ? ms * 1000 : wait_with_jitter(*attempt);
    if (e->waited_ms + ms > e->session->job->wait_ms)
        return false;
    (*attempt)++;
    e->waited_ms += ms;
    m.size = (ms + 999) / 1000;
    (void)snprintf(m.text, sizeof(m.text), "%s", t->text);
    errand_send(e, &m, FD_NONE);
    if (http_sleep(e->http, ms))
        return true;
    (void)trouble_set(t, REGISTRY_CANCELED, -ECANCELED, "canceled");
    return false;
}
