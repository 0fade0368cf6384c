/* The command rind-list. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "files/cmd.h"

struct list {
    uint64_t depth, max, count;
    bool all;
    struct walk walk;
    struct batch batch;
};

static void record_read_target(const struct walk *w, struct file_record *r)
{
    static char target[FILE_PATH_MAX];
    ssize_t n = readlinkat(w->dirfd, w->name, target, sizeof(target));

    if (n <= 0)
        return; /* the entry has vanished, or is no link any more */
    r->target = target;
    r->target_len = (uint16_t)n;
}

static void record_fail(struct file_record *r, int code)
{
    r->flags |= FILE_FAILED;
    r->error = (uint16_t)-code;
}

static void list_entry(struct list *l)
{
    struct walk *w = &l->walk;
    struct file_record r = {.name = NULL};
    bool enter = false;

    if (w->error == 0)
        cmd_record(&r, &w->st);
    else
        record_fail(&r, w->error);
    r.name = w->path;
    r.name_len = (uint16_t)w->path_len;
    if (w->error == 0 && S_ISLNK(w->st.st_mode))
        record_read_target(w, &r);
    if (w->error == 0 && S_ISDIR(w->st.st_mode)) {
        enter = w->depth < l->depth;
        if (enter) {
            int e = walk_enter(w);

            if (e == -ENOENT || e == -ELOOP || e == -ENOTDIR)
                r.flags |= FILE_NOT_ENTERED; /* too deep, or replaced meanwhile */
            else if (e < 0)
                record_fail(&r, e);
        } else {
            r.flags |= FILE_NOT_ENTERED;
        }
    }
    batch_add_record(&l->batch, &r);
    l->count++;
}

static int list_entries(struct list *l)
{
    int r;

    while ((r = walk_next(&l->walk)) > 0) {
        if (r == WALK_LEAVE || (!l->all && l->walk.name[0] == '.'))
            continue;
        if (l->count == l->max) {
            batch_add_record(&l->batch, &(struct file_record){.flags = FILE_TRUNCATED});
            return 0;
        }
        list_entry(l);
    }
    return r;
}

/* rind-list PATH --depth=N --max=N [--all]: one record per entry, in the directory's order, a
 * directory before its entries. */
int cmd_list(char **args)
{
    static struct list l; /* not initialised here, so that the buffers are in .bss */
    int fd, r;

    l.depth = 1;
    l.max = UINT64_MAX;
    l.batch.fd = STDOUT_FILENO;
    cmd_options(args + 1,
                (const struct cmd_option[]){
                    {.name = "--depth", .value = &l.depth, .base = 10, .max = FILE_LIST_DEPTH_MAX},
                    {.name = "--max", .value = &l.max, .base = 10, .max = UINT64_MAX},
                    {.name = "--all", .flag = &l.all},
                    {.name = NULL}});
    fd = cmd_open(args[0], O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return cmd_answer_error(STDOUT_FILENO, fd, "open directory", args[0]);
    walk_init(&l.walk, fd);
    r = list_entries(&l);
    batch_flush(&l.batch);
    return r < 0 ? cmd_answer_error(STDOUT_FILENO, r, "list",
                                    l.walk.path_len > 0 ? l.walk.path : args[0])
                 : shim_answer_success(STDOUT_FILENO);
}
