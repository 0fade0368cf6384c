#pragma once

/* Compiling profiles and asking the result, for the tests of filters. */

#include <errno.h>
#include <linux/audit.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"
#include "bpf-sim.h"
#include "policy/policy.h"
#include "policy/seccomp-internal.h"
#include "policy/seccomp.h"
#include "tap.h"

#define ALLOW     SECCOMP_RET_ALLOW
#define DENY(e)   (SECCOMP_RET_ERRNO | (uint32_t)(e))
#define HIGH      (UINT64_C(1) << 32)
#define X32       0x40000000
#define AUTO_BPF  __attribute__((cleanup(bpf_done)))
#define NEW_LINUX KERNEL(6, 18)

enum {
    TCGETS_NR = 0x5401,
    TIOCSTI_NR = 0x5412,
    TIOCLINUX_NR = 0x541c,
    TIOCCONS_NR = 0x541d,
    TIOCSETD_NR = 0x5423,
};

static inline uint32_t ask(const struct bpf *b, uint32_t arch, int nr, const uint64_t *args)
{
    struct seccomp_data d = {.nr = nr, .arch = arch};

    for (int i = 0; i < 6; i++)
        d.args[i] = args[i];
    return sim_run(b->insns, b->count, &d);
}

static inline char *profile_text(const char *profile)
{
    char *text = NULL;

    if (asprintf(&text,
                 "{\"name\":\"t\",\"noNewPrivileges\":true,\"network\":\"none\",\"capabilities\":[]"
                 ",\"maskedPaths\":[],\"readonlyPaths\":[],\"seccomp\":%s}",
                 profile) < 0)
        abort();
    return text;
}

static inline int compile_text(const char *text, size_t len, uint64_t caps, unsigned kernel,
                               struct bpf *ret, unsigned *skipped, struct err *err)
{
    auto_ptr(policy_free) struct policy *p = NULL;
    int r = policy_parse(text, len, "t", &p, err);

    if (r < 0)
        return r;
    return seccomp_compile_for(p->seccomp, caps, kernel, ret, skipped, err);
}

static inline int compile(const char *profile, uint64_t caps, unsigned kernel, struct bpf *ret,
                          unsigned *skipped, struct err *err)
{
    auto_free char *text = profile_text(profile);

    return compile_text(text, strlen(text), caps, kernel, ret, skipped, err);
}

static inline int compile_builtin(const char *name, struct bpf *ret)
{
    auto_ptr(policy_free) struct policy *p = NULL;
    struct err err = ERR_NONE;
    unsigned skipped = 0;
    size_t len;
    const char *text = policy_builtin(name, &len);
    int r = policy_parse(text, len, name, &p, &err);

    if (r == 0)
        r = seccomp_compile_for(p->seccomp, p->capabilities, NEW_LINUX, ret, &skipped, &err);
    if (r < 0)
        tap_fail("%s", err.msg);
    CHECK_INT(skipped, 0);
    return r;
}

struct call {
    const char *name; /* NULL: nr */
    int nr;
    uint64_t args[6];
    uint32_t want;
};

static inline void check_calls(const char *what, const struct bpf *b, uint32_t arch,
                               const struct call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct call *c = &calls[i];
        int nr = c->name != NULL ? seccomp_syscall_resolve_name_arch(arch, c->name) : c->nr;
        uint32_t got = ask(b, arch, nr, c->args);

        if (got != c->want)
            tap_fail("%s: %s %d (0x%llx, 0x%llx, 0x%llx) is 0x%x, want 0x%x", what,
                     c->name != NULL ? c->name : "nr", nr, (unsigned long long)c->args[0],
                     (unsigned long long)c->args[1], (unsigned long long)c->args[2], got, c->want);
    }
}
#define CHECK_CALLS(what, bpf, arch, calls)                                                        \
    check_calls(what, bpf, arch, calls, sizeof(calls) / sizeof((calls)[0]))
