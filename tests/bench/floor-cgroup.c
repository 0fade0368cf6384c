/* The floor: cgroups of one sandbox, in v1 hierarchies and in v2. */

#include "floor-cgroup.h"

#include <limits.h>
#include <sys/stat.h>

static const char *const v1_names[CG_V1_MAX] = {"memory", "pids", "cpu"};

static struct {
    int v1[CG_V1_MAX], v2; /* a directory of ours in each hierarchy; -1 where there is none */
    bool v2_controllers;   /* memory, pids and cpu are v2's */
    char paths[CG_V1_MAX + 1][PATH_MAX];
} host = {.v1 = {-1, -1, -1}, .v2 = -1};

/* Paths of cgroup mounts hold no blanks that would need decoding. */
static void find_mounts(void)
{
    static char type[64], path[4096], options[4096], line[16384];
    FILE *f = fopen("/proc/self/mounts", "re");

    if (f == NULL)
        die("/proc/self/mounts");
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%*s %4095s %63s %4095s", path, type, options) != 3)
            continue;
        if (strcmp(type, "cgroup2") == 0)
            (void)snprintf(host.paths[CG_V1_MAX], PATH_MAX, "%s", path);
        if (strcmp(type, "cgroup") != 0)
            continue;
        for (char *o = strtok(options, ","); o != NULL; o = strtok(NULL, ","))
            for (int i = 0; i < CG_V1_MAX; i++)
                if (strcmp(o, v1_names[i]) == 0)
                    (void)snprintf(host.paths[i], PATH_MAX, "%s", path);
    }
    (void)fclose(f);
}

void cg_host_open(void)
{
    find_mounts();
    for (int i = 0; i <= CG_V1_MAX; i++) {
        if (host.paths[i][0] == '\0')
            continue;
        size_t n = strlen(host.paths[i]);
        (void)snprintf(host.paths[i] + n, PATH_MAX - n, "/rind-bench-%d", getpid());
        MUST(mkdir(host.paths[i], 0755));
        int fd = MUST(open(host.paths[i], O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        if (i < CG_V1_MAX)
            host.v1[i] = fd;
        else
            host.v2 = fd;
    }
    if (host.v2 >= 0 && host.v1[CG_MEMORY] < 0) {
        host.v2_controllers = true;
        poke(host.v2, "../cgroup.subtree_control", "+memory +pids +cpu");
        poke(host.v2, "cgroup.subtree_control", "+memory +pids +cpu");
    }
}

void cg_host_remove(void)
{
    for (int i = 0; i <= CG_V1_MAX; i++)
        if (host.paths[i][0] != '\0')
            (void)rmdir(host.paths[i]);
}

static void limit(const struct cgroups *c)
{
    if (c->v1[CG_MEMORY] >= 0) {
        poke(c->v1[CG_MEMORY], "memory.limit_in_bytes", "2147483648");
        poke(c->v1[CG_MEMORY], "memory.memsw.limit_in_bytes", "2147483648");
    }
    if (c->v1[CG_PIDS] >= 0)
        poke(c->v1[CG_PIDS], "pids.max", "1024");
    if (c->v1[CG_CPU] >= 0)
        poke(c->v1[CG_CPU], "cpu.cfs_quota_us", "200000");
    if (host.v2_controllers) {
        poke(c->v2, "memory.max", "2147483648");
        poke(c->v2, "memory.swap.max", "0");
        poke(c->v2, "pids.max", "1024");
        poke(c->v2, "cpu.max", "200000 100000");
    }
}

static void delegate(const struct cgroups *c, uid_t owner)
{
    MUST(fchownat(c->v2, "exec", owner, owner, 0));
    MUST(fchownat(c->v2, "exec/cgroup.procs", owner, owner, 0));
    MUST(fchownat(c->v2, "exec/cgroup.subtree_control", owner, owner, 0));
}

void cg_make(struct cgroups *c, const char *name, uid_t owner)
{
    for (int i = 0; i < CG_V1_MAX; i++) {
        if (host.v1[i] < 0)
            continue;
        MUST(mkdirat(host.v1[i], name, 0755));
        c->v1[i] = MUST(openat(host.v1[i], name, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    }
    if (host.v2 >= 0) {
        MUST(mkdirat(host.v2, name, 0755));
        c->v2 = MUST(openat(host.v2, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        MUST(mkdirat(c->v2, "exec", 0755));
    }
    step(L_CG_MKDIR);
    limit(c);
    if (c->v2 >= 0)
        delegate(c, owner);
    step(L_CG_LIMITS);
}

void cg_attach(const struct cgroups *c, pid_t pid)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%d", pid);
    for (int i = 0; i < CG_V1_MAX; i++)
        if (c->v1[i] >= 0)
            poke(c->v1[i], "cgroup.procs", text);
}

/*
 * The kernel then moves one thread, without the lock that stops every fork on the host, whose
 * writer waits for a whole RCU grace period (10 ms and more) when nobody has written to it lately.
 */
void cg_enter(const struct cgroups *c)
{
    for (int i = 0; i < CG_V1_MAX; i++)
        if (c->v1[i] >= 0)
            poke(c->v1[i], "tasks", "0");
}

void cg_remove(const struct cgroups *c, const char *name)
{
    for (int i = 0; i < CG_V1_MAX; i++)
        if (c->v1[i] >= 0) {
            (void)close(c->v1[i]);
            MUST(unlinkat(host.v1[i], name, AT_REMOVEDIR));
        }
    if (c->v2 >= 0) {
        MUST(unlinkat(c->v2, "exec", AT_REMOVEDIR));
        (void)close(c->v2);
        MUST(unlinkat(host.v2, name, AT_REMOVEDIR));
    }
}
