#include "core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/events.h"
#include "core/sandbox_internal.h"
#include "core/store.h"
#include "core/supervisor_internal.h"

struct process {
    struct sandbox *sandbox; /* borrowed: it owns us */
    struct process *next;
    char id[PROCESS_ID_MAX + 1];
    char **argv;       /* owned */
    struct exec *exec; /* owned reference while it is known to init */
    uint64_t exec_id;
    enum process_state state;
    int exit_code;
    pid_t pid;
    int64_t started_ms, finished_ms;
    process_cb cb; /* of its start, until it is answered */
    void *data;
    int segments[4]; /* owned; for reading */
    struct process_watcher *watchers;
    int inotify; /* owned; -1 while nobody watches */
    uv_poll_t poll;
    bool polling, closing;
};

static const char *const state_names[PROCESS_STATE_MAX] = {
    [PROCESS_STARTING] = "starting", [PROCESS_RUNNING] = "running", [PROCESS_EXITED] = "exited",
    [PROCESS_KILLED] = "killed",     [PROCESS_FAILED] = "failed",   [PROCESS_LOST] = "lost",
};

const char *process_state_name(enum process_state state)
{
    return state > PROCESS_INVALID && state < PROCESS_STATE_MAX ? state_names[state] : "invalid";
}

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool running(const struct process *p)
{
    return p->state == PROCESS_STARTING || p->state == PROCESS_RUNNING;
}

/* ---- records ---- */

static void save(struct process *p)
{
    json_t *argv = json_array();
    json_t *record;

    for (char **a = p->argv; argv != NULL && *a != NULL; a++)
        (void)json_array_append_new(argv, json_stringn_nocheck(*a, strlen(*a)));
    record =
        json_pack("{s:o, s:I, s:i, s:i, s:I, s:I}", "argv", argv, "execId", (json_int_t)p->exec_id,
                  "state", (int)p->state, "exitCode", p->exit_code, "startedMs",
                  (json_int_t)p->started_ms, "finishedMs", (json_int_t)p->finished_ms);
    if (record == NULL)
        return; /* OOM: a later supervisor does not know of it, this one does */
    (void)store_save_process(p->sandbox->sup->store, p->sandbox->id, p->id, record, NULL);
    json_decref(record);
}

static char **argv_from(const json_t *list)
{
    size_t n = json_array_size(list);
    char **argv = calloc(n + 1, sizeof(*argv));

    for (size_t i = 0; argv != NULL && i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        argv[i] = strdup(text != NULL ? text : "");
        if (argv[i] == NULL)
            return argv; /* shorter: shown, never run */
    }
    return argv;
}

static void strings_free(char **list)
{
    for (char **p = list; p != NULL && *p != NULL; p++)
        free(*p);
    free(list);
}

/* ---- watchers ---- */

static void tell(struct process *p)
{
    struct process_watcher *w = p->watchers, *next;

    for (; w != NULL; w = next) {
        next = w->next; /* it may let go */
        w->on_change(w, p);
    }
}

static void on_log_grown(uv_poll_t *h, int status, int events)
{
    struct process *p = h->data;
    char buffer[4096] __attribute__((aligned(8)));

    (void)status;
    (void)events;
    while (read(p->inotify, buffer, sizeof(buffer)) > 0)
        ;
    tell(p);
}

/* Watches by name below the supervisor's own root: there is no /proc in it. */
static int watch_segments(struct process *p)
{
    char path[256];

    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof(path), "%s/sandboxes/%s/logs/%s.%s.%d",
                       supervisor_tree(p->sandbox->sup), p->sandbox->id, p->id,
                       i < 2 ? "out" : "err", i % 2);
        if (inotify_add_watch(p->inotify, path, IN_MODIFY) < 0)
            return -errno;
    }
    return 0;
}

static int start_watching(struct process *p, struct err *err)
{
    int r;

    if (p->polling || !running(p))
        return 0;
    p->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (p->inotify < 0)
        return err_errno(err, -errno, "watch the log of '%s'", p->id);
    r = watch_segments(p);
    if (r == 0)
        r = uv_poll_init(p->sandbox->sup->loop, &p->poll, p->inotify);
    if (r < 0) {
        (void)close(take_fd(&p->inotify));
        return err_errno(err, r, "watch the log of '%s'", p->id);
    }
    p->poll.data = p;
    p->polling = true;
    sandbox_ref(p->sandbox); /* the handle's memory is ours until it is closed */
    return uv_poll_start(&p->poll, UV_READABLE, on_log_grown);
}

int process_watch(struct process *p, struct process_watcher *w, struct err *err)
{
    int r = start_watching(p, err);

    if (r < 0)
        return r;
    w->next = p->watchers;
    p->watchers = w;
    return 0;
}

void process_unwatch(struct process *p, struct process_watcher *w)
{
    struct process_watcher **at = &p->watchers;

    while (*at != NULL && *at != w)
        at = &(*at)->next;
    if (*at == w)
        *at = w->next;
}

/* ---- life ---- */

static void process_free(struct process *p)
{
    for (int i = 0; i < 4; i++)
        if (p->segments[i] >= 0)
            (void)close(p->segments[i]);
    strings_free(p->argv);
    free(p);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct process *p = h->data;
    struct sandbox *s = p->sandbox;

    (void)close(p->inotify);
    process_free(p);
    sandbox_unref(s);
}

/* The memory goes when the watch handle is closed. */
static void process_drop(struct process *p)
{
    struct process_watcher *w = p->watchers, *next;

    p->watchers = NULL;
    for (; w != NULL; w = next) {
        next = w->next;
        w->on_change(w, NULL);
    }
    if (p->exec != NULL) {
        exec_silence(p->exec);
        exec_collect(p->exec);
        exec_unref(p->exec);
        p->exec = NULL;
    }
    if (p->polling)
        uv_close((uv_handle_t *)&p->poll, on_poll_closed);
    else
        process_free(p);
}

void process_free_all(struct sandbox *s)
{
    while (s->processes != NULL) {
        struct process *next = s->processes->next;

        process_drop(s->processes);
        s->processes = next;
    }
}

static void unlink_process(struct process *p)
{
    struct process **at = &p->sandbox->processes;

    while (*at != NULL && *at != p)
        at = &(*at)->next;
    if (*at == p) {
        *at = p->next;
        p->sandbox->process_count--;
    }
}

static void answer_start(struct process *p, int r, const struct err *err)
{
    process_cb cb = p->cb;

    p->cb = NULL;
    if (cb != NULL)
        cb(p->data, r, err);
}

static void on_started(void *data, struct exec *e)
{
    struct process *p = data;

    p->pid = exec_pid(e);
    p->state = PROCESS_RUNNING;
    save(p);
    answer_start(p, 0, NULL);
}

static void on_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct process *p = data;
    struct sandbox *s = p->sandbox;

    (void)e;
    (void)exit_code;
    p->state = PROCESS_FAILED;
    unlink_process(p);
    logs_remove(s, p->id);
    (void)store_remove_process(s->sup->store, s->id, p->id, NULL);
    answer_start(p, err->code, err);
    process_drop(p);
}

static void on_exited(void *data, struct exec *e)
{
    struct process *p = data;
    char detail[160];

    p->exit_code = exec_exit_code(e);
    p->state = exec_term_signal(e) != 0 ? PROCESS_KILLED : PROCESS_EXITED;
    p->finished_ms = now_ms();
    save(p);
    (void)snprintf(detail, sizeof(detail), "{\"process\":\"%s\",\"exitCode\":%d}", p->id,
                   p->exit_code);
    events_emit(p->sandbox->sup->events, "process_exit", p->sandbox->id, sandbox_name(p->sandbox),
                detail);
    tell(p);
}

static const struct exec_events exec_events = {
    .started = on_started, .failed = on_failed, .exited = on_exited};

static int check_id(const char *id, struct err *err)
{
    size_t len = strlen(id);

    if (len < 1 || len > PROCESS_ID_MAX || id[0] == '.' ||
        strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != len ||
        strcmp(id, "main") == 0)
        return err_set(err, -EINVAL,
                       "id: '%s': 1 to %d of A-Z a-z 0-9 _ . -, no dot first, not main", id,
                       PROCESS_ID_MAX);
    return 0;
}

static struct process *process_alloc(struct sandbox *s, const char *id)
{
    struct process *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    *p = (struct process){
        .sandbox = s, .exit_code = -1, .inotify = FD_NONE, .segments = {-1, -1, -1, -1}};
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    return p;
}

static char **argv_copy(char *const *argv)
{
    size_t n = 0;
    char **copy;

    while (argv[n] != NULL)
        n++;
    copy = calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < n; i++)
        if ((copy[i] = strdup(argv[i])) == NULL) {
            strings_free(copy);
            return NULL;
        }
    return copy;
}

static int check_start(struct sandbox *s, const char *id, struct err *err)
{
    int r;

    if (s->state != SANDBOX_RUNNING && s->state != SANDBOX_CREATED)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(s->state));
    if (s->process_count >= s->sup->limits.processes)
        return err_set(err, -EAGAIN,
                       "limit maxProcesses: sandbox %s has %u processes, ended ones included",
                       sandbox_name(s), s->process_count);
    r = check_id(id, err);
    if (r == 0 && process_find(s, id) != NULL)
        r = err_set(err, -EEXIST, "id: process '%s' exists", id);
    return r;
}

int process_start(struct sandbox *s, const char *id, const struct exec_options *o, process_cb cb,
                  void *data, struct process **ret, struct err *err)
{
    struct exec_options logged = *o;
    char made[PROCESS_ID_MAX + 1];
    struct process *p;
    int r;

    if (id == NULL) {
        (void)snprintf(made, sizeof(made), "p%llx", (unsigned long long)sandbox_next_exec_id(s));
        id = made;
    }
    r = check_start(s, id, err);
    if (r < 0)
        return r;
    p = process_alloc(s, id);
    if (p == NULL || (p->argv = argv_copy(o->argv)) == NULL) {
        free(p);
        return err_errno(err, -ENOMEM, "process");
    }
    r = logs_open(s, id, true, p->segments, err);
    if (r == 0) {
        logged.keep = true;
        logged.tty = false;
        logged.log_fds = p->segments;
        logged.log_size = (uint32_t)(s->sup->limits.log_bytes / 2);
        r = exec_start(s, &logged, &exec_events, p, &p->exec, err);
    }
    if (r < 0) {
        if (p->segments[0] >= 0)
            logs_remove(s, id);
        process_free(p);
        return r;
    }
    p->state = PROCESS_STARTING;
    p->exec_id = exec_id(p->exec);
    p->started_ms = now_ms();
    p->cb = cb;
    p->data = data;
    p->next = s->processes;
    s->processes = p;
    s->process_count++;
    save(p);
    sandbox_touch(s);
    *ret = p;
    return 0;
}

struct process *process_find(struct sandbox *s, const char *id)
{
    struct process *p = s->processes;

    while (p != NULL && strcmp(p->id, id) != 0)
        p = p->next;
    return p;
}

struct process *process_first(struct sandbox *s)
{
    return s->processes;
}

struct process *process_next(struct process *p)
{
    return p->next;
}

int process_kill(struct process *p, int signo, bool whole_leaf, struct err *err)
{
    int r = p->exec == NULL ? -ESRCH : exec_signal(p->exec, signo, whole_leaf);

    if (r == -ESRCH)
        return err_set(err, -EBUSY, "process '%s' has ended", p->id);
    return r < 0 ? err_errno(err, r, "signal process '%s'", p->id) : 0;
}

int process_delete(struct process *p, struct err *err)
{
    struct sandbox *s = p->sandbox;

    if (running(p))
        return err_set(err, -EBUSY, "process '%s' runs", p->id);
    unlink_process(p);
    logs_remove(s, p->id);
    (void)store_remove_process(s->sup->store, s->id, p->id, NULL);
    process_drop(p);
    return 0;
}

void process_get_facts(const struct process *p, struct process_facts *ret)
{
    *ret = (struct process_facts){.id = p->id,
                                  .argv = p->argv,
                                  .pid = running(p) ? p->pid : 0,
                                  .state = p->state,
                                  .exit_code = p->exit_code,
                                  .started_ms = p->started_ms,
                                  .finished_ms = p->finished_ms};
}

/* ---- taken up again ---- */

static void load_one(void *data, const char *name, json_t *record)
{
    struct sandbox *s = data;
    struct process *p;
    struct exec *e;

    if (record == NULL || process_find(s, name) != NULL || check_id(name, NULL) < 0)
        return;
    p = process_alloc(s, name);
    if (p == NULL)
        return;
    p->argv = argv_from(json_object_get(record, "argv"));
    p->exec_id = (uint64_t)json_integer_value(json_object_get(record, "execId"));
    p->exit_code = (int)json_integer_value(json_object_get(record, "exitCode"));
    p->state = (enum process_state)json_integer_value(json_object_get(record, "state"));
    p->started_ms = json_integer_value(json_object_get(record, "startedMs"));
    p->finished_ms = json_integer_value(json_object_get(record, "finishedMs"));
    if (p->argv == NULL || p->state <= PROCESS_INVALID || p->state >= PROCESS_STATE_MAX ||
        logs_open(s, name, false, p->segments, NULL) < 0) {
        process_free(p);
        return;
    }
    p->next = s->processes;
    s->processes = p;
    s->process_count++;

    e = exec_find(s, p->exec_id);
    if (e != NULL) {
        p->exec = exec_ref(e);
        exec_listen(e, &exec_events, p);
        p->pid = exec_pid(e);
    }
    if (!running(p))
        return;
    if (e == NULL) {
        p->state = PROCESS_LOST; /* killed with its sandbox while nobody listened */
        p->finished_ms = now_ms();
    } else if (exec_get_state(e) == EXEC_ENDED) {
        on_exited(p, e);
    } else {
        p->state = PROCESS_RUNNING;
    }
}

void process_load_all(struct sandbox *s)
{
    (void)store_each_process(s->sup->store, s->id, load_one, s, NULL);
}

/* ---- logs ---- */

struct segment {
    int fd;
    struct log_header header;
    uint64_t end; /* logical */
};

/* Which segments there are, older first; 0 to 2. */
static int read_segments(const struct process *p, int stream, struct segment ret[2])
{
    int count = 0;

    for (int i = 0; i < 2; i++) {
        struct segment s = {.fd = p->segments[stream * 2 + i]};
        struct stat st;

        if (pread(s.fd, &s.header, sizeof(s.header), 0) != (ssize_t)sizeof(s.header) ||
            s.header.magic != LOG_MAGIC || fstat(s.fd, &st) < 0)
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

ssize_t process_read_log(struct process *p, int stream, uint64_t *offset, void *buf, size_t size,
                         uint64_t *ret_lost, struct err *err)
{
    struct segment segments[2];
    int count = read_segments(p, stream, segments);

    *ret_lost = 0;
    for (int i = 0; i < count; i++) {
        const struct segment *s = &segments[i];
        uint64_t from = *offset;
        size_t want;
        ssize_t n;

        if (from >= s->end)
            continue;
        if (from < s->header.start) {
            *ret_lost = s->header.start - from;
            from = s->header.start;
        }
        want = s->end - from < size ? (size_t)(s->end - from) : size;
        n = pread(s->fd, buf, want, (off_t)(sizeof(s->header) + (from - s->header.start)));
        if (n < 0)
            return err_errno(err, -errno, "log of process '%s'", p->id);
        *offset = from + (uint64_t)n;
        return n;
    }
    return 0;
}
