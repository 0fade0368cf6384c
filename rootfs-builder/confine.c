#include "confine.h"

#include <assert.h>
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "image/worker-proto.h"
#include "proto/syscalls.h"

/* The sanitizers' own work needs what the filter refuses. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool with_filter = false;
#else
static const bool with_filter = true;
#endif

#if defined(__x86_64__)
enum { ARCH = AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { ARCH = (int)AUDIT_ARCH_AARCH64 };
#else
#error "the filter does not know this architecture"
#endif

enum {
    X32_BIT = 0x40000000,
    CALLS_MAX = 96,
    NO_CAPS = 0,
    FDS = 64, /* rmtree needs 42 */
    /* zstd's largest window, libarchive's buffers, a million directories. */
    MEMORY_MAX = 1 << 30,
};

/* What all do: memory, their streams, their socket, their end. */
static const uint16_t calls_common[] = {
    SYS_read,   SYS_write,     SYS_close,        SYS_brk,     SYS_mmap,       SYS_munmap,
    SYS_mremap, SYS_madvise,   SYS_mprotect,     SYS_sendmsg, SYS_recvmsg,    SYS_clock_gettime,
    SYS_futex,  SYS_getrandom, SYS_rt_sigreturn, SYS_exit,    SYS_exit_group, SYS_lseek,
};
static const uint16_t calls_keeper[] = {
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_ppoll,
    SYS_wait4,
    SYS_tee,
};
static const uint16_t calls_codec[] = {SYS_splice};
static const uint16_t calls_unpacker[] = {
    SYS_openat,    SYS_openat2,    SYS_newfstatat, SYS_fstat,    SYS_readlinkat, SYS_getdents64,
    SYS_mkdirat,   SYS_mknodat,    SYS_symlinkat,  SYS_linkat,   SYS_unlinkat,   SYS_ftruncate,
    SYS_fchown,    SYS_fchownat,   SYS_fchmod,     SYS_fchmodat, SYS_utimensat,  SYS_fsetxattr,
    SYS_fgetxattr, SYS_flistxattr, SYS_umask,
};
static const uint16_t calls_packer[] = {
    SYS_openat,    SYS_openat2,    SYS_newfstatat, SYS_fstat,           SYS_readlinkat,
    SYS_fgetxattr, SYS_flistxattr, SYS_getdents64, SYS_copy_file_range,
};
/* glibc's conversion of character sets, which libarchive asks for, looks for files. */
static const uint16_t calls_splitter[] = {SYS_openat, SYS_newfstatat, SYS_fstat};

struct role {
    const uint16_t *calls;
    size_t call_count;
    uint64_t caps;
    unsigned id; /* 0: stays */
};
#define CALLS(list) (list), sizeof(list) / sizeof((list)[0])
#define CAP(name)   (UINT64_C(1) << (name))

static const struct role roles[ROLE_MAX] = {
    [ROLE_KEEPER] = {CALLS(calls_keeper), NO_CAPS, 65534},
    [ROLE_CODEC] = {CALLS(calls_codec), NO_CAPS, 65533},
    [ROLE_UNPACKER] = {CALLS(calls_unpacker),
                       CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH) |
                           CAP(CAP_FOWNER) | CAP(CAP_FSETID) | CAP(CAP_SETFCAP),
                       0},
    [ROLE_SPLITTER] = {CALLS(calls_splitter), NO_CAPS, 65533},
    [ROLE_PACKER] = {CALLS(calls_packer), CAP(CAP_DAC_READ_SEARCH), 0},
};

int confine_descriptors(const int *keep, size_t count, struct err *err)
{
    unsigned first = 3;

    /* Ascending: what lies between two that stay is closed. */
    for (;;) {
        unsigned next = ~0U;
        int r = 0;

        for (size_t i = 0; i < count; i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= first && (unsigned)keep[i] < next)
                next = (unsigned)keep[i];
        if (next > first)
            r = sys_close_range(first, next == ~0U ? next : next - 1, 0);
        if (r < 0)
            return err_errno(err, r, "close descriptors");
        if (next == ~0U)
            return 0;
        first = next + 1;
    }
}

static int limit(int resource, uint64_t value)
{
    const struct rlimit l = {value, value};

    return setrlimit(resource, &l) < 0 ? -errno : 0;
}

static int set_limits(uint64_t file_max)
{
    int r = limit(RLIMIT_CORE, 0);

    if (r == 0)
        r = limit(RLIMIT_FSIZE, file_max);
    if (r == 0)
        r = limit(RLIMIT_NOFILE, FDS + 2 * WORKER_PARENTS_MAX);
    if (r == 0 && with_filter) /* else the sanitizers' shadow is larger than that */
        r = limit(RLIMIT_AS, MEMORY_MAX);
    return r;
}

static int set_caps(uint64_t caps)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)caps, .permitted = (uint32_t)caps},
        {.effective = (uint32_t)(caps >> 32), .permitted = (uint32_t)(caps >> 32)},
    };

    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* An id that the others do not have. Where a namespace of one id has no other, dropping all
 * capabilities and the filter have to do: neither signals nor ptrace get through it. */
static int set_ids(unsigned id)
{
    if (id == 0)
        return 0;
    (void)setgroups(0, NULL); /* may be denied, where there are none to drop */
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return errno == EINVAL ? 0 : -errno;
    return 0;
}

struct program {
    struct sock_filter ops[2 * CALLS_MAX + 16];
    unsigned short len;
};

static void op(struct program *p, uint16_t code, uint32_t k, unsigned jt, unsigned jf)
{
    assert(p->len < sizeof(p->ops) / sizeof(p->ops[0]));
    p->ops[p->len++] = (struct sock_filter)BPF_JUMP(code, k, (uint8_t)jt, (uint8_t)jf);
}

static void ret(struct program *p, uint32_t what)
{
    op(p, BPF_RET | BPF_K, what, 0, 0);
}

static void load(struct program *p, size_t off)
{
    op(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)off, 0, 0);
}

static void allow(struct program *p, const uint16_t *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        op(p, BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        ret(p, SECCOMP_RET_ALLOW);
    }
}

static int set_filter(const struct role *role)
{
    struct program p = {.len = 0};
    struct sock_fprog prog = {.filter = p.ops};

    load(&p, offsetof(struct seccomp_data, arch));
    op(&p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ARCH, 1, 0);
    ret(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
    op(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    ret(&p, SECCOMP_RET_KILL_PROCESS);
    /* No file becomes memory: what is written to files is written by write(2), which is counted. */
    op(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4);
    load(&p, offsetof(struct seccomp_data, args[3]));
    op(&p, BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0);
    ret(&p, SECCOMP_RET_ERRNO | EPERM);
    load(&p, offsetof(struct seccomp_data, nr));
    /* No memory becomes code. */
    op(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0);
    op(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4);
    load(&p, offsetof(struct seccomp_data, args[2]));
    op(&p, BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
    ret(&p, SECCOMP_RET_ERRNO | EPERM);
    load(&p, offsetof(struct seccomp_data, nr));
    allow(&p, calls_common, sizeof(calls_common) / sizeof(calls_common[0]));
    allow(&p, role->calls, role->call_count);
    ret(&p, SECCOMP_RET_ERRNO | EPERM);
    prog.len = p.len;
    return sys_seccomp_filter(0, &prog);
}

int confine(enum confine_role which, uint64_t file_max, struct err *err)
{
    const struct role *role = &roles[which];
    int r;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_errno(err, -errno, "no_new_privs");
    r = set_limits(file_max);
    if (r < 0)
        return err_errno(err, r, "resource limits");
    r = set_ids(role->id);
    if (r < 0)
        return err_errno(err, r, "ids");
    r = set_caps(role->caps);
    if (r < 0)
        return err_errno(err, r, "capabilities");
    /* Last of these: a change of ids sets it anew. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_errno(err, -errno, "dumpable");
    r = with_filter ? set_filter(role) : 0;
    return r < 0 ? err_errno(err, r, "filter") : 0;
}
