/* The command rind-watch: reports changes of files by inotify. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "files/cmd.h"

enum {
    /* directories of one watch; more are -ENOSPC, like the kernel's limit */
    WATCH_DIRS_MAX = 16384,
    WATCH_MASK = IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM |
                 IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF,
};

struct watch {
    int fd;
    bool recursive, gone;
    /* Paths by watch descriptor; these count up from 1. */
    char **paths; /* owned */
    int cap, count;
    int top; /* watch descriptor of the watched path itself */
    const char *path;
    struct walk walk;
    struct batch batch;
};

static void watch_report(struct watch *w, enum file_event_kind kind, bool directory,
                         uint32_t cookie, const char *name)
{
    size_t len = strlen(name);

    batch_add_event(&w->batch, &(struct file_event){.kind = kind,
                                                    .directory = directory,
                                                    .cookie = cookie,
                                                    .name = name,
                                                    .name_len = (uint16_t)len});
}

/* Joins "dir/name" in a static buffer; NULL when it is too long to be reported. */
static const char *path_join(const char *dir, const char *name)
{
    static char path[FILE_PATH_MAX + 1];
    size_t a = strlen(dir), b = strlen(name);

    if (a + 1 + b > FILE_PATH_MAX)
        return NULL;
    memcpy(path, dir, a + 1);
    if (a > 0 && b > 0)
        path[a++] = '/';
    memcpy(path + a, name, b + 1);
    return path;
}

static int watch_store(struct watch *w, int wd, const char *path)
{
    size_t size = strlen(path) + 1;
    char *copy;

    if (wd >= w->cap) {
        int cap = wd < 64 ? 128 : 2 * wd;
        char **bigger = realloc(w->paths, (size_t)cap * sizeof(*bigger));

        if (bigger == NULL)
            return -ENOMEM;
        memset(bigger + w->cap, 0, (size_t)(cap - w->cap) * sizeof(*bigger));
        w->paths = bigger;
        w->cap = cap;
    }
    copy = malloc(size);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, path, size);
    w->count += w->paths[wd] == NULL;
    free(w->paths[wd]);
    w->paths[wd] = copy;
    return 0;
}

static void watch_drop(struct watch *w, int wd)
{
    if (wd < 0 || wd >= w->cap || w->paths[wd] == NULL)
        return;
    free(w->paths[wd]);
    w->paths[wd] = NULL;
    w->count--;
}

/* full: the path for the kernel; path: the path in events. Returns the watch descriptor. */
static int watch_add(struct watch *w, const char *full, const char *path, uint32_t flags)
{
    int wd, r;

    if (w->count >= WATCH_DIRS_MAX)
        return -ENOSPC;
    wd = inotify_add_watch(w->fd, full, WATCH_MASK | IN_EXCL_UNLINK | flags);
    if (wd < 0)
        return -errno;
    r = watch_store(w, wd, path);
    return r < 0 ? r : wd;
}

/* Returns the path for the kernel; NULL when it is too long. */
static const char *watch_full_path(const struct watch *w, const char *path)
{
    static char full[2 * FILE_PATH_MAX + 2];
    size_t a = strlen(w->path), b = strlen(path);

    if (a + 1 + b > FILE_PATH_MAX)
        return NULL;
    memcpy(full, w->path, a);
    if (b > 0)
        full[a++] = '/';
    memcpy(full + a, path, b + 1);
    return full;
}

/* Watches a directory and, recursively, those in it. found: reports existing entries as created, as
 * they were made after the directory's own event. Directories that have vanished are skipped. */
static int watch_add_tree(struct watch *w, const char *path, bool found)
{
    static char top[FILE_PATH_MAX + 1];
    const char *full = watch_full_path(w, path);
    int fd, r;

    if (full == NULL)
        return 0;
    if (path[0] != '\0') { /* the top is watched already, and may be a link */
        r = watch_add(w, full, path, IN_ONLYDIR | IN_DONT_FOLLOW);
        if (r < 0)
            return r == -ENOENT || r == -ENOTDIR || r == -EACCES ? 0 : r;
    }
    memcpy(top, path, strlen(path) + 1);
    fd = cmd_open(full, O_RDONLY | O_DIRECTORY | (path[0] != '\0' ? O_NOFOLLOW : 0), 0);
    if (fd < 0)
        return 0;
    walk_init(&w->walk, fd);
    while ((r = walk_next(&w->walk)) > 0) {
        const char *name;
        bool directory;

        if (r == WALK_LEAVE || w->walk.error != 0)
            continue;
        name = path_join(top, w->walk.path);
        if (name == NULL)
            continue;
        directory = S_ISDIR(w->walk.st.st_mode);
        if (found)
            watch_report(w, FILE_EVENT_CREATE, directory, 0, name);
        if (!directory)
            continue;
        /* The watch comes before the scan: an entry made in between is reported twice, but never
         * missed. */
        full = watch_full_path(w, name);
        r = full == NULL ? -ENOENT : watch_add(w, full, name, IN_ONLYDIR | IN_DONT_FOLLOW);
        if (r == -ENOSPC || r == -ENOMEM)
            return r;
        if (r >= 0)
            (void)walk_enter(&w->walk);
    }
    walk_done(&w->walk); /* a directory that cannot be read is treated as vanished */
    return 0;
}

static enum file_event_kind mask_kind(uint32_t mask)
{
    /* clang-format off */
    static const struct { uint32_t bit; enum file_event_kind kind; } kinds[] = {
        {IN_CREATE, FILE_EVENT_CREATE},        {IN_MODIFY, FILE_EVENT_MODIFY},
        {IN_CLOSE_WRITE, FILE_EVENT_CLOSE},    {IN_ATTRIB, FILE_EVENT_ATTRIBUTES},
        {IN_DELETE, FILE_EVENT_DELETE},        {IN_MOVED_FROM, FILE_EVENT_MOVED_FROM},
        {IN_MOVED_TO, FILE_EVENT_MOVED_TO},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (mask & kinds[i].bit)
            return kinds[i].kind;
    return FILE_EVENT_INVALID;
}

/* Removes the watches below a directory that was moved away, whose paths are wrong now. */
static void watch_drop_tree(struct watch *w, const char *path)
{
    size_t len = strlen(path);

    for (int wd = 0; wd < w->cap; wd++) {
        const char *p = w->paths[wd];

        if (p == NULL || strncmp(p, path, len) != 0 || (p[len] != '\0' && p[len] != '/'))
            continue;
        (void)inotify_rm_watch(w->fd, wd);
        watch_drop(w, wd);
    }
}

/* Handles events of the watched path itself. After a move its watch would continue, but the name
 * now belongs to another file. */
static int on_top_event(struct watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_IGNORED) {
        if (e->wd == w->top)
            w->gone = true;
        watch_drop(w, e->wd);
    } else if (e->wd == w->top && (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT))) {
        w->gone = true;
    } else if (e->wd == w->top && mask_kind(e->mask) != FILE_EVENT_INVALID) {
        watch_report(w, mask_kind(e->mask), (e->mask & IN_ISDIR) != 0, 0, "");
    }
    return 0;
}

static int on_inotify_event(struct watch *w, const struct inotify_event *e)
{
    bool directory = (e->mask & IN_ISDIR) != 0;
    enum file_event_kind kind = mask_kind(e->mask);
    static char name[FILE_PATH_MAX + 1];
    const char *path;

    if (e->mask & IN_Q_OVERFLOW) {
        watch_report(w, FILE_EVENT_OVERFLOW, false, 0, "");
        return 0;
    }
    if (e->len == 0 || (e->mask & IN_IGNORED))
        return on_top_event(w, e);
    if (e->wd < 0 || e->wd >= w->cap || w->paths[e->wd] == NULL || kind == FILE_EVENT_INVALID)
        return 0;
    path = path_join(w->paths[e->wd], e->name);
    if (path == NULL)
        return 0;
    memcpy(name, path, strlen(path) + 1);
    watch_report(w, kind, directory, e->cookie, name);
    if (!w->recursive || !directory)
        return 0;
    if (kind == FILE_EVENT_MOVED_FROM)
        watch_drop_tree(w, name);
    if (kind == FILE_EVENT_CREATE || kind == FILE_EVENT_MOVED_TO)
        return watch_add_tree(w, name, kind == FILE_EVENT_CREATE);
    return 0;
}

static int watch_read_events(struct watch *w)
{
    static _Alignas(struct inotify_event) char buf[65536];
    ssize_t n = read(w->fd, buf, sizeof(buf));
    int r = 0;

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    for (ssize_t at = 0; at < n && r == 0 && !w->gone;) {
        const struct inotify_event *e = (const void *)(buf + at);

        r = on_inotify_event(w, e);
        at += (ssize_t)(sizeof(*e) + e->len);
    }
    return r;
}

/* Runs until the watched path or the reader is gone; POLLHUP of stdout shows the latter without an
 * event. */
static int watch_loop(struct watch *w)
{
    struct pollfd fds[2] = {{.fd = w->fd, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    int r = 0;

    while (r == 0 && !w->gone) {
        batch_flush(&w->batch);
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
            _exit(EXIT_BROKEN);
        r = watch_read_events(w);
    }
    return r;
}

/* rind-watch PATH [--recursive]: writes events, beginning with READY, until the watched path or the
 * reader is gone. */
int cmd_watch(char **args)
{
    static struct watch w; /* not initialised here, so that the buffers are in .bss */
    struct stat st;
    int fd, r;

    w.batch.fd = STDOUT_FILENO;
    cmd_options(args + 1, (const struct cmd_option[]){{.name = "--recursive", .flag = &w.recursive},
                                                      {.name = NULL}});
    w.path = args[0];
    fd = cmd_open(w.path, O_PATH, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cmd_answer_error(STDOUT_FILENO, fd < 0 ? fd : -errno, "watch", w.path);
    (void)close(fd);
    w.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w.fd < 0)
        return cmd_answer_error(STDOUT_FILENO, -errno, "watch", w.path);
    w.top = watch_add(&w, w.path, "", 0);
    r = w.top;
    if (r >= 0 && w.recursive && S_ISDIR(st.st_mode))
        r = watch_add_tree(&w, "", false);
    if (r >= 0) {
        watch_report(&w, FILE_EVENT_READY, false, 0, "");
        r = watch_loop(&w);
    }
    if (w.gone)
        watch_report(&w, FILE_EVENT_GONE, false, 0, "");
    batch_flush(&w.batch);
    return r < 0 ? cmd_answer_error(STDOUT_FILENO, r, "watch", w.path)
                 : shim_answer_success(STDOUT_FILENO);
}
