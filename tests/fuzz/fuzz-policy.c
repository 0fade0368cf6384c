/*
 * Any text as a policy: a refusal has a message behind the file's name, an accepted policy holds
 * what its ranges promise, and its profile compiles to a filter that ends in a return for whatever
 * call, or is refused with a message.
 */

#include <assert.h>
#include <errno.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>

#include "../unit/bpf-sim.h"
#include "base/err.h"
#include "policy/policy.h"
#include "policy/seccomp-internal.h"
#include "policy/seccomp.h"

enum { RULES_COMPILED_MAX = 24 }; /* large profiles cost milliseconds each */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run_filter(const struct bpf *b)
{
    static const uint32_t arches[] = {SCMP_ARCH_X86_64, SCMP_ARCH_X86, SCMP_ARCH_AARCH64};
    static const int numbers[] = {-1, 0, 16, 41, 54, 56, 102, 135, 359, 435, 600, 0x40000000};

    assert(b->count > 0 && b->count <= BPF_MAXINSNS);
    for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]); i++)
        for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]); j++) {
            struct seccomp_data d = {.nr = numbers[j], .arch = arches[i], .args = {40, 0x5412}};
            uint32_t answer = sim_run(b->insns, b->count, &d);

            if (arches[i] == SCMP_ARCH_AARCH64 || numbers[j] == 600 || numbers[j] == 0x40000000)
                assert(answer == (SECCOMP_RET_ERRNO | ENOSYS));
        }
}

static void check_policy(const struct policy *p)
{
    struct err err = ERR_NONE;
    struct bpf b = {0};
    int r;

    assert(p->name[0] != '\0' && strlen(p->name) <= POLICY_NAME_MAX);
    assert(p->network > NET_INVALID && p->network < NET_MODE_MAX);
    assert(p->rlimit_count <= RLIMITS_MAX);
    assert(p->limits.pids == LIMIT_UNSET ||
           (p->limits.pids >= 1 && p->limits.pids <= LIMIT_PIDS_MAX));
    assert(p->limits.memory_bytes == LIMIT_UNSET || p->limits.memory_bytes >= LIMIT_MEMORY_MIN);
    for (size_t i = 0; p->masked[i] != NULL; i++)
        assert(p->masked[i][0] == '/' && strstr(p->masked[i], "/../") == NULL);
    for (size_t i = 0; p->read_only[i] != NULL; i++)
        assert(p->read_only[i][0] == '/' && i < POLICY_PATHS_MAX);

    if (p->seccomp->rule_count > RULES_COMPILED_MAX)
        return;
    r = seccomp_compile_for(p->seccomp, p->capabilities, KERNEL(6, 1), &b, NULL, &err);
    if (r < 0)
        assert(err.msg[0] != '\0' && err.code == r && b.insns == NULL);
    else
        run_filter(&b);
    bpf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy *p = NULL;
    struct err err = ERR_NONE;
    int r = policy_parse((const char *)data, size, "fuzz", &p, &err);

    if (r < 0) {
        assert(p == NULL && err.code == r);
        assert(strncmp(err.msg, "fuzz: ", 6) == 0 && err.msg[6] != '\0');
    } else {
        assert(err.code == 0);
        check_policy(p);
    }
    policy_free(p);
    return 0;
}
