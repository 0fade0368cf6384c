#include "exec/process.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "sandbox/exec.h"
#include "sandbox/log-watch.h"
#include "sandbox/logs.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

struct process {
    struct log_watched watched; /* first: found by its address */
    struct sandbox *sandbox;    /* borrowed: it owns us */
    struct process *next, **link;
    char id[PROCESS_ID_MAX + 1];
    char **argv;       /* owned */
    struct exec *exec; /* owned reference while it is known to init */
    uint64_t exec_id;
    enum process_state state;
    int exit_code;
    pid_t pid;
    int64_t started_ms, finished_ms;
    char *input; /* owned, until it runs */
    size_t input_len;
    process_cb cb; /* of its start, until it is answered */
    void *data;
    int segments[4]; /* owned; for reading */
    struct process_watcher *watchers;
    struct process_watcher *next_told; /* while they are told */
    bool timed_out;
};

static const char *const state_names[PROCESS_STATE_MAX] = {
    [PROCESS_STARTING] = "starting", [PROCESS_RUNNING] = "running", [PROCESS_EXITED] = "exited",
    [PROCESS_KILLED] = "killed",     [PROCESS_FAILED] = "failed",   [PROCESS_LOST] = "lost",
};

const char *process_state_name(enum process_state state)
{
    return state > PROCESS_INVALID && state < PROCESS_STATE_MAX ? state_names[state] : "invalid";
}

static bool process_is_running(const struct process *p)
{
    return p->state == PROCESS_STARTING || p->state == PROCESS_RUNNING;
}

/* ---- records ---- */

static int process_save(struct process *p, struct err *err)
{
    json_t *argv = json_array();
    json_t *record;
    int r;

    for (char **a = p->argv; argv != NULL && *a != NULL; a++)
        (void)json_array_append_new(argv, json_stringn_nocheck(*a, strlen(*a)));
    record = json_pack("{s:o, s:I, s:i, s:i, s:b, s:I, s:I}", "argv", argv, "execId",
                       (json_int_t)p->exec_id, "state", (int)p->state, "exitCode", p->exit_code,
                       "timedOut", p->timed_out, "startedMs", (json_int_t)p->started_ms,
                       "finishedMs", (json_int_t)p->finished_ms);
    if (record == NULL)
        return err_errno(err, -ENOMEM, "record of process '%s'", p->id);
    r = store_save_process(p->sandbox->sup->store, p->sandbox->id, p->id, record, err);
    json_decref(record);
    return r;
}

/* No caller could take the error: a later supervisor asks init instead. */
static void process_save_again(struct process *p)
{
    struct err err = ERR_NONE;

    if (process_save(p, &err) < 0)
        log_warn("process", "id=%s save: %s, going on", p->id, err.msg);
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

/* A watcher may remove itself or others, or, as its last act, delete the process. */
static void process_tell_watchers(struct process *p)
{
    struct process_watcher *w = p->watchers;

    for (; w != NULL; w = p->next_told) {
        p->next_told = w->next;
        if (w->on_change(w, p) == PROCESS_DELETED)
            return;
    }
}

static void on_log_grown(struct log_watched *w)
{
    process_tell_watchers((struct process *)(void *)w);
}

/* By name, below the supervisor's own root: there is no /proc in it. */
static int process_start_watching(struct process *p, struct err *err)
{
    char paths[LOG_WATCH_FILES][256];
    const char *names[LOG_WATCH_FILES];
    int r;

    /* The log of an ended process is not watched: its children's output is read when a client asks.
     */
    if (p->watched.active || !process_is_running(p))
        return 0;
    for (int i = 0; i < LOG_WATCH_FILES; i++) {
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/sandboxes/%s/logs/%s.%s.%d",
                       supervisor_tree(p->sandbox->sup), p->sandbox->id, p->id,
                       i < 2 ? "out" : "err", i % 2);
        names[i] = paths[i];
    }
    p->watched.on_change = on_log_grown;
    r = log_watch_start(p->sandbox->sup->log_watch, &p->watched, names);
    return r < 0 ? err_errno(err, r, "watch the log of '%s'", p->id) : 0;
}

static void process_stop_watching(struct process *p)
{
    /* NULL: the supervisor stops, and with it all watching. */
    if (p->sandbox->sup->log_watch != NULL)
        log_watch_stop(p->sandbox->sup->log_watch, &p->watched);
}

int process_watch(struct process *p, struct process_watcher *w, struct err *err)
{
    int r = process_start_watching(p, err);

    if (r < 0)
        return r;
    list_add(&p->watchers, w);
    return 0;
}

void process_unwatch(struct process *p, struct process_watcher *w)
{
    if (w->link == NULL)
        return;
    list_remove(w);
    if (p->next_told == w)
        p->next_told = w->next;
    if (p->watchers == NULL)
        process_stop_watching(p);
}

/* ---- life ---- */

static void process_free(struct process *p)
{
    for (int i = 0; i < 4; i++)
        if (p->segments[i] >= 0)
            (void)close(p->segments[i]);
    strings_free(p->argv);
    free(p->input);
    free(p);
}

static void process_drop(struct process *p)
{
    struct process_watcher *w;

    process_stop_watching(p);
    while ((w = p->watchers) != NULL) {
        list_remove(w);
        (void)w->on_change(w, NULL);
    }
    if (p->exec != NULL) {
        exec_silence(p->exec);
        exec_collect(p->exec);
        exec_unref(p->exec);
    }
    process_free(p);
}

void process_free_all(struct sandbox *s)
{
    if (s->parts.processes.main_log != NULL)
        process_drop(take(s->parts.processes.main_log));
    while (s->parts.processes.first != NULL) {
        struct process *p = s->parts.processes.first;

        list_remove(p);
        process_drop(p);
    }
}

static void process_unlink(struct process *p)
{
    if (p->link == NULL)
        return;
    list_remove(p);
    p->sandbox->parts.processes.count--;
}

static void process_answer_start(struct process *p, int r, const struct err *err)
{
    process_cb cb = p->cb;

    p->cb = NULL;
    if (cb != NULL)
        cb(p->data, r, err);
}

/* Writes stdin at once and ends it: init moves it on, whether a supervisor is there or not. */
static void process_write_input(struct process *p, struct exec *e)
{
    int fds[3];

    exec_take_sockets(e, fds);
    if (fds[0] < 0)
        return;
    if (p->input != NULL) {
        const ssize_t n = write(fds[0], p->input, p->input_len);

        if (n != (ssize_t)p->input_len && !(n < 0 && errno == EPIPE)) {
            log_warn("process", "id=%s its stdin does not fit into a socket: killed", p->id);
            (void)exec_signal(e, SIGKILL, true);
        }
        free(take(p->input));
    }
    (void)close(fds[0]);
}

static void on_exec_started(void *data, struct exec *e)
{
    struct process *p = data;
    char detail[96];

    process_write_input(p, e);
    p->pid = exec_pid(e);
    p->state = PROCESS_RUNNING;
    process_save_again(p);
    (void)snprintf(detail, sizeof(detail), "{\"process\":\"%s\"}", p->id);
    sandbox_emit(p->sandbox, "process_start", detail);
    process_answer_start(p, 0, NULL);
}

static void on_exec_failed(void *data, struct exec *e, const struct err *err, int exit_code)
{
    struct process *p = data;
    struct sandbox *s = p->sandbox;

    (void)e;
    (void)exit_code;
    p->state = PROCESS_FAILED;
    process_unlink(p);
    logs_remove(s, p->id);
    (void)store_remove_process(s->sup->store, s->id, p->id, NULL);
    process_answer_start(p, err->code, err);
    process_drop(p);
}

static void on_exec_exited(void *data, struct exec *e)
{
    struct process *p = data;
    char detail[160];

    p->exit_code = exec_exit_code(e);
    p->timed_out = exec_timed_out(e);
    p->state = exec_term_signal(e) != 0 ? PROCESS_KILLED : PROCESS_EXITED;
    p->finished_ms = clock_wall_ms();
    process_save_again(p);
    (void)snprintf(detail, sizeof(detail), "{\"process\":\"%s\",\"exitCode\":%d}", p->id,
                   p->exit_code);
    sandbox_emit(p->sandbox, "process_exit", detail);
    process_tell_watchers(p);
}

static const struct exec_events exec_events = {
    .started = on_exec_started, .failed = on_exec_failed, .exited = on_exec_exited};

static int process_check_id(const char *id, struct err *err)
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
    *p = (struct process){.sandbox = s, .exit_code = -1, .segments = {-1, -1, -1, -1}};
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

static int process_check_start(struct sandbox *s, const char *id, struct err *err)
{
    int r;

    if (s->state != SANDBOX_RUNNING && s->state != SANDBOX_CREATED)
        return err_set(err, -EBUSY, "sandbox %s is %s", sandbox_name(s),
                       sandbox_state_name(s->state));
    if (s->parts.processes.count >= s->sup->limits.processes)
        return err_set(err, -EAGAIN,
                       "limit maxProcesses: sandbox %s has %u processes, ended ones included",
                       sandbox_name(s), s->parts.processes.count);
    r = process_check_id(id, err);
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
    r = process_check_start(s, id, err);
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
    p->started_ms = clock_wall_ms();
    r = process_save(p, err);
    if (r < 0) {
        /* A later supervisor would not know the process: it is not begun at all. */
        exec_silence(p->exec);
        exec_discard(p->exec);
        exec_unref(take(p->exec));
        logs_remove(s, id);
        process_free(p);
        return r;
    }
    p->cb = cb;
    p->data = data;
    list_add(&s->parts.processes.first, p);
    s->parts.processes.count++;
    sandbox_touch(s);
    *ret = p;
    return 0;
}

int process_give_input(struct process *p, const void *data, size_t len, struct err *err)
{
    p->input = malloc(len + 1);
    if (p->input == NULL) {
        (void)exec_signal(p->exec, SIGKILL, true);
        return err_errno(err, -ENOMEM, "stdin of process '%s'", p->id);
    }
    (void)memcpy(p->input, data, len);
    p->input_len = len;
    return 0;
}

struct process *process_find(struct sandbox *s, const char *id)
{
    struct process *p = s->parts.processes.first;

    while (p != NULL && strcmp(p->id, id) != 0)
        p = p->next;
    return p;
}

struct process *process_first(struct sandbox *s)
{
    return s->parts.processes.first;
}

struct process *process_next(struct process *p)
{
    return p->next;
}

struct sandbox *process_sandbox(const struct process *p)
{
    return p->sandbox;
}

int process_kill(struct process *p, int signo, bool group, struct err *err)
{
    int r = p->exec == NULL ? -ESRCH
            : group         ? exec_signal_group(p->exec, signo)
                            : exec_signal(p->exec, signo, false);

    if (r == -ESRCH)
        return err_set(err, -EBUSY, "process '%s' has ended", p->id);
    return r < 0 ? err_errno(err, r, "signal process '%s'", p->id) : 0;
}

int process_delete(struct process *p, struct err *err)
{
    struct sandbox *s = p->sandbox;

    if (process_is_running(p))
        return err_set(err, -EBUSY, "process '%s' runs", p->id);
    process_unlink(p);
    logs_remove(s, p->id);
    (void)store_remove_process(s->sup->store, s->id, p->id, NULL);
    process_drop(p);
    return 0;
}

void process_get_info(const struct process *p, struct process_info *ret)
{
    *ret = (struct process_info){.id = p->id,
                                 .argv = p->argv,
                                 .pid = process_is_running(p) ? p->pid : 0,
                                 .state = p->state,
                                 .exit_code = p->exit_code,
                                 .timed_out = p->timed_out,
                                 .started_ms = p->started_ms,
                                 .finished_ms = p->finished_ms};
}

/* ---- the main process, for readers of its log ---- */

/* Copies the sandbox's facts about its last run. */
static void process_refresh_main(struct process *p)
{
    const struct sandbox *s = p->sandbox;

    p->pid = s->run.main != NULL ? exec_pid(s->run.main) : 0;
    p->exit_code = s->exit.has ? s->exit.code : -1;
    p->started_ms = s->run.started_ms;
    p->finished_ms = s->exit.finished_ms;
    p->timed_out = s->exit.timed_out;
    if (s->run.main != NULL && exec_get_state(s->run.main) == EXEC_RUNNING)
        p->state = PROCESS_RUNNING;
    else if (s->exit.has)
        p->state = s->exit.code > 128 && s->exit.code <= 128 + 64 ? PROCESS_KILLED : PROCESS_EXITED;
    else
        p->state = PROCESS_STARTING;
}

int process_main(struct sandbox *s, struct process **ret, struct err *err)
{
    struct process *p = s->parts.processes.main_log;
    int r;

    if (s->spec == NULL || s->spec->argv[0] == NULL)
        return err_set(err, -ENOENT, "sandbox %s has no main process", sandbox_name(s));
    if (s->spec->console)
        return err_set(
            err, -EINVAL,
            "the output of sandbox %s is in the log of its console: rind logs and docker "
            "logs show it, or GET /containers/%s/logs",
            sandbox_name(s), s->id);
    if (sandbox_is_attachable(s))
        return err_set(err, -EINVAL,
                       "the output of sandbox %s goes to who is attached to it, not to a log",
                       sandbox_name(s));
    if (p == NULL) {
        p = process_alloc(s, "main");
        if (p == NULL || (p->argv = argv_copy(s->spec->argv)) == NULL) {
            free(p);
            return err_errno(err, -ENOMEM, "process");
        }
        r = logs_open(s, "main", false, p->segments, err);
        if (r < 0) {
            process_free(p);
            return r;
        }
        s->parts.processes.main_log = p;
    }
    process_refresh_main(p);
    *ret = p;
    return 0;
}

void process_main_ended(struct sandbox *s)
{
    if (s->parts.processes.main_log == NULL)
        return;
    process_refresh_main(s->parts.processes.main_log);
    process_tell_watchers(s->parts.processes.main_log);
}

/* ---- taken up again ---- */

static void process_load_one(void *data, const char *name, json_t *record)
{
    struct sandbox *s = data;
    struct process *p;
    struct exec *e;

    if (record == NULL || process_find(s, name) != NULL || process_check_id(name, NULL) < 0)
        return;
    p = process_alloc(s, name);
    if (p == NULL)
        return;
    p->argv = argv_from(json_object_get(record, "argv"));
    p->exec_id = (uint64_t)json_integer_value(json_object_get(record, "execId"));
    p->exit_code = (int)json_integer_value(json_object_get(record, "exitCode"));
    p->state = (enum process_state)json_integer_value(json_object_get(record, "state"));
    p->timed_out = json_is_true(json_object_get(record, "timedOut"));
    p->started_ms = json_integer_value(json_object_get(record, "startedMs"));
    p->finished_ms = json_integer_value(json_object_get(record, "finishedMs"));
    if (p->argv == NULL || p->state <= PROCESS_INVALID || p->state >= PROCESS_STATE_MAX ||
        logs_open(s, name, false, p->segments, NULL) < 0) {
        process_free(p);
        return;
    }
    list_add(&s->parts.processes.first, p);
    s->parts.processes.count++;

    e = exec_find(s, p->exec_id);
    if (e != NULL) {
        p->exec = exec_ref(e);
        exec_listen(e, &exec_events, p);
        p->pid = exec_pid(e);
    }
    if (!process_is_running(p))
        return;
    if (e == NULL) {
        p->state = PROCESS_LOST; /* killed with its sandbox while no supervisor ran */
        p->finished_ms = clock_wall_ms();
    } else if (exec_get_state(e) == EXEC_ENDED) {
        on_exec_exited(p, e);
    } else {
        p->state = PROCESS_RUNNING;
    }
}

static bool process_is_known(const struct sandbox *s, const struct exec *e)
{
    for (const struct process *p = s->parts.processes.first; p != NULL; p = p->next)
        if (p->exec == e)
            return true;
    return false;
}

void process_load_all(struct sandbox *s)
{
    (void)store_each_process(s->sup->store, s->id, process_load_one, s, NULL);
    /* A supervisor that died between starting a process and recording it has answered no client. */
    for (struct exec *e = s->execs.first, *next; e != NULL; e = next) {
        next = exec_next(e);
        if (exec_is_logged(e) && !process_is_known(s, e))
            exec_discard(e);
    }
}

/* ---- logs ---- */

ssize_t process_read_log(struct process *p, int stream, uint64_t *offset, void *buf, size_t size,
                         uint64_t *ret_lost, struct err *err)
{
    ssize_t n = logs_read(&p->segments[2 * stream], offset, buf, size, ret_lost);

    return n < 0 ? err_errno(err, (int)n, "log of process '%s'", p->id) : n;
}

void process_log_state(const struct process *p, int stream, struct process_log *ret)
{
    logs_state(&p->segments[2 * stream], ret);
}

void process_run_offsets(const struct process *p, uint64_t ret[2])
{
    ret[PROCESS_STDOUT] = ret[PROCESS_STDERR] = 0;
    if (p == p->sandbox->parts.processes.main_log)
        logs_main_began(p->sandbox, ret);
}
