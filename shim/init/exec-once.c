/*
 * Owns the filter of exec-once.h. Runs in a child of init, between its creation and execve
 * (exec.c).
 */
#include "init/exec-once.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

enum { X32_BIT = 0x40000000 };

/* The 32-bit table of the same machine: its execve and execveat are refused altogether, as init
 * does not use them. */
#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
enum { EXECVE_32 = 11, EXECVEAT_32 = 358 };
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
enum { EXECVE_32 = 11, EXECVEAT_32 = 387 };
#endif

#define FIELD(field) ((uint32_t)offsetof(struct seccomp_data, field))
#define LOAD(field)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(field))
/* Jumps over `yes` or `no` instructions. */
#define IF_EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define RETURN(action)       BPF_STMT(BPF_RET | BPF_K, action)

size_t exec_once_build(struct sock_filter out[EXEC_ONCE_MAX], uint64_t secret)
{
    const struct sock_filter program[] = {
        LOAD(arch),
        IF_EQUAL(OWN_ARCH, 3, 0),
        LOAD(nr),
        IF_EQUAL(EXECVE_32, 9, 0),
        IF_EQUAL(EXECVEAT_32, 8, 9),
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, X32_BIT, 6, 0),
        IF_EQUAL(SYS_execve, 1, 0),
        IF_EQUAL(SYS_execveat, 0, 5),
        LOAD(args[5]),
        IF_EQUAL((uint32_t)secret, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FIELD(args[5]) + (uint32_t)sizeof(uint32_t)),
        IF_EQUAL((uint32_t)(secret >> 32), 1, 0),
        RETURN(SECCOMP_RET_ERRNO | EPERM),
        RETURN(SECCOMP_RET_ALLOW),
    };
    const size_t count = sizeof(program) / sizeof(program[0]);

    _Static_assert(sizeof(program) / sizeof(program[0]) <= EXEC_ONCE_MAX, "it has room");
    for (size_t i = 0; i < count; i++)
        out[i] = program[i];
    return count;
}
