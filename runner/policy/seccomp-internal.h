#pragma once

/* The decoded profile; shared by the files of this module and their tests. */

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
    SYSCALL_NR_MAX = 1023, /* highest number examined; the tables end near 470 today */
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

/* Conditions of a rule. includes: all must hold; excludes: none may hold. */
struct profile_cond {
    char **caps;      /* owned */
    char **arches;    /* owned; Go's names: "amd64", "x86" */
    char *min_kernel; /* owned; "4.8" */
    uint64_t cap_mask;
    unsigned kernel; /* KERNEL(4, 8); 0 = none */
};
#define KERNEL(major, minor) ((unsigned)(major) << 16 | (unsigned)(minor))

/*
 * Parses "4.8" to KERNEL(4, 8); with whole false other text may follow ("6.1.0-18-amd64"). -EINVAL.
 */
int kernel_parse(const char *text, bool whole, unsigned *ret);

struct profile_rule {
    char **names; /* owned; not empty after the checks */
    char *name;   /* owned; older form of `names` */
    int action;
    int64_t errno_ret;        /* 0 = not given: EPERM */
    struct profile_arg *args; /* owned; all must match */
    size_t arg_count;
    /* The answer when no other rule for the call matches. Not in Docker's format. */
    bool otherwise;
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
    char **flags; /* owned; must be empty, because rind's launcher decides how filters are loaded */
    struct profile_rule *rules; /* owned */
    size_t rule_count;
    bool x86; /* the i386 table is filtered as well; false: refused */
};

/*
 * Decodes a profile object into the struct seccomp_profile * at off; for a row of the policy's
 * table.
 */
jdecode_fn j_seccomp;

/* As seccomp_compile, for the kernel KERNEL(major, minor) instead of the running one. */
int seccomp_compile_for(const struct seccomp_profile *p, uint64_t capabilities, unsigned kernel,
                        struct bpf *ret, unsigned *ret_skipped, struct err *err);

extern const struct strtab profile_action_names[];

/* Joining of programs. A guard lists, for one architecture, system call numbers that get ENOSYS. */
struct nr_range {
    uint32_t first, last;
};
struct nr_guard {
    uint32_t audit_arch;
    const struct nr_range *ranges; /* ascending, not overlapping */
    size_t count;
};

/*
 * Joins guards -> deny -> allow. Architectures without a guard get ENOSYS. If `deny` (may be empty)
 * returns ALLOW, `allow` decides. -E2BIG: longer than the kernel's limit.
 */
int bpf_join(const struct nr_guard *guards, size_t guard_count, const struct bpf *deny,
             const struct bpf *allow, struct bpf *ret, struct err *err);

/*
 * The answers of calls that no allowing rule matches, for each architecture of bpf_compact and each
 * number. The program returns `stand_in` for all of them.
 */
struct bpf_otherwise {
    uint32_t stand_in;
    uint32_t answers[2][SYSCALL_NR_MAX + 1];
};

/*
 * Replaces the program by a shorter one with the same results for the architectures in archs. All
 * other architectures get other_arch, as do numbers above SYSCALL_NR_MAX; the caller ensures that
 * they got the same before. otherwise: its answers replace its stand-in; NULL = there is none.
 * -EINVAL: the program has instructions that libseccomp does not emit.
 */
int bpf_compact(const uint32_t *archs, size_t arch_count, uint32_t other_arch,
                const struct bpf_otherwise *otherwise, struct bpf *b, struct err *err);
