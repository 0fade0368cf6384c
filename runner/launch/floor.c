#include "launch/floor.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/syscall.h>

/* Refused with EPERM. Kernel-wide effects, other sandboxes' memory or keys, or large attack surface
 * without a use inside a user namespace. */
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

/* The same by the i386 table (arch/x86/entry/syscalls/syscall_32.tbl), and vm86, vm86old, stime,
 * clock_settime64, clock_adjtime64. */
static const uint16_t denied_i386[] = {
    283, 128, 350, 129, 88,  87,  115, 110, 101, 51,  79,  264, 124, 343,
    103, 342, 336, 357, 131, 443, 286, 287, 288, 253, 374, 425, 426, 427,
    111, 169, 127, 167, 130, 86,  149, 317, 294, 166, 113, 25,  404, 405,
};

enum {
    X32_BIT = 0x40000000,
    IOCTL_X86_64 = SYS_ioctl,
    IOCTL_I386 = 54,
    TIOCSTI_CMD = 0x5412,   /* types into a terminal */
    TIOCLINUX_CMD = 0x541c, /* selects and pastes on a console */
};

#define LOAD(field)                                                                                \
    ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define RETURN(value) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (value)))
#define EQUAL(k, t, f)                                                                             \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(k), (t), (f)))
#define NO(error) (SECCOMP_RET_ERRNO | (uint32_t)(error))

struct program {
    struct sock_filter *out;
    size_t len;
};

static void emit(struct program *p, struct sock_filter insn)
{
    assert(p->len < FLOOR_MAX);
    p->out[p->len++] = insn;
}

/*
 * With the number loaded: denied ones go to one common return; ioctl looks at the low half of its
 * command (the kernel ignores the high one).
 */
static void emit_table(struct program *p, const uint16_t *denied, size_t count, uint32_t ioctl_nr)
{
    enum { AFTER_TABLE = 5 }; /* instructions between the table and the refusal */

    for (size_t i = 0; i < count; i++)
        emit(p, EQUAL(denied[i], (uint8_t)(count - 1 - i + AFTER_TABLE), 0));
    emit(p, EQUAL(ioctl_nr, 1, 0));
    emit(p, RETURN(SECCOMP_RET_ALLOW));
    emit(p, LOAD(args[1]));
    emit(p, EQUAL(TIOCSTI_CMD, 1, 0));
    emit(p, EQUAL(TIOCLINUX_CMD, 0, 1));
    emit(p, RETURN(NO(EPERM)));
    emit(p, RETURN(SECCOMP_RET_ALLOW));
}

size_t floor_build(struct sock_filter out[FLOOR_MAX])
{
    struct program p = {.out = out};
    size_t native;

    emit(&p, LOAD(arch));
    native = p.len;
    emit(&p, EQUAL(AUDIT_ARCH_X86_64, 0, 0)); /* patched below */
    emit(&p, EQUAL(AUDIT_ARCH_I386, 1, 0));
    emit(&p, RETURN(NO(ENOSYS)));
    emit(&p, LOAD(nr));
    emit_table(&p, denied_i386, sizeof(denied_i386) / sizeof(denied_i386[0]), IOCTL_I386);

    assert(p.len - native - 1 <= UINT8_MAX);
    out[native].jt = (uint8_t)(p.len - native - 1);
    emit(&p, LOAD(nr));
    emit(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
    emit(&p, RETURN(NO(ENOSYS)));
    emit_table(&p, denied_x86_64, sizeof(denied_x86_64) / sizeof(denied_x86_64[0]), IOCTL_X86_64);
    return p.len;
}
