/*
 * The path from a fork of init (or from the waiting inner PID 1) to the user's program. The process
 * is inside every namespace already, but still has all rights of the sandbox's root. Names and
 * files of the image are read here, because a bug in reading them gains no more than the program
 * gets anyway.
 *
 * A step returns 0 or a positive errno, a call of raw.h a result or -errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <linux/stat.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/exec-once.h"
#include "init/init.h"
#include "init/raw.h"
#include "proto/syscalls.h"
#include "proto/userdb.h"

/*
 * This process may share init's memory (spawn-vm.c), so names whose use would write there are
 * removed.
 */
#undef errno
#pragma GCC poison errno syscall open openat read write close fcntl mmap malloc _exit

enum {
    EXEC_PATH_MAX = 4096,
    HOME_ENTRY_MAX = USERDB_HOME_MAX + 8,
};

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct exec_child {
    const struct plan *plan;
    const struct exec_start *start;
    int status_fd, program_fd;
    const struct exec_header *header;
    const struct plan_rlimit *rlimits;
    char **argv, **envp, **groups;
    const char *user, *cwd;
    int cwd_error; /* of step_cwd_as_root; 0: the directory is the one asked for */
    struct userdb_identity who;
    struct exec_arena *arena, own_arena;
    uint64_t secret; /* sixth argument of execve (exec-once.h); 0 without PLAN_NO_EXEC */
    char home[HOME_ENTRY_MAX];
};

/* Converts the result of a system call into a step's result. */
static int raw_error(long r)
{
    return r < 0 ? (int)-r : 0;
}

static _Noreturn void exec_leave(void)
{
    for (;;)
        (void)RAW(SYS_exit_group, 127);
}

static _Noreturn void exec_fail(const struct exec_child *e, enum exec_step step, int error)
{
    struct exec_failure failure = {.step = step, .error = error};

    (void)RAW(SYS_write, e->status_fd, RAW_PTR(&failure), sizeof(failure));
    exec_leave();
}

/* ---- memory ---- */

/* Uses init's arena (spawn-vm.c) if there is one, else maps memory. */
static int arena_open(struct exec_child *e)
{
    long r;

    if (e->start->arena != NULL) {
        e->arena = e->start->arena;
        return 0;
    }
    r = RAW(SYS_mmap, 0, EXEC_ARENA_SIZE, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r < 0 && r > -4096)
        return raw_error(r);
    (void)RAW(SYS_madvise, r, EXEC_ARENA_SIZE, MADV_NOHUGEPAGE); /* avoids zeroing a huge page */
    e->own_arena.base = (unsigned char *)r;
    e->arena = &e->own_arena;
    return 0;
}

/* Allocates from the arena: not zeroed, aligned for every type; NULL when there is no room. Never
 * freed. */
static void *arena_take(struct exec_child *e, size_t size)
{
    struct exec_arena *a = e->arena;
    size_t at = a->used;

    if (size > EXEC_ARENA_SIZE - at)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    a->used = size > EXEC_ARENA_SIZE - at ? EXEC_ARENA_SIZE : at + size;
    return a->base + at;
}

static int fd_read_whole(int fd, void *to, size_t len)
{
    size_t done = 0;

    while (done < len) {
        long n = RAW(SYS_pread64, fd, RAW_PTR((char *)to + done), (long)(len - done), (long)done);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? raw_error(n) : EPROTO;
        done += (size_t)n;
    }
    return 0;
}

/* ---- the request ---- */

/* A seal keeps the size that init has checked. */
static int step_request(struct exec_child *e)
{
    size_t size = e->start->request_size;
    struct exec_strings strings;
    char *base, **list;
    int r;

    r = arena_open(e);
    if (r != 0)
        return r;
    base = arena_take(e, size);
    if (base == NULL)
        return E2BIG;
    r = fd_read_whole(e->start->request_fd, base, size);
    if (r != 0)
        return r;
    r = exec_request_header(base, size, &e->header);
    if (r < 0)
        return -r;
    e->rlimits = (const struct plan_rlimit *)(void *)(base + sizeof(*e->header));
    list = arena_take(e, EXEC_LIST(e->header) * sizeof(char *));
    if (list == NULL)
        return E2BIG;
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

static int step_stdio(struct exec_child *e)
{
    long fds[5] = {e->start->stdio[0], e->start->stdio[1], e->start->stdio[2], e->status_fd,
                   e->start->program_fd};
    int count = e->start->program_fd >= 0 ? 5 : 4;

    /* First to high numbers, then into place. */
    for (int i = 0; i < count; i++) {
        if (fds[i] < count)
            fds[i] = RAW(SYS_fcntl, fds[i], F_DUPFD_CLOEXEC, 10);
        if (fds[i] < 0)
            return raw_error(fds[i]);
    }
    for (int i = 0; i < count; i++) {
        long r = RAW(SYS_dup3, fds[i], i, i < 3 ? 0 : O_CLOEXEC);

        if (r < 0)
            return raw_error(r);
    }
    e->status_fd = 3;
    e->program_fd = count == 5 ? 4 : -1;
    return raw_error(RAW(SYS_close_range, count, ~0U, 0));
}

static int step_session(struct exec_child *e)
{
    const uint64_t none = 0; /* signal set with the kernel's size */
    long r;

    r = RAW(SYS_rt_sigprocmask, SIG_SETMASK, RAW_PTR(&none), 0, sizeof(none));
    if (r == 0)
        r = RAW(SYS_setsid);
    if (r > 0 && (e->start->flags & IMSG_TTY) != 0)
        r = RAW(SYS_ioctl, 0, TIOCSCTTY, 0);
    return raw_error(r);
}

/* ---- user and groups ---- */

static int arena_read_file(struct exec_child *e, int fd, const char **ret, size_t *ret_len)
{
    struct statx st;
    long n;
    char *text;

    n = RAW(SYS_statx, fd, RAW_PTR(""), AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, RAW_PTR(&st));
    if (n < 0 || !S_ISREG(st.stx_mode) || st.stx_size > EXEC_FILE_MAX)
        return EINVAL;
    text = arena_take(e, (size_t)st.stx_size);
    if (text == NULL)
        return E2BIG;
    n = RAW(SYS_read, fd, RAW_PTR(text), (long)st.stx_size);
    if (n < 0)
        return raw_error(n);
    *ret = text;
    *ret_len = (size_t)n;
    return 0;
}

static long open_inside(const char *path, unsigned flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    long fd = -EAGAIN;

    for (int tries = 0; tries < OPENAT2_TRIES && (fd == -EAGAIN || fd == -EINTR); tries++)
        fd = RAW(SYS_openat2, AT_FDCWD, RAW_PTR(path), RAW_PTR(&how), sizeof(how));
    return fd;
}

/* Reads a file of the image, resolved inside its root and bounded. A missing file is empty. */
static int arena_read_inside(struct exec_child *e, const char *path, const char **ret,
                             size_t *ret_len)
{
    long fd;
    int r;

    *ret = "";
    *ret_len = 0;
    fd = open_inside(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    if (fd < 0)
        return raw_error(fd);
    r = arena_read_file(e, (int)fd, ret, ret_len);
    (void)RAW(SYS_close, fd);
    return r;
}

/*
 * True for a helper whose user is given as a number. It needs no file of the sandbox, which
 * processes may have changed.
 */
static bool helper_by_number(const struct exec_child *e, const struct userdb_spec *spec)
{
    return (e->start->flags & IMSG_HELPER) != 0 && spec->user[0] == '\0' && spec->group[0] == '\0';
}

static int step_user(struct exec_child *e)
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
        r = arena_read_inside(e, "/etc/passwd", &passwd, &passwd_len);
        if (r == 0)
            r = arena_read_inside(e, "/etc/group", &group, &group_len);
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

static int step_groups(struct exec_child *e)
{
    const char *text;
    size_t len;
    int r;

    if (e->groups[0] == NULL)
        return 0;
    r = arena_read_inside(e, "/etc/group", &text, &len);
    for (char **g = e->groups; r == 0 && *g != NULL; g++)
        r = -userdb_add_group(&e->who, *g, text, len);
    return r;
}

/*
 * Programs reopen /dev/stdout and others through /proc as the user, so the pipes must belong to the
 * user. init has made them as root. Without a pipe stdin is the null device, which every user may
 * open.
 */
static int step_own_stdio(struct exec_child *e)
{
    int first = (e->start->flags & (IMSG_STDIN | IMSG_TTY)) != 0 ? 0 : 1;

    for (int i = first; i < 3 && e->who.uid != 0; i++)
        (void)RAW(SYS_fchown, i, (long)e->who.uid, -1); /* fails for other fds */
    return 0;
}

/* ---- rights ---- */

/* The kernel's struct rlimit64. */
struct limit {
    uint64_t soft, hard;
};

static int set_rlimits(const struct plan_rlimit *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct limit now, want = {.soft = list[i].soft, .hard = list[i].hard};
        long r = RAW(SYS_prlimit64, 0, list[i].resource, 0, RAW_PTR(&now));

        if (want.hard > now.hard)
            want.hard = now.hard;
        if (want.soft > want.hard)
            want.soft = want.hard;
        if (r == 0 && (want.soft != now.soft || want.hard != now.hard))
            r = RAW(SYS_prlimit64, 0, list[i].resource, RAW_PTR(&want), 0);
        if (r < 0)
            return raw_error(r);
    }
    return 0;
}

static int step_rlimit(struct exec_child *e)
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

    return raw_error(RAW(SYS_capset, RAW_PTR(&header), RAW_PTR(data)));
}

static int get_permitted_caps(uint64_t *ret)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.permitted = 0}};
    long r = RAW(SYS_capget, RAW_PTR(&header), RAW_PTR(data));

    *ret = (uint64_t)data[1].permitted << 32 | data[0].permitted;
    return raw_error(r);
}

/* Raw system calls change this thread only; a libc would change other threads, too. */
static int step_ids(struct exec_child *e)
{
    const uint32_t uid = e->who.uid, gid = e->who.gid;
    long r;

    r = RAW(SYS_setgroups, (long)e->who.group_count, RAW_PTR(e->who.groups));
    if (r == 0)
        r = RAW(SYS_setresgid, gid, gid, gid);
    /*
     * Keeps capabilities over the change of ids, because a filter without no_new_privs needs
     * CAP_SYS_ADMIN. execve drops all of them for users other than root.
     */
    if (r == 0)
        r = RAW(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (r == 0)
        r = RAW(SYS_setresuid, uid, uid, uid);
    /*
     * A change of ids sets the dumpable flag from the host's fs.suid_dumpable. It is cleared before
     * capabilities are dropped. Until then processes with the same ids and fewer capabilities may
     * not trace this one.
     */
    if (r == 0)
        r = RAW(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    return raw_error(r);
}

/*
 * Root keeps the capabilities of the bounding set, other users none. SYS_ADMIN stays for one more
 * step if the filter needs it.
 */
static int step_capabilities(struct exec_child *e)
{
    const uint64_t admin = 1ULL << CAP_SYS_ADMIN;
    uint64_t keep = e->who.uid == 0 ? e->plan->header->capabilities : 0;
    uint64_t extra = (e->plan->header->flags & PLAN_NO_NEW_PRIVS) ? 0 : admin;

    return exec_set_caps(keep | extra, keep | extra);
}

/* ---- working directory and cgroup ---- */

static long open_dir_inside(const char *path)
{
    return open_inside(path, O_PATH | O_DIRECTORY);
}

/*
 * Creates missing components of the working directory, in opened parents. Links of the image are
 * followed, but never out of its root.
 */
static long make_cwd(const char *path)
{
    char part[EXEC_PATH_MAX];
    size_t len = strlen(path);
    long parent, fd;

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
            fd = RAW(SYS_mkdirat, parent, RAW_PTR(part + at), 0755);
            if (fd == 0 || fd == -EEXIST)
                fd = open_dir_inside(part);
        }
        (void)RAW(SYS_close, parent);
        parent = fd;
        at = end;
    }
    return parent;
}

static int step_make_cwd(struct exec_child *e)
{
    long fd;

    if ((e->start->flags & IMSG_MAKE_CWD) == 0)
        return 0;
    fd = make_cwd(e->cwd);
    if (fd < 0)
        return raw_error(fd);
    (void)RAW(SYS_close, fd);
    return 0;
}

/* Changes the directory with the rights that this process has now. Magic links of /proc, which
 * could lead out of the root, are not followed. */
static int enter_cwd(const struct exec_child *e)
{
    char buffer[EXEC_PATH_MAX];
    long fd, r;

    fd = open_dir_inside(e->cwd);
    if (fd < 0)
        return raw_error(fd);
    r = RAW(SYS_fchdir, fd);
    (void)RAW(SYS_close, fd);
    if (r == 0 && (RAW(SYS_getcwd, RAW_PTR(buffer), sizeof(buffer)) < 0 || buffer[0] != '/'))
        r = -ENOENT; /* getcwd has returned "(unreachable)" */
    return raw_error(r);
}

/*
 * Changes the directory as root, so that another user may be started in a directory that only root
 * may enter, as with runc. Root has no more capabilities here than the policy gives to root's
 * processes. The process gets a working directory by this and no fd: each use of it is checked
 * against the user's rights.
 */
static int step_cwd_as_root(struct exec_child *e)
{
    uint64_t all;
    int r = get_permitted_caps(&all);

    if (r == 0)
        r = exec_set_caps(all, all & e->plan->header->capabilities);
    if (r != 0)
        return r;
    e->cwd_error = enter_cwd(e);
    return exec_set_caps(all, all);
}

/* Changes the directory as the user where root could not: a file system may give rights to that
 * user alone. */
static int step_cwd(struct exec_child *e)
{
    return e->cwd_error != 0 ? enter_cwd(e) : 0;
}

/*
 * Makes a cgroup namespace whose root is the exec's own v2 cgroup. /proc/self/cgroup is then "/".
 * Programs that append that path to /sys/fs/cgroup (Go, Node, the JDK) find the sandbox's limits
 * there; the exec's own directory lacks them. If no more namespaces may be made, the process sees
 * its path below init's.
 *
 * Skipped if a policy grants CAP_SYS_ADMIN. The new namespace belongs to the locked user namespace,
 * where that capability would allow writable mounts of its cgroup file systems.
 */
static int step_cgroup_namespace(struct exec_child *e)
{
    const struct plan_header *h = e->plan->header;

    if ((h->flags & PLAN_HAS_CGROUP) && (h->capabilities & 1ULL << CAP_SYS_ADMIN) == 0)
        (void)RAW(SYS_unshare, CLONE_NEWCGROUP);
    return 0;
}

static long install_filter(const struct exec_child *e, uint32_t count, uint32_t offset)
{
    enum { SET_MODE_FILTER = 1 };
    struct sock_fprog prog = {.len = (unsigned short)count,
                              .filter = (struct sock_filter *)(uintptr_t)(e->plan->base + offset)};

    return count == 0 ? 0 : RAW(SYS_seccomp, SET_MODE_FILTER, 0, RAW_PTR(&prog));
}

/* Installs the filter that lets no execve through but this process's own. */
static long install_exec_once(struct exec_child *e)
{
    enum { SET_MODE_FILTER = 1 };
    struct sock_filter insns[EXEC_ONCE_MAX];
    struct sock_fprog prog = {.filter = insns};
    long r = RAW(SYS_getrandom, RAW_PTR(&e->secret), sizeof(e->secret), 0);

    if (r != (long)sizeof(e->secret))
        return r < 0 ? r : -EIO;
    prog.len = (unsigned short)exec_once_build(insns, e->secret);
    return RAW(SYS_seccomp, SET_MODE_FILTER, 0, RAW_PTR(&prog));
}

/* The policy's filter comes last: it may forbid further filters. */
static int step_seccomp(struct exec_child *e)
{
    const struct plan_header *h = e->plan->header;
    long r = 0;

    if (h->flags & PLAN_NO_NEW_PRIVS)
        r = RAW(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (r == 0)
        r = install_filter(e, h->guard_count, h->guard);
    if (r == 0 && (h->flags & PLAN_NO_EXEC) != 0)
        r = install_exec_once(e);
    if (r == 0)
        r = install_filter(e, h->policy_count, h->policy);
    return raw_error(r);
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

static void env_add_home(struct exec_child *e)
{
    if (env_get(e->envp, "HOME") != NULL)
        return;
    struct text home = text_begin(e->home, sizeof(e->home));

    text_add_str(&home, "HOME=");
    text_add_str(&home, e->who.home);
    e->envp[e->header->envc] = e->home;
}

static int exec_run(const struct exec_child *e, const char *path)
{
    return raw_error(
        RAW(SYS_execve, RAW_PTR(path), RAW_PTR(e->argv), RAW_PTR(e->envp), 0, 0, (long)e->secret));
}

/* As execvp(3), but scripts without "#!" are left to the shell. The most specific error wins. */
static int exec_search_path(struct exec_child *e)
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
            int this = exec_run(e, full);

            if (this != ENOENT && this != ENOTDIR)
                error = this;
            if (this != ENOENT && this != ENOTDIR && this != EACCES)
                return error;
        }
        if (path[len] == '\0')
            return error;
        path += len + 1;
    }
}

static int step_execve(struct exec_child *e)
{
    env_add_home(e);
    if (e->program_fd >= 0)
        return raw_error(RAW(SYS_execveat, e->program_fd, RAW_PTR(""), RAW_PTR(e->argv),
                             RAW_PTR(e->envp), AT_EMPTY_PATH, (long)e->secret));
    if (e->argv[0][0] == '\0')
        return ENOENT;
    if (strchr(e->argv[0], '/') == NULL)
        return exec_search_path(e);
    return exec_run(e, e->argv[0]);
}

/* clang-format off */
static const struct {
    enum exec_step step;
    int (*run)(struct exec_child *); /* 0 or a positive errno */
} steps[] = {
    {EXEC_STEP_REQUEST,      step_request},
    {EXEC_STEP_CGROUP,       step_cgroup_namespace},
    {EXEC_STEP_STDIO,        step_stdio},
    {EXEC_STEP_SESSION,      step_session},
    {EXEC_STEP_USER,         step_user},
    {EXEC_STEP_GROUP,        step_groups},
    {EXEC_STEP_STDIO,        step_own_stdio},
    {EXEC_STEP_CWD,          step_make_cwd},
    {EXEC_STEP_CWD,          step_cwd_as_root},
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
    struct exec_child e = {.plan = plan, .start = start, .status_fd = start->status_fd};

    /*
     * Tracing a process that is not dumpable, or writing its memory, takes rights in the user
     * namespace in which init was executed. No process inside has them.
     */
    (void)RAW(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int error = steps[i].run(&e);

        if (error != 0)
            exec_fail(&e, steps[i].step, error);
    }
    exec_fail(&e, EXEC_STEP_EXECVE, EIO);
}
