/*
 * The functions that carry out the checks. Most run one probe and map its errno by one rule
 * (doctor_judge). The others have a function here, which may replace the row's fix by a better one.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "base/number.h"
#include "base/strtab.h"
#include "doctor/doctor-internal.h"
#include "launch/cgroup.h"
#include "launch/host-view.h"
#include "launch/idrange.h"
#include "net/net.h"
#include "policy/policy.h"
#include "sandbox/paths.h"
#include "sandbox/subids.h"
#include "sys/users.h"

#define FILTER_FIX                                                                                 \
    "start the container around rind with --security-opt seccomp=unconfined, or --privileged"
#define READ_ONLY_FIX                                                                              \
    "start the container around rind with a writable /sys/fs/cgroup (--privileged)"
#define CAPS_FIX "start what rind runs in with all capabilities (docker run --privileged)"

enum {
    KERNEL_MAJOR = 5, /* overlay on idmapped lower layers */
    KERNEL_MINOR = 19,
    SUBID_FILE_MAX = 4 << 20, /* largest /etc/subuid read, in bytes */
    SYSCTL_MAX = 64,
    STATUS_MAX = 8192, /* bytes of /proc/self/status; the kernel gives a page at most */
    USERNS_PER_SANDBOX = 2,
    USERNS_FEW = 256, /* user namespaces below which a busy host may run out */
    POOL_FEW = 64,    /* free id ranges below which the check warns */
};

/* ---- helpers ---- */

__attribute__((format(printf, 3, 4))) static void
set_found(struct check_result *r, enum check_state state, const char *fmt, ...)
{
    va_list ap;

    r->state = state;
    va_start(ap, fmt);
    (void)vsnprintf(r->found, sizeof(r->found), fmt, ap);
    va_end(ap);
}

static void set_fix(struct check_result *r, const char *text)
{
    (void)snprintf(r->fix, sizeof(r->fix), "%s", text);
}

/* -ENOENT when the sysctl does not exist. */
static int read_sysctl(const char *path, long *ret)
{
    char text[SYSCTL_MAX];
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return n < 0 ? -errno : -ENODATA;
    text[n] = '\0';
    *ret = strtol(text, NULL, 10);
    return 0;
}

/* A refusal is conclusive only for a caller with CAP_SYS_ADMIN or uid 0. */
static void judge_refused(int code, const struct doctor_caller *who, struct check_result *r)
{
    const char *why = strerror(-code);

    if (!who->privileged && !who->root) {
        set_found(r, CHECK_UNKNOWN, "only root can find out: %s%s", why,
                  who->filtered ? "; a seccomp filter is in force here" : "");
    } else if (who->filtered) {
        set_found(r, CHECK_MISSING, "refused: %s; a seccomp filter is in force here", why);
        set_fix(r, FILTER_FIX);
    } else if (!who->privileged) {
        set_found(r, CHECK_MISSING, "refused: %s; this root lacks CAP_SYS_ADMIN", why);
        set_fix(r, CAPS_FIX);
    } else {
        set_found(r, CHECK_MISSING, "refused: %s", why);
    }
}

/* ENOSYS on a kernel new enough to have the call comes from a seccomp filter. */
static void judge_no_call(int code, const struct doctor_caller *who, struct check_result *r)
{
    if (!who->filtered) {
        set_found(r, CHECK_MISSING, "the kernel does not have it: %s", strerror(-code));
        return;
    }
    set_found(r, CHECK_MISSING,
              who->kernel_is_new
                  ? "a seccomp filter refuses it: %s"
                  : "a seccomp filter refuses it, or the kernel does not have it: %s",
              strerror(-code));
    set_fix(r, FILTER_FIX);
}

void doctor_judge(int code, const struct doctor_caller *who, struct check_result *r)
{
    switch (-code) {
    case ENOSYS:
        judge_no_call(code, who, r);
        return;
    case EINVAL:
    case ENODEV:
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case EAFNOSUPPORT:
    case ENOENT:
        set_found(r, CHECK_MISSING, "the kernel does not have it: %s", strerror(-code));
        return;
    case ENOSPC:
    case EUSERS:
        set_found(r, CHECK_MISSING, "a limit of this host is reached: %s", strerror(-code));
        return;
    case EPERM:
    case EACCES:
        judge_refused(code, who, r);
        return;
    case ETIMEDOUT:
        set_found(r, CHECK_UNKNOWN, "no answer within %d s", PROBE_TIMEOUT_MS / 1000);
        return;
    default:
        if (code >= 0)
            set_found(r, CHECK_OK, "works");
        else
            set_found(r, CHECK_MISSING, "%s", strerror(-code));
    }
}

static int try_probe(const struct doctor *d, const struct check *c)
{
    struct probe_env env = d->env;

    env.number = c->number;
    env.text = c->text;
    return probe_try(c->probe, &env, PROBE_TIMEOUT_MS);
}

void ask_probe(const struct doctor *d, const struct check *c, struct check_result *r)
{
    doctor_judge(try_probe(d, c), &d->who, r);
}

/* Core scheduling: without a second thread in use there is nothing to keep apart. */
void ask_core_sched(const struct doctor *d, const struct check *c, struct check_result *r)
{
    int code = try_probe(d, c);

    if (code == -ENODEV)
        set_found(r, CHECK_OK, "no core has two threads in use");
    else
        doctor_judge(code, &d->who, r);
}

/* ---- host and user namespaces ---- */

/* -ENODATA: the kernel's release string cannot be parsed. */
static int kernel_is_new(struct utsname *ret)
{
    const char *at = ret->release;
    int64_t major = -1, minor = -1;

    if (uname(ret) == 0) {
        major = number_take(&at, NUMBER_DIGITS_MAX);
        if (major >= 0 && *at++ == '.')
            minor = number_take(&at, NUMBER_DIGITS_MAX);
    }
    if (minor < 0)
        return -ENODATA;
    return major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
}

void ask_kernel(const struct doctor *d, const struct check *c, struct check_result *r)
{
    struct utsname u;
    int is_new = kernel_is_new(&u);

    (void)d;
    (void)c;
    if (is_new < 0)
        set_found(r, CHECK_UNKNOWN, "cannot be read");
    else
        set_found(r, is_new > 0 ? CHECK_OK : CHECK_MISSING, "Linux %.64s %.32s", u.release,
                  u.machine);
}

/* True if a seccomp filter (mode 2 in /proc/self/status) is in force on this process. */
static bool is_filtered(void)
{
    char text[STATUS_MAX];
    auto_close int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (n <= 0)
        return false;
    text[n] = '\0';
    return strstr(text, "\nSeccomp:\t2\n") != NULL;
}

void doctor_look_at_caller(struct doctor_caller *ret)
{
    struct utsname u;

    *ret = (struct doctor_caller){.privileged = probe_privileged(),
                                  .root = geteuid() == 0,
                                  .filtered = is_filtered(),
                                  .kernel_is_new = kernel_is_new(&u) > 0};
}

/* clang-format off */
static const struct {
    int cap;
    bool needed; /* false: rind uses the capability only if it has it */
    const char *name;
} used_caps[] = {
    { CAP_CHOWN,        true,  "CAP_CHOWN",
    },
    { CAP_DAC_OVERRIDE, true,  "CAP_DAC_OVERRIDE",
    },
    { CAP_FOWNER,       true,  "CAP_FOWNER",
    },
    { CAP_KILL,         true,  "CAP_KILL",
    },
    { CAP_SETGID,       true,  "CAP_SETGID",
    },
    { CAP_SETUID,       true,  "CAP_SETUID",
    },
    { CAP_SETPCAP,      true,  "CAP_SETPCAP",
    },
    { CAP_NET_ADMIN,    true,  "CAP_NET_ADMIN",
    },
    { CAP_SYS_CHROOT,   true,  "CAP_SYS_CHROOT",
    },
    { CAP_SYS_ADMIN,    true,  "CAP_SYS_ADMIN",
    },
    { CAP_SYS_PTRACE,   true,  "CAP_SYS_PTRACE", /* to open the user namespace of a sandbox */
    },
    { CAP_MKNOD,        true,  "CAP_MKNOD",
    },
    { CAP_SYS_RESOURCE, false, "CAP_SYS_RESOURCE" }, /* to raise hard limits above rind's own */
};
/* clang-format on */

static bool has_cap(cap_t caps, int cap)
{
    cap_flag_value_t value = CAP_CLEAR;

    return caps != NULL && cap_get_flag(caps, cap, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
}

void ask_privileges(const struct doctor *d, const struct check *c, struct check_result *r)
{
    enum check_state state = CHECK_OK;
    char missing[DOCTOR_FOUND_MAX - 32] = "";
    cap_t caps = cap_get_proc();

    (void)d;
    (void)c;
    for (size_t i = 0; i < sizeof(used_caps) / sizeof(used_caps[0]); i++) {
        size_t len = strlen(missing);

        if (has_cap(caps, used_caps[i].cap))
            continue;
        if (state != CHECK_MISSING)
            state = used_caps[i].needed ? CHECK_MISSING : CHECK_LIMITED;
        (void)snprintf(missing + len, sizeof(missing) - len, " %s", used_caps[i].name);
    }
    if (caps != NULL)
        (void)cap_free(caps);

    if (state == CHECK_OK)
        set_found(r, CHECK_OK, "uid %u with every capability that rind uses", (unsigned)geteuid());
    else if (geteuid() != 0)
        set_found(r, state, "uid %u is not root", (unsigned)geteuid());
    else
        set_found(r, state, "root without%s", missing);
    if (geteuid() == 0)
        set_fix(r, CAPS_FIX);
    if (state == CHECK_LIMITED)
        r->without = "resource limits cannot be raised above rind's own";
}

void ask_userns_limit(const struct doctor *d, const struct check *c, struct check_result *r)
{
    long max;

    (void)d;
    (void)c;
    if (read_sysctl("/proc/sys/user/max_user_namespaces", &max) < 0)
        set_found(r, CHECK_UNKNOWN, "user.max_user_namespaces cannot be read");
    else if (max < USERNS_PER_SANDBOX)
        set_found(r, CHECK_MISSING, "user.max_user_namespaces is %ld", max);
    else
        set_found(r, max < USERNS_FEW ? CHECK_LIMITED : CHECK_OK,
                  "user.max_user_namespaces is %ld: %ld sandboxes", max, max / USERNS_PER_SANDBOX);
}

static bool sysctl_is(const char *path, long want)
{
    long value;

    return read_sysctl(path, &value) == 0 && value == want;
}

void ask_user_drop(const struct doctor *d, const struct check *c, struct check_result *r)
{
    struct doctor_caller who = d->who;
    struct check own = *c;
    int code;

    /* Root probes under another user's id; other users probe under their own. */
    own.probe = d->env.privileged ? probe_user_drop : probe_namespace;
    code = try_probe(d, &own);
    who.privileged = true; /* the answer is about users, and is known */
    doctor_judge(code, &who, r);
    if (code == -EACCES)
        set_found(r, CHECK_LIMITED, "the namespace can be had, but no capability in it");
    if (code == -EINVAL && d->env.privileged)
        set_found(r, CHECK_UNKNOWN, "there is no other user in this user namespace to ask as");
    /* A restrictive sysctl has a remedy of its own, which replaces the row's fix. */
    if (sysctl_is(APPARMOR_SYSCTL, 1))
        set_fix(r, doctor_checks[CHECK_USERNS_APPARMOR].fix);
    else if (sysctl_is(CLONE_SYSCTL, 0))
        set_fix(r, doctor_checks[CHECK_USERNS_SYSCTL].fix);
}

/* Checks a sysctl that some distributions add. number: the permissive value; text: its path. */
void ask_userns_sysctl(const struct doctor *d, const struct check *c, struct check_result *r)
{
    long value;
    int code = read_sysctl(c->text, &value);

    (void)d;
    if (code == -ENOENT)
        set_found(r, CHECK_OK, "this kernel has no such restriction");
    else if (code < 0)
        set_found(r, CHECK_UNKNOWN, "cannot be read: %s", strerror(-code));
    else
        set_found(r, value == c->number ? CHECK_OK : CHECK_LIMITED, "set to %ld", value);
}

/* ---- ids ---- */

static int read_subids(const char *path, char **ret, size_t *ret_len)
{
    return file_read_at(AT_FDCWD, path, SUBID_FILE_MAX, ret, ret_len, NULL);
}

/* Marks the ranges of the pool that overlap subordinate ids granted by this file. */
static int pool_taken(const char *path, bool taken[static IDRANGE_COUNT])
{
    auto_free char *text = NULL;
    auto_free struct idrange_avoid *avoid = NULL;
    size_t len = 0, count = 0;
    int r;

    r = read_subids(path, &text, &len);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return r;
    r = idrange_parse_subids(text, len, &avoid, &count);
    if (r < 0)
        return r;
    for (size_t i = 0; avoid != NULL && i < count; i++) {
        for (int64_t n = 0; n < IDRANGE_COUNT; n++) {
            int64_t first = IDRANGE_FIRST + n * IDRANGE_SIZE;

            if (avoid[i].first < first + IDRANGE_SIZE && avoid[i].last >= first)
                taken[n] = true;
        }
    }
    return 0;
}

/*
 * Marks the ranges registered under CORE_IDS_DIR. False: the directory exists but cannot be read.
 */
static bool pool_in_use(bool taken[static IDRANGE_COUNT])
{
    auto_ptr(dir_close) DIR *d = dir_open(AT_FDCWD, CORE_IDS_DIR);
    const struct dirent *e;

    if (d == NULL)
        return errno == ENOENT;
    while (d != NULL && (e = dir_next(d)) != NULL) {
        char *end;
        long long base = strtoll(e->d_name, &end, 10);
        long long n = (base - IDRANGE_FIRST) / IDRANGE_SIZE;

        if (*end == '\0' && base >= IDRANGE_FIRST && n < IDRANGE_COUNT)
            taken[n] = true;
    }
    return true;
}

void ask_id_pool(const struct doctor *d, const struct check *c, struct check_result *r)
{
    bool taken[IDRANGE_COUNT] = {false}, known;
    int code, left = 0;

    (void)d;
    (void)c;
    code = pool_taken("/etc/subuid", taken);
    if (code == 0)
        code = pool_taken("/etc/subgid", taken);
    if (code < 0) {
        set_found(r, CHECK_UNKNOWN, "/etc/subuid or /etc/subgid cannot be read: %s",
                  strerror(-code));
        return;
    }
    known = pool_in_use(taken);
    for (int n = 0; n < IDRANGE_COUNT; n++)
        left += !taken[n];
    if (!known) {
        set_found(r, CHECK_UNKNOWN, "only root can see which of its %d ranges are in use",
                  IDRANGE_COUNT);
        return;
    }
    set_found(r,
              left == 0         ? CHECK_MISSING
              : left < POOL_FEW ? CHECK_LIMITED
                                : CHECK_OK,
              "%d of %d ranges of %d ids are free", left, IDRANGE_COUNT, IDRANGE_SIZE);
}

/* Owns the texts that a struct subid_texts borrows. */
struct subid_files {
    char *subuid, *subgid, *passwd, *group;
    struct subid_texts texts;
};

static void subid_files_done(struct subid_files *f)
{
    free(f->subuid);
    free(f->subgid);
    free(f->passwd);
    free(f->group);
}

/* A missing file counts as empty. */
static int read_if_there(const char *path, char **ret, size_t *ret_len)
{
    int r = read_subids(path, ret, ret_len);

    return r == -ENOENT ? 0 : r;
}

static int subid_files_read(struct subid_files *f, struct err *err)
{
    struct subid_texts *t = &f->texts;
    int r = read_if_there("/etc/subuid", &f->subuid, &t->subuid_len);

    if (r == 0)
        r = read_if_there("/etc/subgid", &f->subgid, &t->subgid_len);
    if (r == 0)
        r = read_if_there("/etc/passwd", &f->passwd, &t->passwd_len);
    if (r == 0)
        r = read_if_there("/etc/group", &f->group, &t->group_len);
    t->subuid = f->subuid;
    t->subgid = f->subgid;
    t->passwd = f->passwd;
    t->group = f->group;
    return r < 0 ? err_errno(err, r, "/etc/subuid, subgid, passwd, or group") : 0;
}

/* Writes "--del-subuids FIRST-LAST " if another user has been granted the range as well. */
static void put_del(char *text, size_t size, const char *option, const struct subid_range *range)
{
    text[0] = '\0';
    if (range->other[0] != '\0')
        (void)snprintf(text, size, "%s %u-%llu ", option, (unsigned)range->first,
                       (unsigned long long)range->first + range->count - 1);
}

static void propose_subids(const struct subid_texts *t, const char *name,
                           const struct subid_range *uids, const struct subid_range *gids,
                           struct check_result *r)
{
    char del_uids[48], del_gids[48];
    struct err err = ERR_NONE;
    uint32_t first, last;

    if (subids_free(t, &first, &err) < 0) {
        (void)snprintf(r->fix, sizeof(r->fix), "%.*s", DOCTOR_FIX_MAX - 1, err.msg);
        return;
    }
    last = first + (SUBIDS_COUNT - 1);
    put_del(del_uids, sizeof(del_uids), "--del-subuids", uids);
    put_del(del_gids, sizeof(del_gids), "--del-subgids", gids);
    if (name[0] != '\0')
        (void)snprintf(r->fix, sizeof(r->fix),
                       "usermod %s%s--add-subuids %u-%u --add-subgids %u-%u %.64s", del_uids,
                       del_gids, (unsigned)first, (unsigned)last, (unsigned)first, (unsigned)last,
                       name);
}

static void judge_subids(const struct subid_range *uids, const struct subid_range *gids,
                         struct check_result *r)
{
    const struct subid_range *shared = uids->other[0] != '\0' ? uids : gids;

    if (shared->other[0] != '\0')
        set_found(r, CHECK_LIMITED,
                  "%u-%llu overlaps what %s has: each reaches the other's processes",
                  (unsigned)shared->first, (unsigned long long)shared->first + shared->count - 1,
                  shared->other);
    else
        set_found(r,
                  uids->count >= SUBIDS_COUNT && gids->count >= SUBIDS_COUNT ? CHECK_OK
                  : uids->count > 0 && gids->count > 0                       ? CHECK_LIMITED
                                                                             : CHECK_MISSING,
                  "%llu user ids, %llu group ids", (unsigned long long)uids->count,
                  (unsigned long long)gids->count);
}

void ask_subids(const struct doctor *d, const struct check *c, struct check_result *r)
{
    uid_t uid = geteuid();
    struct subid_files f = {.subuid = NULL};
    struct subid_range uids, gids;
    struct err err = ERR_NONE;
    char name[64 + 1];

    (void)c;
    if (d->env.privileged || uid == 0) {
        set_found(r, CHECK_OK, "root needs none: ranges come from rind's own pool");
        return;
    }
    if (subid_files_read(&f, &err) < 0) {
        set_found(r, CHECK_UNKNOWN, "%.*s", DOCTOR_FOUND_MAX - 1, err.msg);
    } else {
        host_user_name(uid, name, sizeof(name));
        subids_of(f.texts.subuid, f.texts.subuid_len, name, uid, &uids);
        subids_of(f.texts.subgid, f.texts.subgid_len, name, uid, &gids);
        judge_subids(&uids, &gids, r);
        if (r->state != CHECK_OK)
            propose_subids(&f.texts, name, &uids, &gids, r);
    }
    subid_files_done(&f);
}

/* ---- system calls ---- */

void ask_libseccomp(const struct doctor *d, const struct check *c, struct check_result *r)
{
    const struct scmp_version *v = seccomp_version();

    (void)d;
    (void)c;
    if (v == NULL)
        set_found(r, CHECK_UNKNOWN, "says no version");
    else
        /* 2.5.0: binary search trees, without which a profile costs each call three times more. */
        set_found(r, v->major > 2 || (v->major == 2 && v->minor >= 5) ? CHECK_OK : CHECK_LIMITED,
                  "%u.%u.%u", v->major, v->minor, v->micro);
}

void ask_memfd(const struct doctor *d, const struct check *c, struct check_result *r)
{
    struct doctor_caller who = d->who;
    long value = 0;
    int code = try_probe(d, c);

    who.privileged = true; /* any user can find out */
    doctor_judge(code, &who, r);
    if (code == -ENOSYS)
        return;
    if (read_sysctl("/proc/sys/vm/memfd_noexec", &value) == 0 && code < 0)
        set_found(r, CHECK_MISSING, "vm.memfd_noexec is %ld: %s", value, strerror(-code));
    else if (code >= 0)
        set_found(r, CHECK_OK, "works; vm.memfd_noexec is %ld", value);
}

/* ---- mounts ---- */

/* Values of linux/magic.h, and of file systems that have no header. */
static const struct {
    unsigned long magic;
    const char *name;
} file_systems[] = {
    {0xEF53, "ext4"},
    {0x58465342, "xfs"},
    {0x9123683E, "btrfs"},
    {0x01021994, "tmpfs"},
    {0x858458f6, "ramfs"},
    {0x794c7630, "overlay"},
    {0x6969, "nfs"},
    {0x65735546, "fuse"},
    {0xF2F52010, "f2fs"},
    {0x2FC12FC1, "zfs"},
    {0xCA451A4E, "bcachefs"},
    {0x01021997, "9p"},
    {0xFF534D42, "cifs"},
    {0x4d44, "vfat"},
    {0x2011BAB0, "exfat"},
    {0x73717368, "squashfs"},
    {0, NULL},
};

static const char *file_system_name(const char *dir, char *buf, size_t len)
{
    struct statfs s;

    if (statfs(dir, &s) < 0)
        return "unknown";
    for (size_t i = 0; file_systems[i].name != NULL; i++)
        if (file_systems[i].magic == (unsigned long)s.f_type)
            return file_systems[i].name;
    (void)snprintf(buf, len, "type %#lx", (unsigned long)s.f_type);
    return buf;
}

void ask_state_dir(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char buf[32];
    const char *name = file_system_name(d->env.dir, buf, sizeof(buf));

    (void)c;
    if (d->scratch == NULL && d->env.privileged)
        set_found(r, CHECK_MISSING, "%.96s (%s): %s", d->env.dir, name,
                  strerror(-d->scratch_errno));
    else if (d->scratch == NULL)
        set_found(r, CHECK_UNKNOWN, "%.96s (%s): not this user's", d->env.dir, name);
    else
        set_found(r, CHECK_OK, "%.96s (%s)", d->env.dir, name);
}

void ask_overlay(const struct doctor *d, const struct check *c, struct check_result *r)
{
    struct doctor_caller who = d->who;
    struct doctor here = *d;
    int code;

    if (d->scratch == NULL) {
        set_found(r, CHECK_UNKNOWN, "no directory to try it in: %s", strerror(-d->scratch_errno));
        return;
    }
    here.env.dir = d->scratch;
    code = try_probe(&here, c);
    who.privileged = who.privileged || c->probe == probe_overlay_user;
    doctor_judge(code, &who, r);
    if (code == -EINVAL)
        set_found(r, CHECK_MISSING, "this file system cannot be part of it: %s", strerror(EINVAL));
}

void ask_idmap(const struct doctor *d, const struct check *c, struct check_result *r)
{
    int code = try_probe(d, c);

    doctor_judge(code, &d->who, r);
    if (code == -EINVAL)
        set_found(r, CHECK_MISSING, "this file system cannot be idmapped: %s", strerror(EINVAL));
}

/* The root file system `host` needs an idmapped mount of the host's / as an overlay layer. */
void ask_host_rootfs(const struct doctor *d, const struct check *c, struct check_result *r)
{
    static const char usr[] = "/usr";
    struct doctor here = *d;

    here.env.dir = "/";
    ask_idmap(&here, c, r);
    if (r->state == CHECK_OK && host_tree_check(usr) < 0)
        set_found(r, CHECK_MISSING, "%s: %s", usr, doctor_tree_state(usr));
}

void ask_proc(const struct doctor *d, const struct check *c, struct check_result *r)
{
    const struct probe_env user = {.privileged = d->env.privileged, .number = CLONE_NEWUSER};
    struct doctor_caller who = d->who;
    int code = try_probe(d, c);

    who.privileged = true; /* any user can find out */
    doctor_judge(code, &who, r);
    /*
     * Without user namespaces the probe fails before it tries the mount, so EPERM would not be
     * about the mount.
     */
    if (code == -EPERM && probe_try(probe_namespace, &user, PROBE_TIMEOUT_MS) == 0)
        set_found(r, CHECK_MISSING,
                  "parts of this host's own are hidden: rind runs in a container");
}

/* ---- cgroups ---- */

static const struct strtab cgroup_modes[] = {
    {"no cgroups are mounted", CG_MODE_NONE},
    {"v1", CG_MODE_V1},
    {"hybrid: v1 controllers beside a v2 tree", CG_MODE_HYBRID},
    {"v2", CG_MODE_V2},
    {NULL, 0},
};

static bool cgroup_known(const struct doctor *d, struct check_result *r)
{
    if (d->cgroup != NULL)
        return true;
    set_found(r, CHECK_UNKNOWN, "%.160s", d->cgroup_error);
    return false;
}

static void judge_read_only(struct check_result *r)
{
    set_found(r, CHECK_MISSING, "mounted read-only");
    set_fix(r, READ_ONLY_FIX);
}

void ask_cgroup_mode(const struct doctor *d, const struct check *c, struct check_result *r)
{
    enum cgroup_mode mode;
    const char *name;

    (void)c;
    if (!cgroup_known(d, r))
        return;
    mode = cgroup_host_mode(d->cgroup);
    name = strtab_name(cgroup_modes, (int)mode);
    if (mode == CG_MODE_NONE && cgroup_host_read_only(d->cgroup)) {
        judge_read_only(r);
        return;
    }
    set_found(r, mode == CG_MODE_NONE ? CHECK_MISSING : CHECK_OK, "%s", name != NULL ? name : "?");
}

void doctor_fix_cgroup(int code, const struct doctor_caller *who, struct check_result *r)
{
    if (code == -EROFS)
        set_fix(r, READ_ONLY_FIX);
    else if ((code == -EPERM || code == -EACCES) && !who->root)
        set_fix(r, doctor_checks[CHECK_PRIVILEGES].fix);
}

/*
 * Creates and removes a cgroup: on a read-write mount the files may still belong to another user.
 */
static void judge_writable(const struct doctor *d, enum cgroup_controller controller,
                           const char *works, struct check_result *r)
{
    struct err err = ERR_NONE;
    int code = cgroup_host_try(d->cgroup, controller, &err);

    if (code == 0) {
        set_found(r, CHECK_OK, "%s", works);
        return;
    }
    set_found(r, CHECK_MISSING, "%.*s", DOCTOR_FOUND_MAX - 1, err.msg);
    doctor_fix_cgroup(code, &d->who, r);
}

void ask_cgroup_v2(const struct doctor *d, const struct check *c, struct check_result *r)
{
    enum cgroup_mode mode;

    (void)c;
    if (!cgroup_known(d, r))
        return;
    mode = cgroup_host_mode(d->cgroup);
    if (mode == CG_MODE_V2 || mode == CG_MODE_HYBRID)
        judge_writable(d, CG_FREEZER, "mounted", r); /* every v2 hierarchy has the freezer */
    else if (cgroup_host_read_only_v2(d->cgroup))
        judge_read_only(r);
    else
        set_found(r, CHECK_MISSING, "not mounted");
}

/* number: the controller. */
void ask_controller(const struct doctor *d, const struct check *c, struct check_result *r)
{
    enum cgroup_controller controller = (enum cgroup_controller)c->number;
    const char *name = cgroup_controller_name(controller);
    int version;

    if (!cgroup_known(d, r))
        return;
    version = cgroup_host_controller(d->cgroup, controller);
    if (version > 0) {
        judge_writable(d, controller, version == 2 ? "by cgroup v2" : "by cgroup v1", r);
        return;
    }
    if (cgroup_host_controller_read_only(d->cgroup, controller)) {
        judge_read_only(r);
        return;
    }
    set_found(r, CHECK_MISSING, "cannot be enforced");
    if (cgroup_host_mode(d->cgroup) == CG_MODE_V2)
        (void)snprintf(r->fix, sizeof(r->fix), "echo +%s > /sys/fs/cgroup/cgroup.subtree_control",
                       name);
    else if (cgroup_host_mode(d->cgroup) == CG_MODE_NONE)
        set_fix(r, doctor_checks[CHECK_CGROUP_MODE].fix);
    else
        (void)snprintf(r->fix, sizeof(r->fix),
                       "mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup "
                       "/sys/fs/cgroup/%s",
                       name, name, name);
}

/* ---- network ---- */

void ask_forwarding(const struct doctor *d, const struct check *c, struct check_result *r)
{
    long value;

    (void)d;
    (void)c;
    if (read_sysctl("/proc/sys/net/ipv4/ip_forward", &value) < 0)
        set_found(r, CHECK_UNKNOWN, "net.ipv4.ip_forward cannot be read");
    else
        set_found(r, CHECK_OK,
                  value != 0 ? "on"
                             : "off; rind switches it on for the one interface "
                               "that leads out, while a sandbox needs it");
}

void ask_forward_drop(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char chain[DOCTOR_FOUND_MAX / 2];
    int n = net_foreign_drop(chain, sizeof(chain), NULL);

    (void)d;
    (void)c;
    if (n < 0)
        set_found(r, CHECK_UNKNOWN, "the rules of others cannot be read: %s", strerror(-n));
    else if (n == 1)
        set_found(
            r, CHECK_LIMITED,
            "the chain \"%s\" lets no forwarded packets pass but those that a rule of its accepts",
            chain);
    else
        set_found(r, CHECK_OK, "no other chain drops or rejects what is forwarded");
}

void ask_closed_links(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char name[NET_LINK_MAX] = "";
    struct err err = ERR_NONE;
    int n = net_count_closed(name, &err);

    (void)d;
    (void)c;
    if (n < 0)
        set_found(r, CHECK_UNKNOWN, "the links cannot be read: %s", err.msg);
    else if (n > 0)
        set_found(r, CHECK_LIMITED, "%d closed, as %s", n, name);
    else
        set_found(r, CHECK_OK, "none");
}
