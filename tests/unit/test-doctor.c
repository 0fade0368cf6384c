#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/sched.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "doctor/doctor-internal.h"
#include "doctor/doctor.h"
#include "launch/idrange.h"
#include "sys/probe.h"
#include "tap.h"

/* ---- the table ---- */

TEST(each_check_has_a_row)
{
    for (size_t i = 0; i < CHECK_ID_MAX; i++) {
        const struct check *c = &doctor_checks[i];

        CHECK(c->name != NULL && c->title != NULL && c->group != NULL && c->ask != NULL);
        CHECK(c->without != NULL && c->without[0] != '\0');
        /* A controller's remedy depends on the kind of hierarchy. */
        CHECK((c->fix != NULL && c->fix[0] != '\0') || c->ask == ask_controller);
        CHECK(c->ask != ask_probe || c->probe != NULL);
        CHECK(c->fix == NULL || strlen(c->fix) < DOCTOR_FIX_MAX);
        for (size_t j = 0; j < i && c->name != NULL; j++)
            CHECK(doctor_checks[j].name == NULL || strcmp(c->name, doctor_checks[j].name) != 0);
        if (tap_failed)
            printf("# row %zu\n", i);
    }
}

TEST(groups_stand_together)
{
    size_t changes = 0, groups = 0;

    for (size_t i = 0; i < CHECK_ID_MAX; i++) {
        bool seen = false;

        for (size_t j = 0; j < i; j++)
            seen = seen || strcmp(doctor_checks[j].group, doctor_checks[i].group) == 0;
        groups += !seen;
        changes += i == 0 || strcmp(doctor_checks[i - 1].group, doctor_checks[i].group) != 0;
    }
    CHECK_INT(changes, groups);
}

TEST(state_names)
{
    for (int s = CHECK_INVALID + 1; s < CHECK_STATE_MAX; s++)
        CHECK(check_state_name((enum check_state)s) != NULL);
    CHECK(check_state_name(CHECK_INVALID) == NULL);
    CHECK(check_state_name(CHECK_STATE_MAX) == NULL);
}

TEST(findings_are_judged)
{
    /* clang-format off */
    static const struct doctor_caller root = { .privileged = true, .root = true, .kernel_is_new = true },
        user = { .kernel_is_new = true }, poor_root = { .root = true, .kernel_is_new = true },
        filtered_root = { .privileged = true, .root = true, .filtered = true, .kernel_is_new = true },
        filtered_old = { .privileged = true, .root = true, .filtered = true },
        filtered_user = { .filtered = true, .kernel_is_new = true };
    static const struct {
        int code;
        const struct doctor_caller *who;
        enum check_state state;
        const char *found, *fix; /* parts of them; NULL: any, and no fix of its own */
    } rows[] = {
        {0, &root, CHECK_OK, NULL, NULL},
        {7, &filtered_root, CHECK_OK, NULL, NULL},
        {-ENOSYS, &root, CHECK_MISSING, "the kernel does not have it", NULL},
        {-ENOSYS, &filtered_root, CHECK_MISSING, "a seccomp filter refuses it: F", "seccomp=unconfined"},
        {-ENOSYS, &filtered_user, CHECK_MISSING, "a seccomp filter refuses it: F", "seccomp=unconfined"},
        {-ENOSYS, &filtered_old, CHECK_MISSING, "a seccomp filter refuses it, or the kernel", "seccomp=unconfined"},
        {-EINVAL, &user, CHECK_MISSING, "the kernel does not have it", NULL},
        {-ENOSPC, &root, CHECK_MISSING, NULL, NULL},
        {-EPERM, &root, CHECK_MISSING, "refused: ", NULL},
        {-EPERM, &filtered_root, CHECK_MISSING, "a seccomp filter is in force", "seccomp=unconfined"},
        {-EPERM, &poor_root, CHECK_MISSING, "lacks CAP_SYS_ADMIN", "capabilities"},
        {-EPERM, &user, CHECK_UNKNOWN, "only root can find out", NULL},
        {-EPERM, &filtered_user, CHECK_UNKNOWN, "a seccomp filter is in force", NULL},
        {-EACCES, &user, CHECK_UNKNOWN, NULL, NULL},
        {-ETIMEDOUT, &root, CHECK_UNKNOWN, NULL, NULL},
        {-ECHILD, &root, CHECK_MISSING, NULL, NULL},
    };
    /* clang-format on */

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct check_result r = {.state = CHECK_INVALID};

        doctor_judge(rows[i].code, rows[i].who, &r);
        CHECK_INT(r.state, rows[i].state);
        CHECK(r.found[0] != '\0');
        CHECK(rows[i].found == NULL || strstr(r.found, rows[i].found) != NULL);
        CHECK(rows[i].fix == NULL ? r.fix[0] == '\0' : strstr(r.fix, rows[i].fix) != NULL);
        if (tap_failed)
            printf("# row %zu: %s, %s\n", i, r.found, r.fix);
    }
}

TEST(fix_of_cgroups)
{
    static const struct doctor_caller root = {.privileged = true, .root = true}, user = {0};
    static const struct {
        int code;
        const struct doctor_caller *who;
        const char *fix; /* a part of it; NULL: none */
    } rows[] = {
        {-EROFS, &root, "writable /sys/fs/cgroup"},
        {-EROFS, &user, "writable /sys/fs/cgroup"},
        {-EACCES, &user, "sudo"},
        {-EPERM, &user, "sudo"},
        {-EACCES, &root, NULL},
        {-ENOSPC, &root, NULL},
        {-ENOMEM, &user, NULL},
        {-EAGAIN, &root, NULL}, /* cgroup.max.descendants */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct check_result r = {.state = CHECK_MISSING};

        doctor_fix_cgroup(rows[i].code, rows[i].who, &r);
        CHECK(rows[i].fix == NULL ? r.fix[0] == '\0' : strstr(r.fix, rows[i].fix) != NULL);
        if (tap_failed)
            printf("# row %zu: %s\n", i, r.fix);
    }
}

/* ---- the frame of a probe ---- */

static int sleeps(const struct probe_env *env)
{
    const struct timespec long_time = {.tv_sec = 60};

    (void)env;
    if (fork() == 0) /* a grandchild must not outlive it, or hold the answer up */
        (void)nanosleep(&long_time, NULL);
    (void)nanosleep(&long_time, NULL);
    return 0;
}

static int dies(const struct probe_env *env)
{
    (void)env;
    (void)raise(SIGKILL);
    return 0;
}

static int answers(const struct probe_env *env)
{
    return (int)env->number;
}

static int changes(const struct probe_env *env)
{
    (void)env;
    return chdir("/") < 0 || setpgid(0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1
                                                                                             : 0;
}

TEST(probe_frame)
{
    struct probe_env env = {.dir = "/", .number = 42};
    char before[4096], after[4096];
    struct pollfd held;
    int ends[2];

    CHECK_INT(probe_try(answers, &env, PROBE_TIMEOUT_MS), 42);
    CHECK_INT(probe_try(dies, &env, PROBE_TIMEOUT_MS), -ECHILD);

    /* Whoever is left of it holds the pipe's other end. */
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    CHECK_INT(probe_try(sleeps, &env, 50), -ETIMEDOUT);
    (void)close(ends[1]);
    held = (struct pollfd){.fd = ends[0], .events = POLLIN};
    CHECK_INT(poll(&held, 1, PROBE_TIMEOUT_MS), 1);
    CHECK(held.revents & POLLHUP);
    (void)close(ends[0]);

    CHECK(getcwd(before, sizeof(before)) != NULL);
    CHECK_INT(probe_try(changes, &env, PROBE_TIMEOUT_MS), 0);
    CHECK(getcwd(after, sizeof(after)) != NULL);
    CHECK_STR(after, before);
    CHECK_INT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);

    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD); /* no child is left */
}

/* ---- probes notice a kernel that lacks the call ---- */

/* clang-format off */
static const struct {
    int call;
    probe_fn *probe;
    const char *name, *text;
} blocked[] = {
    { SCMP_SYS(openat2),           probe_openat2,     "openat2",           NULL },
    { SCMP_SYS(close_range),       probe_close_range, "close_range",       NULL },
    { SCMP_SYS(pidfd_open),        probe_pidfd,       "pidfd_open",        NULL },
    { SCMP_SYS(pidfd_send_signal), probe_pidfd,       "pidfd_send_signal", NULL },
    { SCMP_SYS(clone3),            probe_pidfd,       "clone3",            NULL },
    { SCMP_SYS(memfd_create),      probe_memfd_exec,  "memfd_create",      NULL },
    { SCMP_SYS(execveat),          probe_memfd_exec,  "execveat",          NULL },
    { SCMP_SYS(seccomp),           probe_seccomp,     "seccomp",           NULL },
    { SCMP_SYS(fsopen),            probe_mount_api,   "fsopen",            NULL },
    { SCMP_SYS(fsmount),           probe_mount_api,   "fsmount",           NULL },
    { SCMP_SYS(mount_setattr),     probe_idmap,       "mount_setattr",     NULL },
    { SCMP_SYS(open_tree),         probe_idmap,       "open_tree",         NULL },
    { SCMP_SYS(unshare),           probe_namespace,   "unshare",           NULL },
    { SCMP_SYS(unshare),           probe_proc,        "unshare",           NULL },
    { SCMP_SYS(unshare),           probe_veth,        "unshare",           NULL },
    { SCMP_SYS(socket),            probe_nftables,    "socket",            NULL },
    { SCMP_SYS(socket),            probe_redirect,    "socket",            NULL },
    { SCMP_SYS(socket),            probe_frames,      "socket",            NULL },
    { SCMP_SYS(fsopen),            probe_disk,        "fsopen",            NULL },
    { SCMP_SYS(setxattr),          probe_xattrs,      "setxattr",          NULL },
    { SCMP_SYS(fsopen),            probe_fs,          "fsopen",            "devpts" },
};
/* clang-format on */

struct blocked_arg {
    int call;
    probe_fn *probe;
};
static struct blocked_arg blocked_now;

static int with_blocked_call(const struct probe_env *env)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

    if (ctx == NULL || seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), blocked_now.call, 0) < 0 ||
        seccomp_load(ctx) < 0)
        return -EBADE; /* none of the expected answers */
    seccomp_release(ctx);
    return blocked_now.probe(env);
}

TEST(missing_calls_are_noticed)
{
    struct probe_env ids = {.dir = "/", .privileged = true, .number = IDRANGE_FIRST};

    if (probe_try(probe_id_map, &ids, PROBE_TIMEOUT_MS) < 0)
        SKIP("needs root, and not that of a user namespace");
    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
        struct probe_env env = {.dir = "/tmp", .privileged = true, .text = blocked[i].text};

        env.number = blocked[i].probe == probe_namespace ? CLONE_NEWUTS : IDRANGE_FIRST;
        blocked_now = (struct blocked_arg){blocked[i].call, blocked[i].probe};
        CHECK_INT(probe_try(with_blocked_call, &env, PROBE_TIMEOUT_MS), -ENOSYS);
        if (tap_failed)
            printf("# %s\n", blocked[i].name);
    }
}

/* ---- the whole ---- */

static char *temp_dir(void)
{
    static char path[] = "/tmp/rind-test-doctor-XXXXXX";

    (void)strcpy(path + strlen(path) - 6, "XXXXXX");
    return mkdtemp(path);
}

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    if (d == NULL)
        return -1;
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

static int count_lines(const char *path)
{
    FILE *f = fopen(path, "re");
    int c, n = 0;

    if (f == NULL)
        return -1;
    while ((c = fgetc(f)) != EOF)
        n += c == '\n';
    (void)fclose(f);
    return n;
}

TEST(leaves_nothing_behind)
{
    int fds = entries("/proc/self/fd"), mounts = count_lines("/proc/self/mountinfo");
    struct doctor_report *r = NULL;
    struct err err = ERR_NONE;
    char *dir = temp_dir();

    CHECK(dir != NULL);
    CHECK_INT(doctor_run(dir, &r, &err), 0);
    CHECK_STR(err.msg, "");
    doctor_free(r);
    CHECK_INT(entries("/proc/self/fd"), fds);
    CHECK_INT(count_lines("/proc/self/mountinfo"), mounts);
    CHECK_INT(rmdir(dir), 0); /* empty */
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

TEST(sweeps_what_a_killed_one_left)
{
    struct doctor_report *r = NULL;
    char *dir = temp_dir(), path[128], file[160], other[128];
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    (void)waitpid(pid, NULL, 0); /* a pid that is nobody's */
    CHECK(dir != NULL);
    (void)snprintf(path, sizeof(path), "%s/.rind-probe-%d", dir, (int)pid);
    (void)snprintf(other, sizeof(other), "%s/.rind-probe-%d", dir, (int)getppid());
    (void)snprintf(file, sizeof(file), "%s/lower", path);
    CHECK(mkdir(path, 0700) == 0 && mkdir(file, 0700) == 0 && mkdir(other, 0700) == 0);
    CHECK_INT(doctor_run(dir, &r, NULL), 0);
    doctor_free(r);
    CHECK(access(path, F_OK) < 0 && errno == ENOENT);
    CHECK_INT(rmdir(other), 0); /* that of a process that lives stays */
    CHECK_INT(rmdir(dir), 0);
}

TEST(report_holds_together)
{
    struct doctor_report *r = NULL;
    bool met = true;
    char *dir = temp_dir();

    CHECK_INT(doctor_run(dir, &r, NULL), 0);
    if (r == NULL)
        return;
    CHECK_INT(r->check_count, CHECK_ID_MAX);
    CHECK(r->barrier_count > 0);
    for (size_t i = 0; i < r->check_count; i++) {
        const struct check_result *c = &r->checks[i];

        CHECK(c->state > CHECK_INVALID && c->state < CHECK_STATE_MAX);
        CHECK(c->found[0] != '\0');
        CHECK((c->state == CHECK_OK) == (c->fix[0] == '\0'));
        if (c->required && (c->state == CHECK_MISSING || c->state == CHECK_UNKNOWN))
            met = false;
        if (tap_failed)
            printf("# %s\n", c->name);
    }
    CHECK_INT(r->met, met);
    for (size_t i = 0; i < r->barrier_count; i++)
        CHECK(r->barriers[i].name != NULL && r->barriers[i].what[0] != '\0');
    if (r->met)
        for (size_t i = 0; i < r->barrier_count; i++)
            CHECK(r->barriers[i].on);
    doctor_free(r);
    (void)rmdir(dir);
}

static const struct barrier_result *barrier_of(const struct doctor_report *r, const char *name)
{
    for (size_t i = 0; i < r->barrier_count; i++)
        if (strcmp(r->barriers[i].name, name) == 0)
            return &r->barriers[i];
    return NULL;
}

/* Nobody can make a directory in /proc: the files barrier and the policy cannot be met. */
TEST(unusable_state_directory)
{
    struct doctor_report *r = NULL;
    const struct barrier_result *files, *calls;

    CHECK_INT(doctor_run("/proc/self/nowhere/rind", &r, NULL), 0);
    if (r == NULL)
        return;
    CHECK(r->checks[CHECK_STATE_DIR].state != CHECK_OK);
    CHECK(strstr(r->checks[CHECK_STATE_DIR].found, "/proc/self") != NULL);
    CHECK_INT(r->checks[CHECK_OVERLAY].state, CHECK_UNKNOWN);
    CHECK(!r->met);
    files = barrier_of(r, "files");
    calls = barrier_of(r, "system-calls");
    CHECK(files != NULL && !files->on);
    CHECK(calls != NULL && (calls->on || r->checks[CHECK_SECCOMP].state != CHECK_OK));
    doctor_free(r);
}

TEST(the_report_is_encoded)
{
    struct doctor_report *r = NULL;
    json_t *j, *checks, *barriers;
    char *dir = temp_dir();

    CHECK_INT(doctor_run(dir, &r, NULL), 0);
    (void)rmdir(dir);
    if (r == NULL)
        return;
    j = doctor_encode(r);
    CHECK(j != NULL);
    checks = json_object_get(j, "checks");
    barriers = json_object_get(j, "barriers");
    CHECK_INT(json_array_size(checks), r->check_count);
    CHECK_INT(json_array_size(barriers), r->barrier_count);
    CHECK_INT(json_is_true(json_object_get(j, "met")), r->met);
    for (size_t i = 0; i < r->check_count; i++) {
        json_t *c = json_array_get(checks, i);

        CHECK_STR(json_string_value(json_object_get(c, "name")), r->checks[i].name);
        CHECK_STR(json_string_value(json_object_get(c, "state")),
                  check_state_name(r->checks[i].state));
        CHECK_STR(json_string_value(json_object_get(c, "found")), r->checks[i].found);
        CHECK_STR(json_string_value(json_object_get(c, "fix")), r->checks[i].fix);
        CHECK_INT(json_is_true(json_object_get(c, "required")), r->checks[i].required);
    }
    json_decref(j);
    doctor_free(r);
}

TAP_MAIN
