/*
 * The log is two files, written in turn. Each begins with a head that says where it stands in all
 * that was ever logged; records follow, each whole or not there: what a killed supervisor left half
 * written is cut off when the files are opened again.
 */
#include "exec/console.h"

#include <errno.h>
#include <fcntl.h>
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
#include "exec/exec-io.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

enum {
    SEGMENTS = 2,
    HEAD_MAGIC = 0x4b4e4f43, /* "CONK" */
    RECORD_MAGIC = 0x4352,   /* "RC" */
    FLUSH_SIZE = 40 << 10,   /* bytes of records that are written at once */
    US_TO_NS = 1000,
};

struct head {
    uint32_t magic, zero;
    uint64_t base; /* logical offset of the first record */
};

struct record_head {
    uint16_t magic;
    uint8_t stream, whole;
    uint32_t len;
    int64_t time_ns;
};
_Static_assert(sizeof(struct head) == 16 && sizeof(struct record_head) == 16, "no padding");

struct console_segment {
    int fd;              /* owned; -1 = none */
    uint64_t base, size; /* records lie at base .. base + size */
};

struct console {
    struct sandbox *sandbox; /* borrowed: it owns us */
    struct exec_io *io;      /* owned; NULL = nothing runs, or its sockets are not there yet */
    struct console_client *clients;
    struct console_watcher *watchers, *next_watcher;
    struct console_segment segments[SEGMENTS];
    int current;
    bool opened, lossy; /* lossy: the disk is full, which has been said */
};

/* ---- the log: files ---- */

static uint64_t console_segment_max(const struct console *c)
{
    return c->sandbox->sup->limits.log_bytes / SEGMENTS;
}

/* How far the records of a file are whole. */
static uint64_t segment_whole_size(int fd, uint64_t size)
{
    uint64_t at = 0;
    struct record_head r;

    while (at + sizeof(r) <= size) {
        if (pread(fd, &r, sizeof(r), (off_t)(sizeof(struct head) + at)) != (ssize_t)sizeof(r) ||
            r.magic != RECORD_MAGIC || r.len > CONSOLE_RECORD_MAX || at + sizeof(r) + r.len > size)
            break;
        at += sizeof(r) + r.len;
    }
    return at;
}

static int segment_begin(struct console_segment *g, uint64_t base)
{
    const struct head head = {.magic = HEAD_MAGIC, .base = base};

    if (ftruncate(g->fd, 0) < 0 || pwrite(g->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return -errno;
    g->base = base;
    g->size = 0;
    return 0;
}

/* A segment that was never written, or cannot be read, counts as empty. */
static bool segment_load(struct console_segment *g)
{
    struct head head;
    struct stat st;

    if (fstat(g->fd, &st) < 0 || st.st_size < (off_t)sizeof(head) ||
        pread(g->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.magic != HEAD_MAGIC)
        return false;
    g->base = head.base;
    g->size = segment_whole_size(g->fd, (uint64_t)st.st_size - sizeof(head));
    if (g->size + sizeof(head) != (uint64_t)st.st_size)
        return ftruncate(g->fd, (off_t)(g->size + sizeof(head))) == 0;
    return true;
}

static int console_open_files(struct console *c, struct err *err)
{
    auto_close int dir = store_logs_fd(c->sandbox->sup->store, c->sandbox->id, err);
    char name[32];

    if (dir < 0)
        return dir;
    for (int i = 0; i < SEGMENTS; i++) {
        (void)snprintf(name, sizeof(name), "console.%d", i);
        c->segments[i].fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (c->segments[i].fd < 0)
            return err_errno(err, -errno, "log %s", name);
    }
    return 0;
}

static int console_open_log(struct console *c, struct err *err)
{
    bool there[SEGMENTS];
    int r;

    if (c->opened)
        return 0;
    r = console_open_files(c, err);
    if (r < 0)
        return r;
    for (int i = 0; i < SEGMENTS; i++)
        there[i] = segment_load(&c->segments[i]);
    c->current = there[1] && (!there[0] || c->segments[1].base > c->segments[0].base) ? 1 : 0;
    if (!there[c->current])
        r = segment_begin(&c->segments[c->current], 0);
    if (r < 0)
        return err_errno(err, r, "log");
    if (!there[1 - c->current])
        c->segments[1 - c->current].size = 0;
    c->opened = true;
    return 0;
}

static void console_close_log(struct console *c)
{
    for (int i = 0; i < SEGMENTS; i++)
        if (c->segments[i].fd >= 0)
            (void)close(take_fd(&c->segments[i].fd));
    c->opened = false;
}

/* The current segment, or the next when there is no room for len bytes in it. NULL: no disk. */
static struct console_segment *console_segment_for(struct console *c, size_t len)
{
    struct console_segment *g = &c->segments[c->current];
    uint64_t base = g->base + g->size;

    if (g->size == 0 || g->size + len <= console_segment_max(c))
        return g;
    c->current = 1 - c->current;
    g = &c->segments[c->current];
    return segment_begin(g, base) < 0 ? NULL : g;
}

static bool console_append_records(struct console *c, const char *data, size_t len)
{
    struct console_segment *g = console_segment_for(c, len);
    off_t at = g != NULL ? (off_t)(sizeof(struct head) + g->size) : 0;

    if (g == NULL)
        return false;
    if (pwrite(g->fd, data, len, at) == (ssize_t)len) {
        g->size += len;
        return true;
    }
    if (ftruncate(g->fd, at) < 0)
        console_close_log(c); /* opened again it is cut there */
    return false;
}

/* Whole records. What finds no room on the disk is not there: no half record stays. */
static void console_append(struct console *c, const char *data, size_t len)
{
    bool lost = len > 0 && !console_append_records(c, data, len);

    if (lost && !c->lossy)
        log_warn("console", "id=%s log: no room, what is said is lost to it", c->sandbox->id);
    c->lossy = lost;
}

static void console_log(struct console *c, int stream, const char *bytes, size_t len)
{
    static char out[FLUSH_SIZE]; /* one at a time: the loop has one thread */
    int64_t now = clock_wall_us() * US_TO_NS;
    size_t filled = 0;
    struct err err = ERR_NONE;

    if (c->sandbox->spec != NULL && c->sandbox->spec->discard)
        return;
    if (!c->opened && console_open_log(c, &err) < 0) {
        if (!c->lossy)
            log_warn("console", "id=%s %s", c->sandbox->id, err.msg);
        c->lossy = true;
        return;
    }
    while (len > 0) {
        size_t most = len < CONSOLE_RECORD_MAX ? len : CONSOLE_RECORD_MAX;
        const char *end = memchr(bytes, '\n', most);
        size_t n = end != NULL ? (size_t)(end - bytes) + 1 : most;
        const struct record_head r = {.magic = RECORD_MAGIC,
                                      .stream = (uint8_t)stream,
                                      .whole = end != NULL,
                                      .len = (uint32_t)n,
                                      .time_ns = now};

        if (filled + sizeof(r) + n > sizeof(out)) {
            console_append(c, out, filled);
            filled = 0;
        }
        (void)memcpy(out + filled, &r, sizeof(r));
        (void)memcpy(out + filled + sizeof(r), bytes, n);
        filled += sizeof(r) + n;
        bytes += n;
        len -= n;
    }
    console_append(c, out, filled);
}

static const struct console_segment *console_segment_at(const struct console *c, uint64_t *offset)
{
    const struct console_segment *now = &c->segments[c->current],
                                 *old = &c->segments[1 - c->current];
    /* The older one is of use only where the newer goes on from it. */
    bool joined = old->size > 0 && old->base + old->size == now->base;

    if (joined && *offset < now->base) {
        if (*offset < old->base)
            *offset = old->base;
        return old;
    }
    if (*offset < now->base)
        *offset = now->base;
    return *offset < now->base + now->size ? now : NULL;
}

int console_read(struct sandbox *s, uint64_t *offset, struct console_record *ret)
{
    static char bytes[CONSOLE_RECORD_MAX]; /* one at a time: the loop has one thread */
    struct console *c = s->parts.console;
    const struct console_segment *g;
    struct record_head r;
    off_t at;

    if (c == NULL || console_open_log(c, NULL) < 0)
        return 0;
    g = console_segment_at(c, offset);
    if (g == NULL)
        return 0;
    at = (off_t)(sizeof(struct head) + (*offset - g->base));
    /* Offsets come from this function alone; one that is no record's is skipped with its segment.
     */
    if (pread(g->fd, &r, sizeof(r), at) != (ssize_t)sizeof(r) || r.magic != RECORD_MAGIC ||
        r.len > sizeof(bytes) ||
        pread(g->fd, bytes, r.len, at + (off_t)sizeof(r)) != (ssize_t)r.len) {
        *offset = g->base + g->size;
        return 0;
    }
    *offset += sizeof(r) + r.len;
    *ret = (struct console_record){.time_ns = r.time_ns,
                                   .stream = r.stream,
                                   .whole = r.whole != 0,
                                   .bytes = bytes,
                                   .len = r.len};
    return 1;
}

/* ---- watchers ---- */

static void console_tell_watchers(struct console *c)
{
    struct sandbox *s = c->sandbox;

    sandbox_ref(s);
    for (struct console_watcher *w = c->watchers; w != NULL; w = c->next_watcher) {
        c->next_watcher = w->next; /* console_unwatch keeps it right */
        w->on_change(w);
    }
    c->next_watcher = NULL;
    sandbox_unref(s);
}

/* NULL where there is none; err says why. */
static struct console *console_of(struct sandbox *s, struct err *err)
{
    if (s->spec == NULL || !s->spec->console) {
        (void)err_set(err, -EINVAL, "sandbox %s has no console", sandbox_name(s));
        return NULL;
    }
    if (s->parts.console == NULL) {
        s->parts.console = calloc(1, sizeof(*s->parts.console));
        if (s->parts.console == NULL) {
            (void)err_errno(err, -ENOMEM, "console");
            return NULL;
        }
        s->parts.console->sandbox = s;
        for (int i = 0; i < SEGMENTS; i++)
            s->parts.console->segments[i].fd = FD_NONE;
    }
    return s->parts.console;
}

int console_watch(struct sandbox *s, struct console_watcher *w, struct err *err)
{
    struct console *c = console_of(s, err);

    if (c == NULL)
        return err->code;
    sandbox_ref(s);
    w->sandbox = s;
    list_add(&c->watchers, w);
    return 0;
}

void console_unwatch(struct console_watcher *w)
{
    struct console *c;

    if (w->sandbox == NULL)
        return;
    c = w->sandbox->parts.console;
    list_remove(w);
    if (c->next_watcher == w)
        c->next_watcher = w->next;
    sandbox_unref(take(w->sandbox));
}

bool console_is_over(const struct sandbox *s)
{
    return s->parts.console == NULL || (s->parts.console->io == NULL && s->run.main == NULL);
}

/* ---- clients ---- */

static bool console_any_paused(const struct console *c)
{
    for (const struct console_client *cl = c->clients; cl != NULL; cl = cl->next)
        if (cl->paused)
            return true;
    return false;
}

int console_attach(struct sandbox *s, struct console_client *client, struct err *err)
{
    struct console *c = console_of(s, err);

    if (c == NULL)
        return err->code;
    sandbox_ref(s);
    client->sandbox = s;
    client->paused = false;
    list_add(&c->clients, client);
    sandbox_emit(s, "attach", NULL);
    return 0;
}

void console_detach(struct console_client *client)
{
    struct sandbox *s = take(client->sandbox);
    struct console *c;

    if (s == NULL)
        return;
    c = s->parts.console;
    list_remove(client);
    if (c->io != NULL && client->paused && !console_any_paused(c))
        exec_io_resume(c->io);
    client->paused = false;
    sandbox_unref(s);
}

void console_resume(struct console_client *client)
{
    struct console *c;

    if (client->sandbox == NULL || !client->paused)
        return;
    client->paused = false;
    c = client->sandbox->parts.console;
    if (c->io != NULL && !console_any_paused(c))
        exec_io_resume(c->io);
}

/* Each client is detached before its callback runs, so the callback may detach others. */
static void console_tell_ended(struct console *c)
{
    struct sandbox *s = c->sandbox;

    sandbox_ref(s);
    while (c->clients != NULL) {
        struct console_client *client = c->clients;

        console_detach(client);
        client->ended(client);
    }
    console_tell_watchers(c);
    sandbox_unref(s);
}

bool console_takes_input(const struct sandbox *s)
{
    return s->parts.console != NULL && s->parts.console->io != NULL && s->spec->interactive;
}

bool console_write(struct sandbox *s, const void *data, size_t len)
{
    return !console_takes_input(s) || exec_io_write(s->parts.console->io, data, len);
}

void console_end_input(struct sandbox *s)
{
    if (console_takes_input(s))
        exec_io_end_input(s->parts.console->io);
}

/* ---- the process ---- */

static void console_tell_writable(struct console *c)
{
    struct sandbox *s = c->sandbox;

    sandbox_ref(s);
    for (struct console_client *cl = c->clients, *next; cl != NULL; cl = next) {
        next = cl->next; /* writable detaches no client: it only asks for more */
        if (cl->writable != NULL)
            cl->writable(cl);
    }
    sandbox_unref(s);
}

static void on_io_started(void *data)
{
    console_tell_writable(data);
}

static bool on_io_output(void *data, int stream, const char *bytes, size_t len)
{
    struct console *c = data;

    console_log(c, stream, bytes, len);
    for (struct console_client *cl = c->clients, *next; cl != NULL; cl = next) {
        next = cl->next; /* output detaches no client: a lost client is reported from the loop */
        if (!cl->output(cl, stream, bytes, len))
            cl->paused = true;
    }
    if (c->watchers != NULL)
        console_tell_watchers(c);
    return !console_any_paused(c);
}

static void console_end_run(struct console *c)
{
    exec_io_close(take(c->io));
    console_tell_ended(c);
}

static void on_io_ended(void *data)
{
    console_end_run(data);
}

static void on_io_failed(void *data, const struct err *err, int exit_code)
{
    struct console *c = data;

    (void)exit_code;
    log_warn("console", "id=%s %s: its output reaches no client and no log", c->sandbox->id,
             err->msg);
    console_end_run(c);
}

static const struct exec_io_ops ops = {.started = on_io_started,
                                       .failed = on_io_failed,
                                       .output = on_io_output,
                                       .writable = on_io_started,
                                       .ended = on_io_ended};

void console_begin(struct sandbox *s, struct exec *main)
{
    struct err err = ERR_NONE;
    struct console *c = console_of(s, &err);

    if (c == NULL)
        log_warn("console", "id=%s %s", s->id, err.msg);
    if (c == NULL || c->io != NULL)
        return;
    if (exec_io_take(main, &ops, c, &c->io, &err) < 0)
        on_io_failed(c, &err, 0);
    else
        console_tell_writable(c);
}

void console_reattach(struct sandbox *s, struct exec *main)
{
    struct err err = ERR_NONE;
    struct console *c = console_of(s, &err);

    if (c == NULL || c->io != NULL)
        return;
    if (exec_io_attach(main, &ops, c, &c->io, &err) < 0)
        log_warn("console", "id=%s %s: its output reaches no client and no log", s->id, err.msg);
}

void console_no_run(struct sandbox *s)
{
    if (s->parts.console != NULL && s->parts.console->io == NULL)
        console_tell_ended(s->parts.console);
}

void console_close(struct sandbox *s)
{
    if (s->parts.console != NULL)
        exec_io_close(take(s->parts.console->io));
}

void console_free(struct sandbox *s)
{
    if (s->parts.console == NULL)
        return;
    console_close_log(s->parts.console);
    free(take(s->parts.console));
}
