/*
 * Owns the files of the audit record, <state>/supervisor/audit/NUMBER, and the lines that are on
 * their way to them. A job of the thread pool writes; the loop collects lines meanwhile. The job
 * alone uses `writing`, `fd`, `number` and `size` until it has ended; the loop keeps copies of what
 * readers need.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "api/audit.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"

enum {
    WRITE_MS = 20, /* from the first line to the write, so that a burst is one write */
    NAME_MAX_BYTES = 24,
    FILES = 2,
};

struct audit_log {
    uv_timer_t timer;
    uv_work_t work;
    int dir;            /* owned */
    size_t file_max;    /* bytes of one file */
    struct buf pending; /* lines; the loop's */
    uint64_t lost;      /* lines that were dropped, since the last record of it */
    uint64_t last_id;   /* of a record */
    bool busy, closing, timer_closed;
    bool failed; /* the last write did, and was logged */
    struct audit_reader *readers;
    uint64_t seen_number; /* number and size as of the last job's end */
    int64_t seen_size;
    /* the job's */
    struct buf writing;
    int fd; /* owned; FD_NONE after a failed rotation */
    uint64_t number;
    int64_t size;
    bool torn;          /* the file may end within a line */
    int r;              /* the job's result */
    uint64_t unwritten; /* lines that it could not write */
};

static void name_of(uint64_t number, char ret[NAME_MAX_BYTES])
{
    (void)snprintf(ret, NAME_MAX_BYTES, "%" PRIu64, number);
}

/* ---- writing: in a job, or while there is none ---- */

/* Closes the file and begins the next one; the oldest goes. */
static int log_rotate(struct audit_log *a)
{
    char name[NAME_MAX_BYTES];
    int fd;

    name_of(a->number + 1, name);
    fd = openat(a->dir, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (a->fd >= 0)
        (void)close(a->fd);
    a->fd = fd;
    a->number++;
    a->size = 0;
    a->torn = false;
    if (a->number > FILES) {
        name_of(a->number - FILES, name);
        (void)unlinkat(a->dir, name, 0);
    }
    return 0;
}

static int log_write_part(struct audit_log *a, const char *data, size_t len)
{
    int r = 0;

    if (a->torn)
        r = write_all(a->fd, "\n", 1);
    if (r == 0) {
        a->size += a->torn;
        a->torn = false;
        r = write_all(a->fd, data, len);
    }
    if (r < 0)
        a->torn = true; /* a part of it may be there */
    else
        a->size += (int64_t)len;
    return r;
}

/* Returns the bytes of whole lines that fit into `room`, one line at least. */
static size_t lines_that_fit(const char *data, size_t len, size_t room)
{
    size_t n = 0;

    while (n < len) {
        const char *end = memchr(data + n, '\n', len - n);
        size_t next = end != NULL ? (size_t)(end - data) + 1 : len;

        if (n > 0 && next > room)
            break;
        n = next;
    }
    return n;
}

/* Writes all lines of `writing`, in as many files as they need. */
static int log_write(struct audit_log *a)
{
    const char *at = a->writing.data;
    size_t left = a->writing.len;
    int r = 0;

    while (r == 0 && left > 0) {
        size_t room = (size_t)a->size < a->file_max ? a->file_max - (size_t)a->size : 0, n;

        if (a->fd < 0 || lines_that_fit(at, left, room) > room)
            r = log_rotate(a);
        if (r < 0)
            break;
        n = lines_that_fit(at, left, a->file_max - (size_t)a->size);
        r = log_write_part(a, at, n);
        if (r < 0)
            break;
        at += n;
        left -= n;
    }
    for (size_t i = 0; r < 0 && i < left; i++)
        a->unwritten += at[i] == '\n';
    a->writing.len = 0;
    return r;
}

/* ---- between loop and job ---- */

/* Neither the timer's handle nor a job refers to the log any more: the last lines are written. */
static void log_free_if_closed(struct audit_log *a)
{
    if (!a->timer_closed || a->busy)
        return;
    audit_log_save(a);
    if (a->fd >= 0)
        (void)close(a->fd);
    (void)close(a->dir);
    buf_done(&a->pending);
    buf_done(&a->writing);
    free(a);
}

/* Moves pending lines to the job. */
static void log_hand_over(struct audit_log *a)
{
    struct buf empty = a->writing;
    char text[96];

    if (a->lost > 0) {
        int n = snprintf(text, sizeof(text), "{\"id\":%" PRIu64 ",\"lost\":%" PRIu64 "}\n",
                         audit_log_id(a), a->lost);

        if (buf_append(&a->pending, text, (size_t)n) == 0)
            a->lost = 0;
    }
    a->writing = a->pending;
    a->pending = empty;
    a->pending.len = 0;
}

static void log_written(struct audit_log *a)
{
    if (a->r < 0 && !a->failed)
        log_error("audit", "records cannot be written: %s; they are counted", strerror(-a->r));
    a->failed = a->r < 0;
    a->lost += a->unwritten;
    a->unwritten = 0;
    a->seen_number = a->number;
    a->seen_size = a->size;
}

static void log_write_soon(struct audit_log *a);

static void work_write(uv_work_t *w)
{
    struct audit_log *a = w->data;

    a->r = log_write(a);
}

static void after_write(uv_work_t *w, int status)
{
    struct audit_log *a = w->data;

    (void)status;
    a->busy = false;
    log_written(a);
    if (a->closing) {
        log_free_if_closed(a);
        return;
    }
    for (struct audit_reader *r = a->readers, *next; r != NULL; r = next) {
        next = r->next;
        list_remove(r);
        r->on_more(r);
    }
    if (a->pending.len > 0)
        log_write_soon(a);
}

static void on_write_timer(uv_timer_t *t)
{
    struct audit_log *a = t->data;

    if (a->busy || a->pending.len == 0)
        return;
    log_hand_over(a);
    a->work.data = a;
    a->busy = uv_queue_work(t->loop, &a->work, work_write, after_write) == 0;
    if (!a->busy)
        a->writing.len = 0;
}

static void log_write_soon(struct audit_log *a)
{
    if (!a->busy && !uv_is_active((uv_handle_t *)&a->timer))
        (void)uv_timer_start(&a->timer, on_write_timer, WRITE_MS, 0);
}

uint64_t audit_log_id(struct audit_log *a)
{
    uint64_t now = (uint64_t)clock_wall_us();

    a->last_id = now > a->last_id ? now : a->last_id + 1;
    return a->last_id;
}

void audit_log_add(struct audit_log *a, const char *line, size_t len)
{
    if (a->closing || buf_append(&a->pending, line, len) < 0)
        a->lost++;
    log_write_soon(a);
}

void audit_log_save(struct audit_log *a)
{
    if (a == NULL || a->busy || a->pending.len == 0)
        return;
    log_hand_over(a);
    a->r = log_write(a);
    log_written(a);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct audit_log *a = h->data;

    a->timer_closed = true;
    log_free_if_closed(a);
}

void audit_log_close(struct audit_log *a)
{
    if (a == NULL)
        return;
    a->closing = true;
    uv_close((uv_handle_t *)&a->timer, on_timer_closed);
}

/* ---- opening ---- */

/* Finds the newest number, and removes what rotation has left behind. */
static int log_find_newest(struct audit_log *a, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(a->dir, ".");
    const struct dirent *e;

    if (d == NULL)
        return err_errno(err, -errno, "audit");
    while ((e = dir_next(d)) != NULL)
        if (strspn(e->d_name, "0123456789") == strlen(e->d_name) &&
            strtoull(e->d_name, NULL, 10) > a->number)
            a->number = strtoull(e->d_name, NULL, 10);
    return 0;
}

/* Opens the newest file for appending. Its last line may be a part of one, of a killed process. */
static int log_open_newest(struct audit_log *a, struct err *err)
{
    char name[NAME_MAX_BYTES], last = '\n';
    struct stat st;

    a->number = a->number > 0 ? a->number : 1;
    name_of(a->number, name);
    a->fd = openat(a->dir, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (a->fd < 0 || fstat(a->fd, &st) < 0)
        return err_errno(err, -errno, "audit/%s", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "audit/%s: is no file", name);
    a->size = st.st_size;
    a->torn = a->size > 0 && pread(a->fd, &last, 1, a->size - 1) == 1 && last != '\n';
    a->seen_number = a->number;
    a->seen_size = a->size;
    return 0;
}

int audit_log_open(const struct audit_config *config, struct audit_log **ret, struct err *err)
{
    struct audit_log *a = calloc(1, sizeof(*a));
    int r = 0;

    if (a == NULL)
        return err_errno(err, -ENOMEM, "audit");
    *a = (struct audit_log){.dir = FD_NONE,
                            .fd = FD_NONE,
                            .file_max = config->bytes / FILES,
                            .pending = BUF_INIT(AUDIT_PENDING_MAX),
                            .writing = BUF_INIT(AUDIT_PENDING_MAX)};
    if (a->file_max < AUDIT_FILE_MIN)
        a->file_max = AUDIT_FILE_MIN;
    if (mkdirat(config->dir_fd, "audit", 0700) < 0 && errno != EEXIST)
        r = err_errno(err, -errno, "audit");
    if (r == 0) {
        a->dir = openat(config->dir_fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        r = a->dir < 0 ? err_errno(err, -errno, "audit") : log_find_newest(a, err);
    }
    if (r == 0)
        r = log_open_newest(a, err);
    if (r < 0) {
        if (a->fd >= 0)
            (void)close(a->fd);
        if (a->dir >= 0)
            (void)close(a->dir);
        free(a);
        return r;
    }
    (void)uv_timer_init(config->loop, &a->timer);
    a->timer.data = a;
    *ret = a;
    return 0;
}

/* ---- readers ---- */

static int reader_open_file(const struct audit_log *a, struct audit_reader *r, uint64_t number)
{
    char name[NAME_MAX_BYTES];
    int fd;

    name_of(number, name);
    fd = openat(a->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = fd;
    r->number = number;
    r->at = 0;
    return 0;
}

/* Opens the oldest file that is there, from `number` on. */
static int reader_open_from(const struct audit_log *a, struct audit_reader *r, uint64_t number)
{
    int code = -ENOENT;

    for (; code == -ENOENT && number <= a->seen_number; number++)
        code = reader_open_file(a, r, number);
    return code;
}

static uint64_t oldest_number(const struct audit_log *a)
{
    return a->seen_number >= FILES ? a->seen_number - FILES + 1 : 1;
}

int audit_reader_open(struct audit_log *a, struct audit_reader *r, bool from_now)
{
    int code;

    r->fd = FD_NONE;
    r->link = NULL;
    code = reader_open_from(a, r, from_now ? a->seen_number : oldest_number(a));
    if (code == 0 && from_now)
        r->at = a->seen_size;
    return code;
}

bool audit_reader_more(struct audit_log *a, struct audit_reader *r)
{
    uint64_t next = r->number + 1;

    if (r->number == a->seen_number && r->at < a->seen_size)
        return true;
    if (next < oldest_number(a))
        next = oldest_number(a); /* a slow reader: files between have gone */
    if (r->number < a->seen_number) {
        const uint64_t before = r->number;

        if (reader_open_from(a, r, next) == 0) {
            r->gap |= r->number != before + 1;
            return true;
        }
    }
    list_add(&a->readers, r);
    return false;
}

void audit_reader_close(struct audit_reader *r)
{
    if (r->link != NULL)
        list_remove(r);
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = FD_NONE;
}
