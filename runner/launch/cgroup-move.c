/* Moves the processes of a running sandbox into a v1 cgroup that it had no directory in at its
 * start. Runs in the launcher; called by cgroup_update. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/cgroup-internal.h"

enum {
    PROCS_MAX = 64 << 20, /* bytes of cgroup.procs: the kernel's most processes, 8 digits each */
    PASSES_MAX = 256,
};

struct pid_list {
    pid_t *pids; /* owned; in ascending order */
    size_t count;
};

static int pid_compare(const void *a, const void *b)
{
    const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return x < y ? -1 : x > y;
}

static int pid_list_read(int dir_fd, struct pid_list *ret, struct err *err)
{
    auto_free char *text = NULL;
    auto_free pid_t *pids = NULL;
    size_t len = 0, lines = 0, count = 0;
    int r = file_read_at(dir_fd, "cgroup.procs", PROCS_MAX, &text, &len, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    pids = calloc(lines + 1, sizeof(*pids));
    if (pids == NULL)
        return err_errno(err, -ENOMEM, "cgroup.procs");
    for (char *at = text, *end; count < lines; at = end + 1) {
        pids[count++] = (pid_t)strtol(at, &end, 10);
        if (*end != '\n')
            return err_set(err, -EPROTO, "cgroup.procs: holds something other than pids");
    }
    qsort(pids, count, sizeof(*pids), pid_compare);
    *ret = (struct pid_list){.pids = take(pids), .count = count};
    return 0;
}

static bool pid_list_has(const struct pid_list *l, pid_t pid)
{
    return l->count > 0 && bsearch(&pid, l->pids, l->count, sizeof(pid), pid_compare) != NULL;
}

/* Returns how many were not in the target yet, or a negative errno. */
static int move_pass(const struct pid_list *from, const struct pid_list *there, int to_fd,
                     struct err *err)
{
    char text[24];
    int moved = 0;

    for (size_t i = 0; i < from->count; i++) {
        int r;

        if (pid_list_has(there, from->pids[i]))
            continue;
        (void)snprintf(text, sizeof(text), "%d", (int)from->pids[i]);
        r = file_poke_at(to_fd, "cgroup.procs", text);
        if (r < 0 && r != -ESRCH)
            return err_errno(err, r, "move a process of the sandbox into a cgroup");
        moved++;
    }
    return moved;
}

/* A child is in the cgroups of its parent. So when a pass finds each process of the source in the
 * target already, no process can come that is not. */
int cg_move_processes(int from_fd, int to_fd, struct err *err)
{
    if (from_fd < 0)
        return err_set(err, -EBUSY,
                       "the sandbox runs without a cgroup that has its processes; "
                       "the limit takes effect when it is started again");
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        struct pid_list from = {NULL, 0}, there = {NULL, 0};
        int r = pid_list_read(from_fd, &from, err);

        /* The target is read last: a process that it has not was not in it. */
        if (r == 0)
            r = pid_list_read(to_fd, &there, err);
        if (r == 0)
            r = move_pass(&from, &there, to_fd, err);
        free(from.pids);
        free(there.pids);
        if (r <= 0)
            return r;
    }
    return err_set(err, -EAGAIN, "the processes of the sandbox fork faster than they are moved");
}
