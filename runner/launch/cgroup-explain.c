/*
 * Says which processes of a sandbox have not ended after SIGKILL. Mostly one sleeps uninterruptibly
 * in a file system or a device that does not answer. Only files of /proc are read for which the
 * kernel neither takes a lock of the process's memory nor asks a file system. Runs in the launcher.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/cgroup-internal.h"

enum {
    LISTED_MAX = 64,
    STAT_MAX = 512, /* bytes of /proc/PID/stat up to the state; a name has at most 64 */
    NAME_MAX_SHOWN = 16,
    WAIT_MAX = 64,
};

struct living {
    char name[NAME_MAX_SHOWN], wait[WAIT_MAX];
    char state; /* '\0': the process has ended */
};

/* Names come from inside: in a message they are plain ASCII. */
static void text_make_plain(char *text)
{
    for (; *text != '\0'; text++)
        if (*text < 0x20 || *text > 0x7e || *text == '\'')
            *text = '?';
}

static ssize_t proc_read(pid_t pid, const char *name, char *text, size_t size)
{
    auto_close int fd = FD_NONE;
    char path[48];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, size - 1);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static struct living living_read(pid_t pid)
{
    struct living p = {.state = '\0'};
    char text[STAT_MAX], *name, *end;

    if (proc_read(pid, "stat", text, sizeof(text)) <= 0)
        return p;
    name = strchr(text, '(');
    end = strrchr(text, ')');
    if (name == NULL || end == NULL || end < name || end[1] != ' ')
        return p;
    *end = '\0';
    (void)snprintf(p.name, sizeof(p.name), "%.15s", name + 1);
    text_make_plain(p.name);
    p.state = end[2] == 'Z' || end[2] == 'X' ? '\0' : end[2];
    if (proc_read(pid, "wchan", p.wait, sizeof(p.wait)) <= 0 || strcmp(p.wait, "0") == 0)
        p.wait[0] = '\0';
    text_make_plain(p.wait);
    return p;
}

/* A process that sleeps in the kernel is the reason; others, init for one, wait for it. */
int cgroup_explain(const struct cgroup *c, int code, struct err *err)
{
    pid_t pids[LISTED_MAX], which = 0;
    const int n = c != NULL ? cg_list(c, pids, LISTED_MAX) : 0;
    struct living found = {.state = '\0'};
    int living = 0;

    for (int i = 0; i < n; i++) {
        const struct living p = living_read(pids[i]);

        if (p.state == '\0')
            continue;
        living++;
        if (found.state == '\0' || (p.state == 'D' && found.state != 'D')) {
            found = p;
            which = pids[i];
        }
    }
    if (found.state == 'D')
        return err_set(err, code,
                       "process %d ('%s') sleeps in the kernel%s%s, for a file system or a device "
                       "that does not answer, and cannot be killed before it does (%d of its "
                       "processes are left)",
                       (int)which, found.name, found.wait[0] != '\0' ? " in " : "", found.wait,
                       living);
    if (living > 0)
        return err_set(err, code,
                       "%d of its processes have not ended after SIGKILL; one is %d ('%s')", living,
                       (int)which, found.name);
    return err_set(err, code, "its processes have not ended");
}
