#pragma once

/* The decoded profile, for the files of this module and their tests. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strtab.h"
#include "json/decode.h"
#include "policy/seccomp.h"

struct sock_filter;

enum {
    PROFILE_RULES_MAX = 1024,
    PROFILE_NAMES_MAX = 1024, /* names of one rule */
    PROFILE_ARGS_MAX = 6,     /* arguments of a system call */
    PROFILE_ARCHES_MAX = 32,
    PROFILE_ERRNO_MAX = 4095,
    SYSCALL_NR_MAX = 1023, /* highest number looked for; the tables end near 470 today */
};

enum profile_action {
    PACT_INVALID = 0,
    PACT_ALLOW,
    PACT_LOG,
    PACT_ERRNO,
    PACT_TRAP,
    PACT_KILL_THREAD,
    PACT_KILL_PROCESS,
    PACT_MAX
};

struct profile_arg {
    int64_t index, value, value_two;
    int op; /* enum scmp_compare */
};

/* When a rule applies (includes: all must hold) or does not (excludes: one is enough). */
struct profile_cond {
    char **caps;      /* owned */
    char **arches;    /* owned; as Go spells them: "amd64", "x86" */
    char *min_kernel; /* owned; "4.8" */
    uint64_t cap_mask;
    unsigned kernel; /* KERNEL(4, 8); 0 = none */
};
#define KERNEL(major, minor) ((unsigned)(major) << 16 | (unsigned)(minor))

/* "4.8" into KERNEL(4, 8); with whole false something may follow ("6.1.0-18-amd64"). -EINVAL. */
int kernel_parse(const char *text, bool whole, unsigned *ret);

struct profile_rule {
    char **names; /* owned; at least one after the checks */
    char *name;   /* owned; the format's older way to give one */
    int action;
    int64_t errno_ret;        /* 0 = not given: EPERM */
    struct profile_arg *args; /* owned; all must match */
    size_t arg_count;
    struct profile_cond includes, excludes;
};

struct profile_arch {
    int arch; /* index into profile_arches[] */
    char **sub;
};

struct seccomp_profile {
    int default_action;
    int64_t default_errno;         /* 0 = not given: EPERM */
    char **architectures;          /* owned */
    struct profile_arch *arch_map; /* owned */
    size_t arch_map_count;
    char **flags; /* owned; must be empty: rind's launcher decides how filters are loaded */
    struct profile_rule *rules; /* owned */
    size_t rule_count;
    bool x86; /* the i386 table is filtered too; otherwise it is refused */
};

/* Decodes a profile object into the struct seccomp_profile * at off; as a row of the policy's
 * table.
 */
jdecode_fn j_seccomp;

/* As seccomp_compile, for a kernel KERNEL(major, minor) instead of the running one. */
int seccomp_compile_for(const struct seccomp_profile *p, uint64_t capabilities, unsigned kernel,
                        struct bpf *ret, unsigned *ret_skipped, struct err *err);

extern const struct strtab profile_action_names[];

/*
 * Puts programs together: what stands in front answers first. `guard` is emitted for one
 * architecture table: system call numbers in it are answered ENOSYS.
 */
struct nr_range {
    uint32_t first, last;
};
struct nr_guard {
    uint32_t audit_arch;
    const struct nr_range *ranges; /* ascending, not overlapping */
    size_t count;
};

/*
 * guards -> deny -> allow. A system call of an architecture without a guard is answered ENOSYS;
 * where `deny` (may be empty) says ALLOW, `allow` decides. -E2BIG when the kernel would not take
 * it.
 */
int bpf_join(const struct nr_guard *guards, size_t guard_count, const struct bpf *deny,
             const struct bpf *allow, struct bpf *ret, struct err *err);

/*
 * Replaces the program by a short one with the same answers on the architectures in archs. In it
 * all other architectures get other_arch, and numbers above SYSCALL_NR_MAX what that one gets: the
 * caller knows that this is what they got before. -EINVAL for a program with other instructions
 * than libseccomp's.
 */
int bpf_compact(const uint32_t *archs, size_t arch_count, uint32_t other_arch, struct bpf *b,
                struct err *err);
