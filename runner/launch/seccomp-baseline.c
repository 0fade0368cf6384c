/* The seccomp baseline as a BPF program (floor.h). Runs in the launcher, which sends the program to
 * init. */
#include "launch/seccomp-baseline.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "policy/bpf-graph.h"

enum {
    X32_BIT = 0x40000000,
    IOCTL_I386 = 54,
    SOCKET_I386 = 359,
    SOCKETPAIR_I386 = 360,
    SOCKETCALL_I386 = 102,
    TIOCSTI_CMD = 0x5412,   /* fakes terminal input */
    TIOCLINUX_CMD = 0x541c, /* selects and pastes on a console */
    /* Address families without network namespaces: the kernel's crypto API, and the socket to the
     * hypervisor of a virtual machine that is the host. */
    FAMILY_ALG = 38,
    FAMILY_VSOCK = 40,
    /* Huge pages come from the host's pool: on cgroup v1 no limit of a sandbox counts them. The
     * calls fail as on a kernel without huge pages, which programs are prepared for. */
    MAP_HUGETLB_FLAG = 0x40000,
    MFD_HUGETLB_FLAG = 4,
    SHM_HUGETLB_FLAG = 0x800,
    IPC_SHMGET = 23, /* first argument of i386's ipc, with a version in its high half */
    OLD_MMAP_I386 = 90,
    IPC_I386 = 117,
    MMAP2_I386 = 192,
    MEMFD_CREATE_I386 = 356,
    SHMGET_I386 = 395,
    /* Bits and call numbers that the filter of guarded sandboxes tests. */
    SET_ID = 06000,           /* S_ISUID and S_ISGID */
    MAKES_FILE = 020000100,   /* O_CREAT, and the bit that O_TMPFILE has beside O_DIRECTORY */
    NEW_USER_NS = 0x10000000, /* CLONE_NEWUSER */
    CLONE_X86_64 = 56,
    UNSHARE_X86_64 = 272,
    CLONE_I386 = 120,
    UNSHARE_I386 = 310,
    CLONE3_NR = 435, /* same number in both tables, as for all calls after 423 */
    OPENAT2_NR = 437,
    FCHMODAT2_NR = 452,
};

/* A call with a file mode in argument `mode`. If `flags` is not NO_FLAGS, the mode counts only when
 * that argument's flags create a file. */
enum { NO_FLAGS = 6 };
struct mode_call {
    uint16_t nr;
    uint8_t mode, flags;
    bool node; /* makes a device node: refused without asking init; no program needs it */
};

static const struct mode_call modes_x86_64[] = {
    {90, 1, NO_FLAGS, false},           /* chmod */
    {91, 1, NO_FLAGS, false},           /* fchmod */
    {268, 2, NO_FLAGS, false},          /* fchmodat */
    {FCHMODAT2_NR, 2, NO_FLAGS, false}, /* fchmodat2 */
    {2, 2, 1, false},                   /* open */
    {257, 3, 2, false},                 /* openat */
    {85, 1, NO_FLAGS, false},           /* creat */
    {133, 1, NO_FLAGS, true},           /* mknod */
    {259, 2, NO_FLAGS, true},           /* mknodat */
};

static const struct mode_call modes_i386[] = {
    {15, 1, NO_FLAGS, false},           /* chmod */
    {94, 1, NO_FLAGS, false},           /* fchmod */
    {306, 2, NO_FLAGS, false},          /* fchmodat */
    {FCHMODAT2_NR, 2, NO_FLAGS, false}, /* fchmodat2 */
    {5, 2, 1, false},                   /* open */
    {295, 3, 2, false},                 /* openat */
    {8, 1, NO_FLAGS, false},            /* creat */
    {14, 1, NO_FLAGS, true},            /* mknod */
    {297, 2, NO_FLAGS, true},           /* mknodat */
};

/* Refused with EPERM: calls with kernel-wide effects, access to other sandboxes' memory or keys, or
 * a large attack surface without a use inside a user namespace. */
static const uint16_t denied_x86_64[] = {
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_iopl,
    SYS_ioperm,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_syslog,
    SYS_open_by_handle_at,
    SYS_perf_event_open,
    SYS_bpf,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_lookup_dcookie,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_vhangup,
    SYS_nfsservctl,
    SYS_create_module,
    SYS_query_module,
    SYS_get_kernel_syms,
    SYS_uselib,
    SYS__sysctl,
    SYS_move_pages,
    SYS_migrate_pages,
};

/*
 * denied_x86_64 in numbers of the i386 table (arch/x86/entry/syscalls/syscall_32.tbl), and vm86,
 * vm86old, stime, clock_settime64, clock_adjtime64. Also socketcall and the old mmap, whose
 * arguments are in memory, where no filter sees them. Libcs have used the direct calls since 2015,
 * and mmap2 since 1999.
 */
static const uint16_t denied_i386[] = {
    283,
    128,
    350,
    129,
    88,
    87,
    115,
    110,
    101,
    51,
    79,
    264,
    124,
    343,
    103,
    342,
    336,
    357,
    131,
    443,
    286,
    287,
    288,
    253,
    374,
    425,
    426,
    427,
    111,
    169,
    127,
    167,
    130,
    86,
    149,
    317,
    294,
    166,
    113,
    25,
    404,
    405,
    SOCKETCALL_I386,
    OLD_MMAP_I386,
};

enum { NUMBERS = 1024, NODES_MAX = 768 };

#define FIELD(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define LOAD         (BPF_LD | BPF_W | BPF_ABS)
#define NO(error)    (SECCOMP_RET_ERRNO | (uint32_t)(error))

/* Call numbers of one table with filtered arguments. */
struct looked_at {
    /* ipc: 0 = the table has none */
    uint32_t ioctl, socket, socketpair, mmap, memfd_create, shmget, ipc;
    const struct mode_call *modes; /* calls that are filtered in guarded sandboxes; NULL = none */
    size_t mode_count;
    uint32_t ask; /* SECCOMP_RET_*: the action for modes with set-id bits */
};

/* Returns a node that refuses the call when this flag is in this argument. */
static int deny_flag(struct bpf_graph *g, unsigned argument, uint32_t value, int error)
{
    const int test =
        bpf_test(g, BPF_JSET, value, bpf_return(g, NO(error)), bpf_return(g, SECCOMP_RET_ALLOW));

    return bpf_step(g, LOAD, FIELD(args) + argument * (uint32_t)sizeof(uint64_t), test);
}

static int load_argument(struct bpf_graph *g, unsigned i, int next)
{
    return bpf_step(g, LOAD, FIELD(args) + i * (uint32_t)sizeof(uint64_t), next);
}

/* Adds the calls that would make a set-id file. */
static void guard_modes(struct bpf_graph *g, const struct looked_at *calls, int *nodes)
{
    const int allow = bpf_return(g, SECCOMP_RET_ALLOW);
    const int ask = bpf_test(g, BPF_JSET, SET_ID, bpf_return(g, calls->ask), allow);
    const int deny = bpf_test(g, BPF_JSET, SET_ID, bpf_return(g, NO(EPERM)), allow);

    for (size_t i = 0; i < calls->mode_count; i++) {
        const struct mode_call *c = &calls->modes[i];
        int node = load_argument(g, c->mode, c->node ? deny : ask);

        if (c->flags != NO_FLAGS)
            node = load_argument(g, c->flags, bpf_test(g, BPF_JSET, MAKES_FILE, node, allow));
        nodes[c->nr] = node;
    }
}

/* Returns the node for one table's call numbers. Arguments are compared in their low 32 bits: the
 * kernel ignores the high ones. Numbers from `unknown` on do not exist. */
static int floor_table(struct bpf_graph *g, const uint16_t *denied, size_t count,
                       const struct looked_at *calls, uint32_t unknown)
{
    const int allow = bpf_return(g, SECCOMP_RET_ALLOW), deny = bpf_return(g, NO(EPERM));
    struct bpf_span spans[NUMBERS + 2];
    int nodes[NUMBERS], command, family;
    size_t n = 0;

    command = bpf_test(g, BPF_JEQ, TIOCLINUX_CMD, deny, allow);
    command = bpf_test(g, BPF_JEQ, TIOCSTI_CMD, deny, command);
    family = bpf_test(g, BPF_JEQ, FAMILY_ALG, deny, allow);
    family = bpf_test(g, BPF_JEQ, FAMILY_VSOCK, deny, family);
    for (size_t i = 0; i < NUMBERS; i++)
        nodes[i] = allow;
    for (size_t i = 0; i < count; i++)
        nodes[denied[i]] = deny;
    nodes[calls->ioctl] = bpf_step(g, LOAD, FIELD(args[1]), command);
    nodes[calls->socket] = nodes[calls->socketpair] = bpf_step(g, LOAD, FIELD(args[0]), family);
    nodes[calls->mmap] = deny_flag(g, 3, MAP_HUGETLB_FLAG, ENOMEM);
    nodes[calls->memfd_create] = deny_flag(g, 1, MFD_HUGETLB_FLAG, ENOSYS);
    nodes[calls->shmget] = deny_flag(g, 2, SHM_HUGETLB_FLAG, ENOMEM);
    if (calls->ipc != 0) {
        const int get =
            bpf_test(g, BPF_JEQ, IPC_SHMGET, deny_flag(g, 3, SHM_HUGETLB_FLAG, ENOMEM), allow);

        nodes[calls->ipc] =
            bpf_step(g, LOAD, FIELD(args[0]), bpf_step(g, BPF_ALU | BPF_AND | BPF_K, 0xffff, get));
    }
    guard_modes(g, calls, nodes);

    for (uint32_t i = 0; i < NUMBERS; i++)
        n = bpf_span_add(spans, n, i, nodes[i]);
    n = bpf_span_add(spans, n, NUMBERS, allow);
    if (unknown != 0)
        n = bpf_span_add(spans, n, unknown, bpf_return(g, NO(ENOSYS)));
    return bpf_step(g, LOAD, FIELD(nr), bpf_switch(g, spans, n));
}

size_t baseline_build(struct sock_filter out[BASELINE_MAX], bool guarded)
{
    struct looked_at calls_x86_64 = {.ioctl = SYS_ioctl,
                                     .socket = SYS_socket,
                                     .socketpair = SYS_socketpair,
                                     .mmap = SYS_mmap,
                                     .memfd_create = SYS_memfd_create,
                                     .shmget = SYS_shmget};
    struct looked_at calls_i386 = {.ioctl = IOCTL_I386,
                                   .socket = SOCKET_I386,
                                   .socketpair = SOCKETPAIR_I386,
                                   .mmap = MMAP2_I386,
                                   .memfd_create = MEMFD_CREATE_I386,
                                   .shmget = SHMGET_I386,
                                   .ipc = IPC_I386};
    struct bpf_node nodes[NODES_MAX];
    struct bpf_graph g;
    int root, r;

    if (guarded) {
        calls_x86_64.modes = modes_x86_64;
        calls_x86_64.mode_count = sizeof(modes_x86_64) / sizeof(modes_x86_64[0]);
        calls_x86_64.ask = SECCOMP_RET_USER_NOTIF;
        /* The broker in init knows only the x86-64 table. */
        calls_i386.modes = modes_i386;
        calls_i386.mode_count = sizeof(modes_i386) / sizeof(modes_i386[0]);
        calls_i386.ask = NO(EPERM);
    }
    bpf_graph_init(&g, nodes, NODES_MAX);
    root = bpf_return(&g, NO(ENOSYS));
    root = bpf_test(
        &g, BPF_JEQ, AUDIT_ARCH_I386,
        floor_table(&g, denied_i386, sizeof(denied_i386) / sizeof(denied_i386[0]), &calls_i386, 0),
        root);
    root = bpf_test(&g, BPF_JEQ, AUDIT_ARCH_X86_64,
                    floor_table(&g, denied_x86_64, sizeof(denied_x86_64) / sizeof(denied_x86_64[0]),
                                &calls_x86_64, X32_BIT),
                    root);
    r = bpf_graph_emit(&g, bpf_step(&g, LOAD, FIELD(arch), root), out, BASELINE_MAX);
    assert(r > 0); /* the program is one of two constants, so this is a build-time property */
    return (size_t)r;
}

/* Returns the node for the call numbers of one table. */
static int guard_table(struct bpf_graph *g, uint32_t clone_nr, uint32_t unshare_nr)
{
    const int allow = bpf_return(g, SECCOMP_RET_ALLOW), unknown = bpf_return(g, NO(ENOSYS));
    const int user = deny_flag(g, 0, NEW_USER_NS, EPERM);
    int node = allow;

    node = bpf_test(g, BPF_JEQ, clone_nr, user, node);
    node = bpf_test(g, BPF_JEQ, unshare_nr, user, node);
    node = bpf_test(g, BPF_JEQ, CLONE3_NR, unknown, node);
    node = bpf_test(g, BPF_JEQ, OPENAT2_NR, unknown, node);
    return bpf_step(g, LOAD, FIELD(nr), node);
}

size_t baseline_build_guard(struct sock_filter out[BASELINE_MAX])
{
    struct bpf_node nodes[NODES_MAX];
    struct bpf_graph g;
    int root, r;

    bpf_graph_init(&g, nodes, NODES_MAX);
    /* The baseline refuses every other architecture. */
    root = bpf_test(&g, BPF_JEQ, AUDIT_ARCH_X86_64, guard_table(&g, CLONE_X86_64, UNSHARE_X86_64),
                    guard_table(&g, CLONE_I386, UNSHARE_I386));
    r = bpf_graph_emit(&g, bpf_step(&g, LOAD, FIELD(arch), root), out, BASELINE_MAX);
    assert(r > 0); /* the program is a constant */
    return (size_t)r;
}
