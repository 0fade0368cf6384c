/* Owns the table of child processes. Runs in the launcher, in the janitor and in new children.
 * Called by each file of launch/ that forks. */
#include "launch/child-table.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "proto/syscalls.h"

bool child_table_has_room(struct child_table *t)
{
    child_table_reap(t);
    return t->count < CHILDREN_MAX;
}

void child_table_add(struct child_table *t, pid_t pid, const char *id,
                     void (*on_exit)(void *owner, const struct child_process *c, int status))
{
    struct child_process *c = &t->children[t->count++];

    *c = (struct child_process){.pid = pid, .pidfd = sys_pidfd_open(pid), .on_exit = on_exit};
    (void)snprintf(c->id, sizeof(c->id), "%s", id != NULL ? id : "");
}

void child_table_reap(struct child_table *t)
{
    for (size_t i = 0; i < t->count;) {
        const struct child_process c = t->children[i];
        int status = 0;

        if (waitpid(c.pid, &status, WNOHANG) == 0) {
            i++;
            continue;
        }
        if (c.pidfd >= 0)
            (void)close(c.pidfd);
        /* The table is in order before on_exit, which may add a child. */
        t->children[i] = t->children[--t->count];
        if (c.on_exit != NULL)
            c.on_exit(t->owner, &c, status);
    }
}

size_t child_table_count(const struct child_table *t,
                         void (*on_exit)(void *owner, const struct child_process *c, int status))
{
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++)
        n += t->children[i].on_exit == on_exit;
    return n;
}

size_t child_table_poll(const struct child_table *t, struct pollfd *ret)
{
    for (size_t i = 0; i < t->count; i++)
        ret[i] = (struct pollfd){.fd = t->children[i].pidfd, .events = POLLIN};
    return t->count;
}

int child_keep_fds(int *fds, int count, int first)
{
    for (int i = 0; i < count; i++) {
        if (fds[i] < 0)
            continue;
        fds[i] = fcntl(fds[i], F_DUPFD, first + count); /* a number above the target numbers */
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < count; i++) {
        if (fds[i] < 0) {
            (void)close(first + i);
            continue;
        }
        if (dup2(fds[i], first + i) < 0)
            return -errno;
        fds[i] = first + i;
    }
    return sys_close_range((unsigned)(first + count), ~0U, 0);
}

void child_become(const char *name, void (*on_stop)(int))
{
    (void)signal(SIGTERM, on_stop);
    (void)signal(SIGINT, on_stop);
    (void)prctl(PR_SET_NAME, name);
}

void child_yield(void)
{
    (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){.sched_priority = 0});
}
