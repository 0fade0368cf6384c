/* What a process can say about itself: ids, capabilities, namespaces, fds, environment, limits. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "payload.h"

extern char **environ;
static char big[1 << 20];

static const char *const namespaces[] = {
    "user", "mnt", "pid", "pid_for_children", "net", "uts", "ipc", "cgroup", "time",
};

static void put_namespaces(const char *proc)
{
    js_open("ns", '{');
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
        char path[64], link[64];
        ssize_t n;

        snprintf(path, sizeof(path), "%s/ns/%s", proc, namespaces[i]);
        n = readlink(path, link, sizeof(link));
        if (n < 0)
            js_str(namespaces[i], errno_name(errno));
        else
            js_strn(namespaces[i], link, (size_t)n);
    }
    js_close('}');
}

/* Every "Key:\tvalue" line of /proc/self/status. */
static void put_status(void)
{
    js_open("status", '{');
    if (slurp("/proc/self/status", big, sizeof(big)) >= 0) {
        for (char *line = strtok(big, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            char *colon = strchr(line, ':');

            if (colon == NULL)
                continue;
            *colon++ = '\0';
            js_str(line, colon + strspn(colon, " \t"));
        }
    }
    js_close('}');
}

static void put_ids(void)
{
    uid_t u[3];
    gid_t g[3], groups[256];
    int n;

    getresuid(&u[0], &u[1], &u[2]);
    getresgid(&g[0], &g[1], &g[2]);
    js_open("uid", '[');
    for (int i = 0; i < 3; i++)
        js_int(NULL, u[i]);
    js_close(']');
    js_open("gid", '[');
    for (int i = 0; i < 3; i++)
        js_int(NULL, g[i]);
    js_close(']');
    n = getgroups(256, groups);
    js_open("groups", '[');
    for (int i = 0; i < n; i++)
        js_int(NULL, groups[i]);
    js_close(']');
}

static void put_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;

    js_open("fds", '{');
    while (d != NULL && (e = readdir(d)) != NULL) {
        char link[PATH_MAX];
        ssize_t n;

        if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(d))
            continue;
        n = readlinkat(dirfd(d), e->d_name, link, sizeof(link));
        js_strn(e->d_name, link, n < 0 ? 0 : (size_t)n);
    }
    js_close('}');
    if (d != NULL)
        closedir(d);
}

static void put_file(const char *key, const char *path)
{
    long n = slurp(path, big, sizeof(big));

    if (n < 0)
        js_str(key, errno_name(errno));
    else
        js_strn(key, big, (size_t)n);
}

static const struct {
    int resource;
    const char *name;
} rlimits[] = {
    {RLIMIT_CPU, "cpu"},       {RLIMIT_FSIZE, "fsize"},       {RLIMIT_DATA, "data"},
    {RLIMIT_STACK, "stack"},   {RLIMIT_CORE, "core"},         {RLIMIT_RSS, "rss"},
    {RLIMIT_NPROC, "nproc"},   {RLIMIT_NOFILE, "nofile"},     {RLIMIT_MEMLOCK, "memlock"},
    {RLIMIT_AS, "as"},         {RLIMIT_LOCKS, "locks"},       {RLIMIT_SIGPENDING, "sigpending"},
    {RLIMIT_NICE, "nice"},     {RLIMIT_MSGQUEUE, "msgqueue"}, {RLIMIT_RTPRIO, "rtprio"},
    {RLIMIT_RTTIME, "rttime"},
};

/* -1 stands for "unlimited". */
static void put_rlimits(void)
{
    js_open("rlimits", '{');
    for (size_t i = 0; i < sizeof(rlimits) / sizeof(rlimits[0]); i++) {
        struct rlimit r = {0, 0};

        getrlimit(rlimits[i].resource, &r);
        js_open(rlimits[i].name, '[');
        js_int(NULL, r.rlim_cur == RLIM_INFINITY ? -1 : (long long)r.rlim_cur);
        js_int(NULL, r.rlim_max == RLIM_INFINITY ? -1 : (long long)r.rlim_max);
        js_close(']');
    }
    js_close('}');
}

static void put_names(void)
{
    struct utsname u = {0};
    char cwd[PATH_MAX];
    mode_t mask = umask(0);

    umask(mask);
    uname(&u);
    js_str("hostname", u.nodename);
    js_str("domainname", u.domainname);
    js_str("cwd", syscall(SYS_getcwd, cwd, sizeof(cwd)) < 0 ? errno_name(errno) : cwd);
    js_int("umask", mask);
    js_int("nice", getpriority(PRIO_PROCESS, 0));
    js_int("sched", syscall(SYS_sched_getscheduler, 0)); /* musl's own says ENOSYS */
    js_int("ioprio", syscall(SYS_ioprio_get, 1, 0));
    js_int("dumpable", prctl(PR_GET_DUMPABLE));
    js_int("securebits", prctl(PR_GET_SECUREBITS));
    js_int("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static int cmd_facts(int argc, char **argv)
{
    js_open(NULL, '{');
    js_int("pid", getpid());
    js_int("ppid", getppid());
    js_int("pgid", getpgid(0));
    js_int("sid", getsid(0));
    put_ids();
    put_names();
    put_namespaces("/proc/self");
    put_fds();
    put_rlimits();
    put_file("cgroup", "/proc/self/cgroup");
    put_file("uid_map", "/proc/self/uid_map");
    put_file("gid_map", "/proc/self/gid_map");
    put_file("setgroups", "/proc/self/setgroups");
    put_file("oom_score_adj", "/proc/self/oom_score_adj");
    put_status();
    js_open("env", '[');
    for (char **e = environ; *e != NULL; e++)
        js_str(NULL, *e);
    js_close(']');
    js_open("argv", '[');
    for (int i = 0; i < argc; i++)
        js_str(NULL, argv[i]);
    js_close(']');
    js_close('}');
    putchar('\n');
    return 0;
}

/* Whether root inside can write to the file behind a /proc/PID/exe. */
static void put_exe(const char *pid)
{
    char path[64], link[PATH_MAX];
    struct stat st = {0};
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%s/exe", pid);
    n = readlink(path, link, sizeof(link));
    if (n < 0)
        js_str("exe", errno_name(errno));
    else
        js_strn("exe", link, (size_t)n);
    if (stat(path, &st) == 0) {
        js_int("exe_dev", (long long)st.st_dev);
        js_int("exe_ino", (long long)st.st_ino);
    }
    fd = open(path, O_WRONLY | O_CLOEXEC);
    js_result("exe_write", fd);
    if (fd >= 0)
        close(fd);
}

/* Every process that this /proc shows, itself included. */
static int cmd_pids(int argc, char **argv)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;

    (void)argc;
    (void)argv;
    if (d == NULL)
        return complain("/proc");
    js_open(NULL, '[');
    while ((e = readdir(d)) != NULL) {
        char path[64], proc[32], link[PATH_MAX];
        ssize_t n;

        if (strspn(e->d_name, "0123456789") != strlen(e->d_name))
            continue;
        js_open(NULL, '{');
        js_int("pid", atoi(e->d_name));
        snprintf(path, sizeof(path), "/proc/%.10s/comm", e->d_name);
        put_file("comm", path);
        snprintf(path, sizeof(path), "/proc/%.10s/stat", e->d_name);
        put_file("stat", path);
        snprintf(path, sizeof(path), "/proc/%.10s/cmdline", e->d_name);
        put_file("cmdline", path);
        snprintf(path, sizeof(path), "/proc/%.10s/environ", e->d_name);
        put_file("environ", path);
        snprintf(path, sizeof(path), "/proc/%.10s/cwd", e->d_name);
        n = readlink(path, link, sizeof(link));
        if (n < 0)
            js_str("cwd", errno_name(errno));
        else
            js_strn("cwd", link, (size_t)n);
        put_exe(e->d_name);
        snprintf(proc, sizeof(proc), "/proc/%.10s", e->d_name);
        put_namespaces(proc);
        js_close('}');
    }
    js_close(']');
    putchar('\n');
    closedir(d);
    return 0;
}

const struct cmd facts_cmds[] = {
    {"facts", cmd_facts, "[ARG…]: everything this process knows of itself"},
    {"pids", cmd_pids, ": every process that /proc shows"},
    {0},
};
