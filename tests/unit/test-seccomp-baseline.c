/*
 * The seccomp floor in a BPF machine: every number of every table, against lists of names that are
 * written here a second time. The i386 numbers come from two
 * witnesses: libseccomp and the kernel's own header.
 */

/* clang-format off: this header's names are the native one's, which comes later and wins: what is
 * needed of them is taken at once. */
#include <asm/unistd_32.h>
#include <stdint.h>

static const uint32_t numbers[] = {
    __NR_kexec_load,      __NR_init_module,
    __NR_finit_module,    __NR_delete_module,
    __NR_reboot,          __NR_swapon,
    __NR_swapoff,         __NR_iopl,
    __NR_ioperm,          __NR_acct,
    __NR_settimeofday,    __NR_clock_settime,
    __NR_adjtimex,        __NR_clock_adjtime,
    __NR_syslog,          __NR_open_by_handle_at,
    __NR_perf_event_open, __NR_bpf,
    __NR_quotactl,        __NR_quotactl_fd,
    __NR_add_key,         __NR_request_key,
    __NR_keyctl,          __NR_lookup_dcookie,
    __NR_userfaultfd,     __NR_io_uring_setup,
    __NR_io_uring_enter,  __NR_io_uring_register,
    __NR_vhangup,         __NR_nfsservctl,
    __NR_create_module,   __NR_query_module,
    __NR_get_kernel_syms, __NR_uselib,
    __NR__sysctl,         __NR_move_pages,
    __NR_migrate_pages,   __NR_vm86,
    __NR_vm86old,         __NR_stime,
    __NR_clock_settime64, __NR_clock_adjtime64,
    __NR_socketcall,      __NR_mmap,
};
enum {
    IOCTL_32 = __NR_ioctl,
    GETPID_32 = __NR_getpid,
    SOCKET_32 = __NR_socket,
    SOCKETPAIR_32 = __NR_socketpair,
    MMAP2_32 = __NR_mmap2,
    MEMFD_CREATE_32 = __NR_memfd_create,
    SHMGET_32 = __NR_shmget,
    IPC_32 = __NR_ipc,
    CHMOD_32 = __NR_chmod,
    FCHMOD_32 = __NR_fchmod,
    FCHMODAT_32 = __NR_fchmodat,
    OPEN_32 = __NR_open,
    OPENAT_32 = __NR_openat,
    CREAT_32 = __NR_creat,
    MKNOD_32 = __NR_mknod,
    MKNODAT_32 = __NR_mknodat,
    CLONE_32 = __NR_clone,
    UNSHARE_32 = __NR_unshare
};
/* clang-format on */

#include <errno.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>

#include "bpf-sim.h"
#include "launch/seccomp-baseline.h"
#include "tap.h"

enum { DENIED = SECCOMP_RET_ERRNO | EPERM, UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS, X32 = 0x40000000 };
enum { NUMBERS = 1024, STI = 0x5412, LINUX = 0x541c };

static struct sock_filter filter[BASELINE_MAX];
static size_t count;

static uint32_t ask(uint32_t arch, uint32_t nr, uint64_t arg1)
{
    struct seccomp_data d = {.nr = (int)nr, .arch = arch, .args = {0, arg1}};

    if (count == 0)
        count = baseline_build(filter, false);
    return sim_run(filter, count, &d);
}

/* clang-format off */
static const char *const both[] = {
    "kexec_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "iopl", "ioperm",
    "acct", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "syslog", "open_by_handle_at",
    "perf_event_open", "bpf", "quotactl", "quotactl_fd", "add_key", "request_key", "keyctl", "lookup_dcookie",
    "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "vhangup", "nfsservctl", "create_module",
    "query_module", "get_kernel_syms", "uselib", "_sysctl", "move_pages", "migrate_pages",
};
static const char *const only_64[] = {"kexec_file_load"};
static const char *const only_32[] = {"vm86", "vm86old", "stime", "clock_settime64", "clock_adjtime64", "socketcall", "mmap"};

/* What no program can do without, whatever its libc and age. */
static const char *const needed[] = {
    "read", "write", "openat", "openat2", "close", "mmap", "mprotect", "brk", "execve", "execveat", "clone", "clone3",
    "fork", "vfork", "exit_group", "wait4", "waitid", "futex", "rt_sigaction", "ioctl", "socket", "connect", "ptrace",
    "mount", "unshare", "setns", "pivot_root", "seccomp", "prctl", "capset", "setresuid", "getrandom", "memfd_create",
    "pidfd_open", "inotify_init1", "epoll_create1", "splice", "sendmsg", "recvmsg", "mknodat", "name_to_handle_at",
    "clock_gettime", "clock_nanosleep", "personality", "sched_setaffinity", "set_mempolicy", "mbind", "fanotify_init",
};
/* clang-format on */

#define N(list) (sizeof(list) / sizeof((list)[0]))

static void mark(bool set[NUMBERS], uint32_t arch, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int nr = seccomp_syscall_resolve_name_arch(arch, names[i]);

        if (nr < 0 || nr >= NUMBERS)
            tap_fail("%s has no number here", names[i]);
        else
            set[nr] = true;
    }
}

static void check_table(uint32_t arch, const bool denied[NUMBERS], uint32_t ioctl_nr)
{
    for (uint32_t nr = 0; nr < NUMBERS; nr++) {
        uint32_t want = denied[nr] ? DENIED : SECCOMP_RET_ALLOW;

        if (nr == ioctl_nr)
            continue;
        /* No argument changes the answer. */
        if (ask(arch, nr, 0) != want || ask(arch, nr, STI) != want)
            tap_fail("arch 0x%x, number %u: 0x%x, want 0x%x", arch, nr, ask(arch, nr, 0), want);
    }
}

TEST(every_number_of_x86_64)
{
    bool denied[NUMBERS] = {false};

    mark(denied, SCMP_ARCH_X86_64, both, N(both));
    mark(denied, SCMP_ARCH_X86_64, only_64, N(only_64));
    check_table(AUDIT_ARCH_X86_64, denied, 16);
}

TEST(every_number_of_i386)
{
    bool denied[NUMBERS] = {false};

    mark(denied, SCMP_ARCH_X86, both, N(both));
    mark(denied, SCMP_ARCH_X86, only_32, N(only_32));
    check_table(AUDIT_ARCH_I386, denied, IOCTL_32);
}

TEST(i386_numbers_of_the_kernel)
{
    CHECK_INT(N(numbers), N(both) + N(only_32));
    for (size_t i = 0; i < N(numbers); i++)
        CHECK_INT(ask(AUDIT_ARCH_I386, numbers[i], 0), DENIED);
    CHECK_INT(ask(AUDIT_ARCH_I386, GETPID_32, 0), SECCOMP_RET_ALLOW);
}

TEST(every_number_of_x32)
{
    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        CHECK_INT(ask(AUDIT_ARCH_X86_64, X32 | nr, 0), UNKNOWN);
    CHECK_INT(ask(AUDIT_ARCH_X86_64, UINT32_MAX, 0), UNKNOWN);
    CHECK_INT(ask(AUDIT_ARCH_X86_64, X32 - 1, 0), SECCOMP_RET_ALLOW); /* the kernel knows none */
    CHECK_INT(ask(AUDIT_ARCH_X86_64, X32, 0), UNKNOWN);
}

TEST(foreign_architectures)
{
    static const uint32_t archs[] = {AUDIT_ARCH_AARCH64,
                                     AUDIT_ARCH_ARM,
                                     AUDIT_ARCH_RISCV64,
                                     AUDIT_ARCH_PPC64LE,
                                     AUDIT_ARCH_S390X,
                                     AUDIT_ARCH_MIPS,
                                     0,
                                     UINT32_MAX};

    for (size_t i = 0; i < N(archs); i++)
        for (uint32_t nr = 0; nr < NUMBERS; nr += 7)
            CHECK_INT(ask(archs[i], nr, 0), UNKNOWN);
}

TEST(terminal_injection_is_refused)
{
    static const struct {
        uint32_t arch, nr;
    } calls[] = {{AUDIT_ARCH_X86_64, 16}, {AUDIT_ARCH_I386, IOCTL_32}};
    static const uint64_t high[] = {0, 1ULL << 32, 1ULL << 63, 0xffffffffULL << 32};

    for (size_t i = 0; i < N(calls); i++)
        for (size_t h = 0; h < N(high); h++) {
            CHECK_INT(ask(calls[i].arch, calls[i].nr, STI | high[h]), DENIED);
            CHECK_INT(ask(calls[i].arch, calls[i].nr, LINUX | high[h]), DENIED);
            CHECK_INT(ask(calls[i].arch, calls[i].nr, 0x5401 | high[h]), SECCOMP_RET_ALLOW);
            CHECK_INT(ask(calls[i].arch, calls[i].nr, (STI - 1) | high[h]), SECCOMP_RET_ALLOW);
            CHECK_INT(ask(calls[i].arch, calls[i].nr, (LINUX + 1) | high[h]), SECCOMP_RET_ALLOW);
        }
    /* The same number in the other table is another call. */
    CHECK_INT(ask(AUDIT_ARCH_X86_64, IOCTL_32, STI), SECCOMP_RET_ALLOW);
    CHECK_INT(ask(AUDIT_ARCH_I386, 16, STI), SECCOMP_RET_ALLOW);
}

static uint32_t ask_family(uint32_t arch, uint32_t nr, uint64_t family)
{
    struct seccomp_data d = {.nr = (int)nr, .arch = arch, .args = {family, 1}};

    return sim_run(filter, count, &d);
}

/* Neither AF_ALG nor AF_VSOCK, whatever stands in the half that the kernel does not look at. */
TEST(socket_families)
{
    static const struct {
        uint32_t arch, nr;
    } calls[] = {{AUDIT_ARCH_X86_64, 41},
                 {AUDIT_ARCH_X86_64, 53},
                 {AUDIT_ARCH_I386, SOCKET_32},
                 {AUDIT_ARCH_I386, SOCKETPAIR_32}};
    static const uint64_t high[] = {0, 1ULL << 32, 0xffffffffULL << 32};

    (void)ask(0, 0, 0);
    for (size_t i = 0; i < N(calls); i++)
        for (uint64_t family = 0; family < 64; family++)
            for (size_t h = 0; h < N(high); h++)
                CHECK_INT(ask_family(calls[i].arch, calls[i].nr, family | high[h]),
                          family == 38 || family == 40 ? DENIED : SECCOMP_RET_ALLOW);
}

/* Wherever the flag stands, and in no other bit of the argument. */
TEST(huge_pages)
{
    static const struct {
        uint32_t arch, nr;
        unsigned argument;
        uint64_t flag, first;
        uint32_t error;
    } calls[] = {
        {AUDIT_ARCH_X86_64, 9, 3, 0x40000, 0, ENOMEM},
        {AUDIT_ARCH_X86_64, 319, 1, 4, 0, ENOSYS},
        {AUDIT_ARCH_X86_64, 29, 2, 04000, 0, ENOMEM},
        {AUDIT_ARCH_I386, MMAP2_32, 3, 0x40000, 0, ENOMEM},
        {AUDIT_ARCH_I386, MEMFD_CREATE_32, 1, 4, 0, ENOSYS},
        {AUDIT_ARCH_I386, SHMGET_32, 2, 04000, 0, ENOMEM},
        {AUDIT_ARCH_I386, IPC_32, 3, 04000, 23, ENOMEM},
        {AUDIT_ARCH_I386, IPC_32, 3, 04000, 23 | 1 << 16, ENOMEM},
    };

    (void)ask(0, 0, 0);
    for (size_t i = 0; i < N(calls); i++)
        for (unsigned bit = 0; bit < 64; bit++) {
            const uint64_t value = UINT64_C(1) << bit;
            struct seccomp_data d = {.nr = (int)calls[i].nr, .arch = calls[i].arch};

            d.args[0] = calls[i].first;
            d.args[calls[i].argument] = value;
            CHECK_INT(sim_run(filter, count, &d), value == calls[i].flag
                                                      ? SECCOMP_RET_ERRNO | calls[i].error
                                                      : SECCOMP_RET_ALLOW);
            d.args[calls[i].argument] = value | calls[i].flag | UINT64_C(0xffffffff) << 32;
            CHECK_INT(sim_run(filter, count, &d), SECCOMP_RET_ERRNO | calls[i].error);
        }
    /* Another of ipc's calls has another meaning for the argument. */
    for (uint64_t call = 0; call < 32; call++) {
        struct seccomp_data d = {
            .nr = IPC_32, .arch = AUDIT_ARCH_I386, .args = {call, 0, 0, 04000}};

        CHECK_INT(sim_run(filter, count, &d),
                  call == 23 ? SECCOMP_RET_ERRNO | ENOMEM : SECCOMP_RET_ALLOW);
    }
}

TEST(what_programs_need)
{
    for (size_t i = 0; i < N(needed); i++) {
        int nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, needed[i]);

        CHECK(nr >= 0);
        if (ask(AUDIT_ARCH_X86_64, (uint32_t)nr, 0) != SECCOMP_RET_ALLOW)
            tap_fail("%s is denied", needed[i]);
    }
}

TEST(it_fits)
{
    CHECK(ask(AUDIT_ARCH_X86_64, 0, 0) == SECCOMP_RET_ALLOW);
    CHECK(count > 0 && count <= BASELINE_MAX);
}

/* ---- guarded ---- */

/* What it was before there was a guard, to the byte: a start without one pays for nothing. (Who
 * changes the floor writes down its new length and sum.) */
TEST(without_a_guard_it_is_what_it_was)
{
    uint32_t sum = 2166136261; /* FNV-1a */

    (void)ask(0, 0, 0);
    CHECK_INT(count, 129);
    for (size_t i = 0; i < count * sizeof(filter[0]); i++)
        sum = (sum ^ ((const unsigned char *)filter)[i]) * 16777619;
    CHECK_INT(sum, 0xefdfb0eb);
}

enum { ASKED = SECCOMP_RET_USER_NOTIF, CREATES = 0100, TMPFILE = 020200000, NONE = 6 };

static const struct {
    const char *name;
    uint32_t arch, nr;
    unsigned mode, flags; /* arguments */
    uint32_t want;        /* with set-id bits */
} guarded_calls[] = {
    {"chmod", AUDIT_ARCH_X86_64, 90, 1, NONE, ASKED},
    {"fchmod", AUDIT_ARCH_X86_64, 91, 1, NONE, ASKED},
    {"fchmodat", AUDIT_ARCH_X86_64, 268, 2, NONE, ASKED},
    {"fchmodat2", AUDIT_ARCH_X86_64, 452, 2, NONE, ASKED},
    {"open", AUDIT_ARCH_X86_64, 2, 2, 1, ASKED},
    {"openat", AUDIT_ARCH_X86_64, 257, 3, 2, ASKED},
    {"creat", AUDIT_ARCH_X86_64, 85, 1, NONE, ASKED},
    {"mknod", AUDIT_ARCH_X86_64, 133, 1, NONE, DENIED},
    {"mknodat", AUDIT_ARCH_X86_64, 259, 2, NONE, DENIED},
    {"chmod", AUDIT_ARCH_I386, CHMOD_32, 1, NONE, DENIED},
    {"fchmod", AUDIT_ARCH_I386, FCHMOD_32, 1, NONE, DENIED},
    {"fchmodat", AUDIT_ARCH_I386, FCHMODAT_32, 2, NONE, DENIED},
    {"fchmodat2", AUDIT_ARCH_I386, 452, 2, NONE, DENIED},
    {"open", AUDIT_ARCH_I386, OPEN_32, 2, 1, DENIED},
    {"openat", AUDIT_ARCH_I386, OPENAT_32, 3, 2, DENIED},
    {"creat", AUDIT_ARCH_I386, CREAT_32, 1, NONE, DENIED},
    {"mknod", AUDIT_ARCH_I386, MKNOD_32, 1, NONE, DENIED},
    {"mknodat", AUDIT_ARCH_I386, MKNODAT_32, 2, NONE, DENIED},
};

static bool makes_set_id(size_t call, uint64_t mode, uint64_t flags)
{
    return (mode & 06000) != 0 &&
           (guarded_calls[call].flags == NONE || (flags & (CREATES | (TMPFILE & ~0200000))) != 0);
}

/* Each call with each mode, in whatever other arguments and upper halves. */
TEST(calls_that_make_set_id_files)
{
    static const uint64_t modes[] = {0,     0644,  0777,  01777, 0100644, 02000,  04000,
                                     06000, 04755, 02755, 06777, 0104755, 0177777};
    static const uint64_t flags[] = {0,           1,       2,        01001, CREATES, CREATES | 0201,
                                     TMPFILE | 2, 0200000, 010000000};
    static const uint64_t high[] = {0, UINT64_C(0xffffffff) << 32};
    struct sock_filter guarded[BASELINE_MAX];
    const size_t n = baseline_build(guarded, true);

    CHECK(n > 0 && n <= BASELINE_MAX);
    (void)ask(0, 0, 0);
    for (size_t i = 0; i < N(guarded_calls); i++)
        for (size_t k = 0; k < N(modes); k++)
            for (size_t f = 0; f < N(flags); f++)
                for (size_t h = 0; h < N(high); h++) {
                    struct seccomp_data d = {
                        .nr = (int)guarded_calls[i].nr,
                        .arch = guarded_calls[i].arch,
                        /* What is in the wrong place does not count. */
                        .args = {06777, 06777, 06777, 06777, 06777, 06777},
                    };
                    uint32_t want = makes_set_id(i, modes[k], flags[f]) ? guarded_calls[i].want
                                                                        : SECCOMP_RET_ALLOW;

                    if (guarded_calls[i].flags != NONE)
                        d.args[guarded_calls[i].flags] = flags[f] | high[h];
                    d.args[guarded_calls[i].mode] = modes[k] | high[h];
                    if (sim_run(guarded, n, &d) != want)
                        tap_fail("%s, arch 0x%x, mode 0%llo, flags 0%llo: 0x%x, want 0x%x",
                                 guarded_calls[i].name, guarded_calls[i].arch,
                                 (unsigned long long)modes[k], (unsigned long long)flags[f],
                                 sim_run(guarded, n, &d), want);
                    CHECK_INT(sim_run(filter, count, &d), SECCOMP_RET_ALLOW); /* without a guard */
                }
}

/* All the rest is as it is without a guard; set-id bits in arguments that are none. */
TEST(a_guard_changes_nothing_else)
{
    static const uint32_t archs[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64};
    struct sock_filter guarded[BASELINE_MAX];
    const size_t n = baseline_build(guarded, true);

    (void)ask(0, 0, 0);
    for (size_t a = 0; a < N(archs); a++)
        for (uint32_t nr = 0; nr < NUMBERS; nr++) {
            struct seccomp_data d = {.nr = (int)nr,
                                     .arch = archs[a],
                                     .args = {06777, 06777, 06777, 06777, 06777, 06777}};
            bool listed = false;

            for (size_t i = 0; i < N(guarded_calls); i++)
                listed = listed || (guarded_calls[i].arch == archs[a] && guarded_calls[i].nr == nr);
            if (!listed)
                CHECK_INT(sim_run(guarded, n, &d), sim_run(filter, count, &d));
            d.nr |= X32;
            CHECK_INT(sim_run(guarded, n, &d), sim_run(filter, count, &d));
        }
}

/* What init may do and processes inside may not. */
TEST(the_second_filter_of_a_guard)
{
    struct sock_filter inner[BASELINE_MAX];
    const size_t n = baseline_build_guard(inner);

    CHECK(n > 0 && n < 32); /* each system call of the sandbox pays for it */
    for (int arch = 0; arch < 2; arch++)
        for (uint32_t nr = 0; nr < NUMBERS; nr++)
            for (unsigned bit = 0; bit < 64; bit++) {
                const bool clones =
                    arch == 0 ? nr == 56 || nr == 272 : nr == CLONE_32 || nr == UNSHARE_32;
                struct seccomp_data d = {.nr = (int)nr,
                                         .arch = arch == 0 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_I386,
                                         .args = {UINT64_C(1) << bit, 0x10000000}};
                uint32_t want = SECCOMP_RET_ALLOW;

                if (nr == 435 || nr == 437) /* clone3, openat2 */
                    want = UNKNOWN;
                else if (clones && bit == 28) /* CLONE_NEWUSER */
                    want = DENIED;
                CHECK_INT(sim_run(inner, n, &d), want);
            }
}

TAP_MAIN
