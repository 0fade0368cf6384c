/*
 * From a fork of init (or the waiting inner PID 1) to the user's program. This process is already
 * inside every namespace, but still has all of the sandbox root's rights: names and files of the
 * image are read here, because a mistake in reading them reaches no further than what the program
 * gets anyway.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/init.h"
#include "proto/syscalls.h"
#include "proto/userdb.h"

enum {
    USERDB_FILE_MAX = 1 << 20, /* bytes of the image's passwd and of its group file */
    EXEC_PATH_MAX = 4096,
    HOME_ENTRY_MAX = USERDB_HOME_MAX + 8,
};

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct exec {
    const struct plan *plan;
    const struct exec_start *start;
    int status_fd, program_fd;
    const struct exec_header *header;
    const struct plan_rlimit *rlimits;
    char **argv, **envp, **groups;
    const char *user, *cwd;
    struct userdb_identity who;
    char home[HOME_ENTRY_MAX];
};

static _Noreturn void exec_fail(const struct exec *e, enum exec_step step, int error)
{
    struct exec_failure failure = {.step = step, .error = error};

    (void)!write(e->status_fd, &failure, sizeof(failure));
    _exit(127);
}

/* ---- the request ---- */

static int step_request(struct exec *e)
{
    struct exec_strings strings;
    struct stat st;
    char *base, **list;
    int r;

    if (fstat(e->start->request_fd, &st) < 0)
        return errno;
    if (st.st_size <= 0 || st.st_size > EXEC_SIZE_MAX)
        return EPROTO;
    base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, e->start->request_fd,
                0);
    if (base == MAP_FAILED)
        return errno;
    r = exec_request_header(base, (size_t)st.st_size, &e->header);
    if (r < 0)
        return -r;
    e->rlimits = (const struct plan_rlimit *)(void *)(base + sizeof(*e->header));
    list = mmap(NULL, EXEC_LIST(e->header) * sizeof(char *), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED)
        return errno;
    r = exec_request_strings(base, e->header, list, &strings);
    if (r < 0)
        return -r;
    e->argv = strings.argv;
    e->envp = strings.envp;
    e->user = strings.user;
    e->cwd = strings.cwd;
    e->groups = strings.groups;
    return 0;
}

/* ---- stdio and session ---- */

static int step_stdio(struct exec *e)
{
    int fds[5] = {e->start->stdio[0], e->start->stdio[1], e->start->stdio[2], e->status_fd,
                  e->start->program_fd};
    int count = e->start->program_fd >= 0 ? 5 : 4;

    /* Out of the way of 0 to 2 first, then into place. */
    for (int i = 0; i < count; i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 10);
        if (fds[i] < 0)
            return errno;
    }
    for (int i = 0; i < 3; i++)
        if (dup2(fds[i], i) < 0)
            return errno;
    for (int i = 3; i < count; i++)
        if (dup2(fds[i], i) < 0 || fcntl(i, F_SETFD, FD_CLOEXEC) < 0)
            return errno;
    e->status_fd = 3;
    e->program_fd = count == 5 ? 4 : -1;
    return -sys_close_range((unsigned)count, ~0U, 0);
}

static int step_session(struct exec *e)
{
    sigset_t none;

    (void)sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return errno;
    if (setsid() < 0)
        return errno;
    if ((e->start->flags & IMSG_TTY) && ioctl(0, TIOCSCTTY, 0) < 0)
        return errno;
    return 0;
}

/* ---- who it is ---- */

/* A file of the image, resolved inside and bounded. A missing one is empty. */
static int read_inside(const char *path, const char **ret, size_t *ret_len)
{
    struct stat st;
    char *text;
    ssize_t n;
    int fd;

    *ret = "";
    *ret_len = 0;
    fd = sys_openat2(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0,
                     RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    if (fd < 0)
        return -fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > USERDB_FILE_MAX) {
        (void)close(fd);
        return EINVAL;
    }
    if (st.st_size > 0) {
        text = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
        n = text == MAP_FAILED ? -1 : read(fd, text, (size_t)st.st_size);
        if (n < 0) {
            int error = errno;

            (void)close(fd);
            return error;
        }
        *ret = text;
        *ret_len = (size_t)n;
    }
    (void)close(fd);
    return 0;
}

/* A helper that is asked for by number needs no file of the sandbox's, which may be anything by
 * now. */
static bool helper_by_number(const struct exec *e, const struct userdb_spec *spec)
{
    return (e->start->flags & IMSG_HELPER) != 0 && spec->user[0] == '\0' && spec->group[0] == '\0';
}

static int step_user(struct exec *e)
{
    struct userdb_spec spec;
    const char *passwd, *group;
    size_t passwd_len, group_len;
    int r;

    if (userdb_parse(e->user, &spec, NULL) < 0)
        return EINVAL;
    if (helper_by_number(e, &spec)) {
        passwd = group = "";
        passwd_len = group_len = 0;
        r = 0;
    } else {
        r = read_inside("/etc/passwd", &passwd, &passwd_len);
        if (r == 0)
            r = read_inside("/etc/group", &group, &group_len);
    }
    if (r != 0)
        return r;
    r = userdb_resolve(&spec, passwd, passwd_len, group, group_len, &e->who, NULL);
    if (r < 0)
        return -r;
    if (e->who.uid > 65535 || e->who.gid > 65535)
        return ERANGE; /* the sandbox has ids 0 to 65535 */
    return 0;
}

static int step_groups(struct exec *e)
{
    const char *text;
    size_t len;
    int r;

    if (e->groups[0] == NULL)
        return 0;
    r = read_inside("/etc/group", &text, &len);
    for (char **g = e->groups; r == 0 && *g != NULL; g++)
        r = -userdb_add_group(&e->who, *g, text, len);
    return r;
}

/* /dev/stdout and the like are opened anew through /proc, as the user: they must be the user's. */
static int step_own_stdio(struct exec *e)
{
    struct stat st;

    for (int i = 0; i < 3; i++)
        if (fstat(i, &st) == 0 && !(S_ISCHR(st.st_mode) && (e->start->flags & IMSG_TTY) == 0))
            (void)!fchown(i, e->who.uid, (gid_t)-1); /* ours, or it stays as it is */
    return 0;
}

/* ---- rights ---- */

static int set_rlimits(const struct plan_rlimit *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct rlimit now, want = {.rlim_cur = list[i].soft, .rlim_max = list[i].hard};

        if (getrlimit((int)list[i].resource, &now) < 0)
            return errno;
        if (want.rlim_max > now.rlim_max)
            want.rlim_max = now.rlim_max;
        if (want.rlim_cur > want.rlim_max)
            want.rlim_cur = want.rlim_max;
        if (setrlimit((int)list[i].resource, &want) < 0)
            return errno;
    }
    return 0;
}

static int step_rlimit(struct exec *e)
{
    int r = set_rlimits(e->plan->rlimits, e->plan->header->rlimit_count);

    return r != 0 ? r : set_rlimits(e->rlimits, e->header->rlimit_count);
}

int exec_set_caps(uint64_t permitted, uint64_t effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.permitted = (uint32_t)permitted, .effective = (uint32_t)effective},
        {.permitted = (uint32_t)(permitted >> 32), .effective = (uint32_t)(effective >> 32)},
    };

    return syscall(SYS_capset, &header, data) < 0 ? errno : 0;
}

static int step_ids(struct exec *e)
{
    gid_t groups[USERDB_GROUPS_MAX];

    for (size_t i = 0; i < e->who.group_count; i++)
        groups[i] = e->who.groups[i];
    if (setgroups(e->who.group_count, groups) < 0)
        return errno;
    if (setresgid(e->who.gid, e->who.gid, e->who.gid) < 0)
        return errno;
    /* Kept over the change: without no_new_privs a filter needs CAP_SYS_ADMIN. execve takes all of
     * them from everybody but root. */
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return errno;
    if (setresuid(e->who.uid, e->who.uid, e->who.uid) < 0)
        return errno;
    return 0;
}

/* Root keeps what the bounding set allows, anybody else nothing; SYS_ADMIN stays for one more step
 * where the filter needs it. */
static int step_capabilities(struct exec *e)
{
    const uint64_t admin = 1ULL << CAP_SYS_ADMIN;
    uint64_t keep = e->who.uid == 0 ? e->plan->header->capabilities : 0;
    uint64_t extra = (e->plan->header->flags & PLAN_NO_NEW_PRIVS) ? 0 : admin;

    return exec_set_caps(keep | extra, keep | extra);
}

/* ---- where it runs ---- */

static int open_dir_inside(const char *path)
{
    return sys_openat2(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* Makes what is missing of the working directory, beneath opened parents, through the image's links
 * but never out of its root. */
static int make_cwd(const char *path)
{
    char part[EXEC_PATH_MAX];
    size_t len = strlen(path);
    int parent, fd;

    fd = open_dir_inside(path);
    if (fd != -ENOENT)
        return fd;
    if (len >= sizeof(part))
        return -ENAMETOOLONG;
    if (path[0] != '/')
        return -EINVAL;

    parent = open_dir_inside("/");
    for (size_t at = strspn(path, "/"); parent >= 0 && at < len; at += strspn(path + at, "/")) {
        size_t end = at + strcspn(path + at, "/");

        (void)memcpy(part, path, end);
        part[end] = '\0';
        fd = open_dir_inside(part);
        if (fd == -ENOENT) {
            if (mkdirat(parent, part + at, 0755) < 0 && errno != EEXIST)
                fd = -errno;
            else
                fd = open_dir_inside(part);
        }
        (void)close(parent);
        parent = fd;
        at = end;
    }
    return parent;
}

static int step_make_cwd(struct exec *e)
{
    int fd;

    if ((e->start->flags & IMSG_MAKE_CWD) == 0)
        return 0;
    fd = make_cwd(e->cwd);
    if (fd < 0)
        return -fd;
    (void)close(fd);
    return 0;
}

/* As the user; never through /proc's links, which could lead out of the root. */
static int step_cwd(struct exec *e)
{
    char buffer[EXEC_PATH_MAX];
    int fd, error = 0;

    fd = open_dir_inside(e->cwd);
    if (fd < 0)
        return -fd;
    if (fchdir(fd) < 0)
        error = errno;
    (void)close(fd);
    if (error == 0 && (syscall(SYS_getcwd, buffer, sizeof(buffer)) < 0 || buffer[0] != '/'))
        error = ENOENT; /* "(unreachable)" */
    return error;
}

static int step_seccomp(struct exec *e)
{
    const struct plan_header *h = e->plan->header;
    struct sock_fprog prog = {.len = (unsigned short)h->policy_count,
                              .filter =
                                  (struct sock_filter *)(uintptr_t)(e->plan->base + h->policy)};

    if ((h->flags & PLAN_NO_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errno;
    if (h->policy_count == 0)
        return 0;
    return -sys_seccomp_filter(0, &prog);
}

/* ---- execve ---- */

static const char *env_get(char **envp, const char *name)
{
    size_t len = strlen(name);

    for (; *envp != NULL; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

static void add_home(struct exec *e)
{
    if (env_get(e->envp, "HOME") != NULL)
        return;
    struct text home = text_begin(e->home, sizeof(e->home));

    text_add_str(&home, "HOME=");
    text_add_str(&home, e->who.home);
    e->envp[e->header->envc] = e->home;
}

/* As execvp(3), but for scripts without "#!", which are the shell's business. The most telling
 * error wins. */
static int search_path(struct exec *e)
{
    const char *path = env_get(e->envp, "PATH");
    char full[EXEC_PATH_MAX];
    int error = ENOENT;

    if (path == NULL)
        path = default_path;
    for (;;) {
        size_t len = strcspn(path, ":");
        struct text t = text_begin(full, sizeof(full));

        text_add(&t, path, len);
        text_add_str(&t, len > 0 ? "/" : "./");
        text_add_str(&t, e->argv[0]);
        if (!t.full) {
            (void)execve(full, e->argv, e->envp);
            if (errno != ENOENT && errno != ENOTDIR)
                error = errno;
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
                return error;
        }
        if (path[len] == '\0')
            return error;
        path += len + 1;
    }
}

static int step_execve(struct exec *e)
{
    add_home(e);
    if (e->program_fd >= 0)
        return -sys_execveat(e->program_fd, "", e->argv, e->envp, AT_EMPTY_PATH);
    if (e->argv[0][0] == '\0')
        return ENOENT;
    if (strchr(e->argv[0], '/') == NULL)
        return search_path(e);
    (void)execve(e->argv[0], e->argv, e->envp);
    return errno;
}

/* clang-format off */
static const struct {
    enum exec_step step;
    int (*run)(struct exec *); /* 0 or a positive errno */
} steps[] = {
    {EXEC_STEP_REQUEST,      step_request},
    {EXEC_STEP_STDIO,        step_stdio},
    {EXEC_STEP_SESSION,      step_session},
    {EXEC_STEP_USER,         step_user},
    {EXEC_STEP_GROUP,        step_groups},
    {EXEC_STEP_STDIO,        step_own_stdio},
    {EXEC_STEP_CWD,          step_make_cwd},
    {EXEC_STEP_RLIMIT,       step_rlimit},
    {EXEC_STEP_IDS,          step_ids},
    {EXEC_STEP_CAPABILITIES, step_capabilities},
    {EXEC_STEP_CWD,          step_cwd},
    {EXEC_STEP_SECCOMP,      step_seccomp},
    {EXEC_STEP_EXECVE,       step_execve},
};
/* clang-format on */

void exec_child(const struct plan *plan, const struct exec_start *start)
{
    static struct exec e;

    /* Processes inside, whatever their capabilities there, neither trace this one nor write to its
     * memory: that takes rights in the user namespace in which init was executed. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    e.plan = plan;
    e.start = start;
    e.status_fd = start->status_fd;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int error = steps[i].run(&e);

        if (error != 0)
            exec_fail(&e, steps[i].step, error);
    }
    exec_fail(&e, EXEC_STEP_EXECVE, EIO);
}
