/* The filter that lets one execve through, run in a BPF machine. */

#include <errno.h>
#include <linux/audit.h>
#include <sys/syscall.h>

#include "bpf-sim.h"
#include "init/exec-once.h"
#include "tap.h"

#define ALLOW  SECCOMP_RET_ALLOW
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define SECRET UINT64_C(0x123456789abcdef0)

static uint32_t ask(uint32_t arch, int nr, uint64_t sixth)
{
    struct sock_filter f[EXEC_ONCE_MAX];
    const struct seccomp_data d = {.nr = nr, .arch = arch, .args = {1, 2, 3, 4, 5, sixth}};

    return sim_run(f, exec_once_build(f, SECRET), &d);
}

TEST(the_secret_and_nothing_near_it)
{
    static const uint64_t near[] = {0,
                                    1,
                                    UINT64_MAX,
                                    SECRET + 1,
                                    SECRET & UINT32_MAX,
                                    SECRET >> 32 << 32,
                                    SECRET >> 32 | SECRET << 32,
                                    SECRET ^ UINT64_C(1) << 63};
    static const int calls[] = {SYS_execve, SYS_execveat};

    for (size_t c = 0; c < 2; c++) {
        CHECK_INT(ask(AUDIT_ARCH_X86_64, calls[c], SECRET), ALLOW);
        for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
            CHECK_INT(ask(AUDIT_ARCH_X86_64, calls[c], near[i]), REFUSE);
    }
}

TEST(other_calls_and_other_tables)
{
    for (int nr = 0; nr < 600; nr++) {
        const bool own = nr == SYS_execve || nr == SYS_execveat, old = nr == 11 || nr == 358;

        CHECK_INT(ask(AUDIT_ARCH_X86_64, nr, 0), own ? REFUSE : ALLOW);
        CHECK_INT(ask(AUDIT_ARCH_I386, nr, SECRET), old ? REFUSE : ALLOW);
        CHECK_INT(ask(AUDIT_ARCH_X86_64, nr | 0x40000000, SECRET), REFUSE);
    }
}

TAP_MAIN
