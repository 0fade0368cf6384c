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
#include "proto/landlock.h"
#include "proto/syscalls.h"

/* Sanitizers need system calls that the filter refuses. */
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
    /* Enough for zstd's largest window, libarchive's buffers, and a million directories. */
    MEMORY_MAX = 1 << 30,
};

/* Calls of every role: memory, streams, the socket, exit. */
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
/* glibc's iconv, which libarchive calls, tries to open files. */
static const uint16_t calls_splitter[] = {SYS_openat, SYS_newfstatat, SYS_fstat};

struct role {
    const uint16_t *calls;
    size_t call_count;
    uint64_t caps;
    unsigned id;    /* 0: keep the id */
    uint64_t files; /* LOCK_FS_…: what it does below its tree */
};
#define CALLS(list) (list), sizeof(list) / sizeof((list)[0])
#define CAP(name)   (UINT64_C(1) << (name))

/* Character devices: whiteouts. Other devices are left out, and nothing is executed. */
#define FILES_UNPACKER                                                                             \
    (LOCK_FS_READ | LOCK_FS_WRITE_FILE | LOCK_FS_TRUNCATE | LOCK_FS_MAKE_REG | LOCK_FS_MAKE_DIR |  \
     LOCK_FS_MAKE_SYM | LOCK_FS_MAKE_CHAR | LOCK_FS_MAKE_FIFO | LOCK_FS_REMOVE_FILE |              \
     LOCK_FS_REMOVE_DIR | LOCK_FS_REFER)

static const struct role roles[ROLE_MAX] = {
    [ROLE_KEEPER] = {CALLS(calls_keeper), NO_CAPS, 65534, 0},
    [ROLE_CODEC] = {CALLS(calls_codec), NO_CAPS, 65533, 0},
    [ROLE_UNPACKER] = {CALLS(calls_unpacker),
                       CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) | CAP(CAP_DAC_READ_SEARCH) |
                           CAP(CAP_FOWNER) | CAP(CAP_FSETID) | CAP(CAP_SETFCAP),
                       0, FILES_UNPACKER},
    [ROLE_SPLITTER] = {CALLS(calls_splitter), NO_CAPS, 65533, 0},
    [ROLE_PACKER] = {CALLS(calls_packer), CAP(CAP_DAC_READ_SEARCH), 0, LOCK_FS_READ},
};

int confine_descriptors(const int *keep, size_t count, struct err *err)
{
    unsigned first = 3;

    /* Ascending: closes the ranges between the fds that stay. */
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

static int rlimit_set(int resource, uint64_t value)
{
    const struct rlimit l = {value, value};

    return setrlimit(resource, &l) < 0 ? -errno : 0;
}

static int set_limits(uint64_t file_max)
{
    int r = rlimit_set(RLIMIT_CORE, 0);

    if (r == 0)
        r = rlimit_set(RLIMIT_FSIZE, file_max);
    if (r == 0)
        r = rlimit_set(RLIMIT_NOFILE, FDS + 2 * WORKER_PARENTS_MAX);
    if (r == 0 && with_filter) /* the sanitizers' shadow memory is larger */
        r = rlimit_set(RLIMIT_AS, MEMORY_MAX);
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

/* Sets an id that the other processes do not have. In a namespace with one id there is none; then
 * the dropped capabilities and the filter suffice, because neither allows signals or ptrace. */
static int set_ids(unsigned id)
{
    if (id == 0)
        return 0;
    (void)setgroups(0, NULL); /* may be denied if there are none to drop */
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return errno == EINVAL ? 0 : -errno;
    return 0;
}

struct program {
    struct sock_filter ops[2 * CALLS_MAX + 16];
    unsigned short len;
};

static void program_add(struct program *p, uint16_t code, uint32_t k, unsigned jt, unsigned jf)
{
    assert(p->len < sizeof(p->ops) / sizeof(p->ops[0]));
    p->ops[p->len++] = (struct sock_filter)BPF_JUMP(code, k, (uint8_t)jt, (uint8_t)jf);
}

static void program_add_ret(struct program *p, uint32_t what)
{
    program_add(p, BPF_RET | BPF_K, what, 0, 0);
}

static void program_add_load(struct program *p, size_t off)
{
    program_add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)off, 0, 0);
}

static void program_add_allowed(struct program *p, const uint16_t *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        program_add(p, BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        program_add_ret(p, SECCOMP_RET_ALLOW);
    }
}

static int set_filter(const struct role *role)
{
    struct program p = {.len = 0};
    struct sock_fprog prog = {.filter = p.ops};

    program_add_load(&p, offsetof(struct seccomp_data, arch));
    program_add(&p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ARCH, 1, 0);
    program_add_ret(&p, SECCOMP_RET_KILL_PROCESS);
    program_add_load(&p, offsetof(struct seccomp_data, nr));
    program_add(&p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    program_add_ret(&p, SECCOMP_RET_KILL_PROCESS);
    /* No file mappings: files are written only by write(2), which the kernel counts. */
    program_add(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4);
    program_add_load(&p, offsetof(struct seccomp_data, args[3]));
    program_add(&p, BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0);
    program_add_ret(&p, SECCOMP_RET_ERRNO | EPERM);
    program_add_load(&p, offsetof(struct seccomp_data, nr));
    /* No executable memory. */
    program_add(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0);
    program_add(&p, BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4);
    program_add_load(&p, offsetof(struct seccomp_data, args[2]));
    program_add(&p, BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
    program_add_ret(&p, SECCOMP_RET_ERRNO | EPERM);
    program_add_load(&p, offsetof(struct seccomp_data, nr));
    program_add_allowed(&p, calls_common, sizeof(calls_common) / sizeof(calls_common[0]));
    program_add_allowed(&p, role->calls, role->call_count);
    program_add_ret(&p, SECCOMP_RET_ERRNO | EPERM);
    prog.len = p.len;
    return sys_seccomp_filter(0, &prog);
}

/* Without rights to any file of the tree the process has no rule, and so no files at all. */
static int set_landlock(const struct role *role, const struct confine_dirs *dirs)
{
    struct lock_dir rules[1 + WORKER_PARENTS_MAX];
    size_t n = 0;
    int r;

    if (dirs != NULL && role->files != 0 && dirs->tree >= 0)
        rules[n++] = (struct lock_dir){.fd = dirs->tree, .access = role->files};
    for (size_t i = 0; dirs != NULL && role->files != 0 && i < dirs->parent_count; i++)
        rules[n++] = (struct lock_dir){.fd = dirs->parents[i], .access = LOCK_FS_READ};
    r = landlock_lock(rules, n, LOCK_NET_BIND_TCP, LOCK_SCOPE_ABSTRACT | LOCK_SCOPE_SIGNAL);
    return r < 0 ? r : 0;
}

int confine(enum confine_role which, const struct confine_dirs *dirs, uint64_t file_max,
            struct err *err)
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
    /* After the others: changing ids resets it. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_errno(err, -errno, "dumpable");
    r = set_landlock(role, dirs);
    if (r < 0)
        return err_errno(err, r, "Landlock rules");
    r = with_filter ? set_filter(role) : 0;
    return r < 0 ? err_errno(err, r, "filter") : 0;
}
