/*
 * rind-registry: speaks to one image registry for one operation (image/registry-proto.h). The main
 * thread reads requests and gives each to a thread of a fixed pool, which blocks in it. All threads
 * exist before the filter of system calls is set, so none can be made afterwards.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "confine.h"
#include "http.h"
#include "image/registry-proto.h"
#include "job.h"
#include "refusal.h"
#include "requests.h"
#include "resolver.h"
#include "session.h"

enum {
    CA_MAX = 4 << 20,
    RESOLV_MAX = 64 << 10,
    HOSTS_MAX = 1 << 20,
    STACK = 512 << 10, /* URLs and answers lie on it */
    ARENAS = 1,
    FDS_KEPT = 1, /* the control socket */
};

/* One thread of the pool. */
struct registry_thread {
    struct registry_program *program;
    pthread_t thread;
    pthread_cond_t wake;
    bool busy;
    uint64_t last; /* the number of its last request: the most recent has the warmest connections */
    struct errand errand;
    struct http *http;
};

struct registry_program {
    struct session session;
    struct http_client *client;
    pthread_mutex_t lock; /* of the threads' states */
    pthread_cond_t ready; /* a thread waits for its first request */
    size_t ready_count;
    uint64_t number;
    struct registry_thread threads[REGISTRY_REQUESTS_MAX];
};

static request_fn *const requests[REGISTRY_CANCEL] = {
    [REGISTRY_RESOLVE] = request_resolve,     [REGISTRY_FETCH] = request_fetch,
    [REGISTRY_PUSH_BLOB] = request_push_blob, [REGISTRY_PUSH_MANIFEST] = request_push_manifest,
    [REGISTRY_LOGIN] = request_login,         [REGISTRY_TAGS] = request_tags,
};

/* ---- threads ---- */

static void msg_set_failed(struct registry_msg *m, const struct trouble *t)
{
    *m = (struct registry_msg){.type = REGISTRY_FAILED,
                               .kind =
                                   t->fault != REGISTRY_FAULT_INVALID ? t->fault : REGISTRY_LOCAL,
                               .code = t->code < 0 && t->code >= -4095 ? t->code : -EIO,
                               .status = t->status};
    text_for_terminal(t->text[0] != '\0' ? t->text : "failed", strlen(t->text), m->text,
                      TROUBLE_TEXT_MAX);
    if (m->text[0] == '\0')
        (void)strcpy(m->text, "failed");
}

static void thread_run(struct registry_thread *th)
{
    struct errand *e = &th->errand;
    struct registry_msg done = {.type = REGISTRY_DONE};
    struct trouble t = {.fault = REGISTRY_FAULT_INVALID, .code = -EIO};
    auto_close int fd = FD_NONE;
    struct errand reply = {.session = e->session, .msg = {.id = e->msg.id}};

    if (requests[e->msg.type](e, &done, &fd, &t) < 0) {
        int64_t offset = done.offset;

        msg_set_failed(&done, &t);
        done.offset = offset;
    }
    if (e->fd >= 0)
        (void)close(take_fd(&e->fd));
    /* Free before the parent hears of it: it may ask for the next one at once. */
    (void)pthread_mutex_lock(&th->program->lock);
    th->busy = false;
    (void)pthread_mutex_unlock(&th->program->lock);
    errand_send(&reply, &done, fd);
}

static void *thread_main(void *data)
{
    struct registry_thread *th = data;
    struct registry_program *p = th->program;

    (void)pthread_mutex_lock(&p->lock);
    p->ready_count++;
    (void)pthread_cond_signal(&p->ready);
    for (;;) {
        while (!th->busy)
            (void)pthread_cond_wait(&th->wake, &p->lock);
        (void)pthread_mutex_unlock(&p->lock);
        thread_run(th);
        (void)pthread_mutex_lock(&p->lock);
    }
    return NULL;
}

static int program_start_threads(struct registry_program *p, struct err *err)
{
    pthread_attr_t attr;
    int r = 0;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK);
    for (size_t i = 0; r == 0 && i < REGISTRY_REQUESTS_MAX; i++) {
        struct registry_thread *th = &p->threads[i];

        th->program = p;
        (void)pthread_cond_init(&th->wake, NULL);
        th->http = http_new(p->client, &th->errand.canceled);
        r = th->http == NULL ? ENOMEM : pthread_create(&th->thread, &attr, thread_main, th);
    }
    (void)pthread_attr_destroy(&attr);
    if (r != 0)
        return err_errno(err, -r, "threads");
    (void)pthread_mutex_lock(&p->lock);
    while (p->ready_count < REGISTRY_REQUESTS_MAX)
        (void)pthread_cond_wait(&p->ready, &p->lock);
    (void)pthread_mutex_unlock(&p->lock);
    return 0;
}

/* ---- requests ---- */

static void program_refuse(struct registry_program *p, uint32_t id, enum registry_fault fault,
                           int code, const char *text)
{
    struct errand e = {.session = &p->session, .msg = {.id = id}};
    struct registry_msg m;
    struct trouble t;

    (void)trouble_set(&t, fault, code, "%s", text);
    msg_set_failed(&m, &t);
    errand_send(&e, &m, FD_NONE);
}

/* A name becomes a part of a path. */
static bool msg_name_is_valid(const struct registry_msg *m)
{
    char whole[REFERENCE_MAX + sizeof("h.x/")];
    struct reference r;
    int n = m->type == REGISTRY_PUSH_BLOB ? snprintf(whole, sizeof(whole), "h.x/%s", m->name)
                                          : snprintf(whole, sizeof(whole), "h.x/r%s%s",
                                                     digest_ok(m->name) ? "@" : ":", m->name);

    if (m->type != REGISTRY_RESOLVE && m->type != REGISTRY_PUSH_MANIFEST &&
        (m->type != REGISTRY_PUSH_BLOB || m->name[0] == '\0'))
        return true;
    if (n < 0 || (size_t)n >= sizeof(whole) || reference_parse(whole, &r, NULL) < 0)
        return false;
    return m->type == REGISTRY_PUSH_BLOB
               ? strcmp(r.name, whole) == 0 && r.tag[0] == '\0' && r.digest[0] == '\0'
               : strchr(m->name, '/') == NULL && (r.tag[0] != '\0') != (r.digest[0] != '\0');
}

static void program_cancel(struct registry_program *p, uint32_t id)
{
    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < REGISTRY_REQUESTS_MAX; i++)
        if (p->threads[i].busy && p->threads[i].errand.msg.id == id)
            atomic_store(&p->threads[i].errand.canceled, true);
    (void)pthread_mutex_unlock(&p->lock);
}

/* Gives a request to the idle thread that has worked last. */
static void program_dispatch(struct registry_program *p, const struct registry_msg *m, int fd)
{
    struct registry_thread *best = NULL;

    (void)pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < REGISTRY_REQUESTS_MAX; i++)
        if (!p->threads[i].busy && (best == NULL || p->threads[i].last > best->last))
            best = &p->threads[i];
    if (best != NULL) {
        struct errand *e = &best->errand;

        e->session = &p->session;
        e->http = best->http;
        atomic_store(&e->canceled, false);
        e->msg = *m;
        e->fd = fd;
        e->told = e->waited_ms = 0;
        best->last = ++p->number;
        best->busy = true;
        (void)pthread_cond_signal(&best->wake);
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (best == NULL) {
        program_refuse(p, m->id, REGISTRY_LOCAL, -EAGAIN, "too many requests at a time");
        if (fd >= 0)
            (void)close(fd);
    }
}

static int program_loop(struct registry_program *p)
{
    for (;;) {
        static struct registry_msg m;
        int fd = FD_NONE, r = registry_msg_recv(REGISTRY_FD_CONTROL, &m, &fd, NULL);

        if (r <= 0)
            return r < 0;
        if (m.type == REGISTRY_CANCEL)
            program_cancel(p, m.id);
        else if (m.type >= REGISTRY_CANCEL || requests[m.type] == NULL)
            return 1; /* a parent that speaks another language */
        else if (!msg_name_is_valid(&m))
            program_refuse(p, m.id, REGISTRY_LOCAL, -EINVAL,
                           "not a valid tag, digest or repository");
        else if (p->session.job->repository == NULL && m.type != REGISTRY_LOGIN)
            program_refuse(p, m.id, REGISTRY_LOCAL, -EINVAL, "the job names no repository");
        else {
            program_dispatch(p, &m, fd);
            continue;
        }
        if (fd >= 0)
            (void)close(fd);
    }
}

/* ---- start ---- */

static int read_text(int fd, size_t max, const char *what, char **ret, struct err *err)
{
    size_t len;
    int r = file_read_fd(fd, max, ret, &len, err);

    return r < 0 ? err_wrap(err, r, "%s", what) : 0;
}

static int receive_job(struct registry_job **ret, struct err *err)
{
    static struct registry_msg m;
    auto_close int fd = FD_NONE;
    char *text = NULL;
    size_t len = 0;
    int r = registry_msg_recv(REGISTRY_FD_CONTROL, &m, &fd, err);

    if (r <= 0)
        return r < 0 ? r : err_set(err, -EPROTO, "no job came");
    if (m.type != REGISTRY_JOB || fd < 0)
        return err_set(err, -EPROTO, "the first message is no job");
    r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(err, -errno, "job")
                                   : file_read_fd(fd, REGISTRY_JOB_MAX, &text, &len, err);
    if (r == 0)
        r = job_parse(text, len, ret, err);
    if (text != NULL)
        explicit_bzero(text, len);
    free(text);
    return r;
}

static int program_prepare(struct registry_program *p, struct registry_job **ret_job,
                           struct err *err)
{
    auto_free char *ca = NULL, *resolv = NULL, *hosts = NULL;
    struct resolver *resolver;
    int r = read_text(REGISTRY_FD_CA, CA_MAX, "CA certificates", &ca, err);

    if (r == 0)
        r = read_text(REGISTRY_FD_RESOLV, RESOLV_MAX, "resolv.conf", &resolv, err);
    if (r == 0)
        r = read_text(REGISTRY_FD_HOSTS, HOSTS_MAX, "hosts", &hosts, err);
    if (r == 0)
        r = receive_job(ret_job, err);
    if (r < 0)
        return r;
    resolver = resolver_new(resolv, hosts);
    if (resolver == NULL)
        return err_errno(err, -ENOMEM, "resolver");
    session_init(&p->session, *ret_job, REGISTRY_FD_CONTROL);
    r = confine_begin(FDS_KEPT, (uint64_t)p->session.job->bytes_max, err);
    if (r == 0)
        r = http_client_new(*ret_job, resolver, ca, &p->client, err);
    if (r == 0)
        r = program_start_threads(p, err);
    return r < 0 ? r : confine_filter(err);
}

static int worker_main(void)
{
    static struct registry_program p;
    struct registry_msg m = {.type = REGISTRY_READY};
    struct registry_job *job = NULL; /* lives as long as the process */
    struct err err = ERR_NONE;
    int r;

    (void)mallopt(M_ARENA_MAX, ARENAS);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)pthread_mutex_init(&p.lock, NULL);
    (void)pthread_cond_init(&p.ready, NULL);
    r = program_prepare(&p, &job, &err);
    if (r < 0) {
        m = (struct registry_msg){.type = REGISTRY_FAILED, .kind = REGISTRY_LOCAL, .code = r};
        text_for_terminal(err.msg, strlen(err.msg), m.text, ERR_MSG_MAX + 1);
        (void)registry_msg_send(REGISTRY_FD_CONTROL, &m, FD_NONE, NULL);
        return 1;
    }
    if (registry_msg_send(REGISTRY_FD_CONTROL, &m, FD_NONE, NULL) < 0)
        return 1;
    r = program_loop(&p);
    /* The other threads are in the middle of what nothing waits for any more. */
    _exit(r);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "worker") == 0)
        return worker_main();
    (void)fprintf(stderr, "rind-registry: speaks to image registries, for rind, which starts it as "
                          "`rind-registry worker`\n");
    return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}
