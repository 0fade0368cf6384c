#pragma once

/*
 * The Docker/OCI seccomp profile format, decoded, and its translation to a BPF program by
 * libseccomp. Pure but for a memfd that libseccomp writes to. What the profile does not know gets
 * ENOSYS, what it denies EPERM (or its own errnoRet); the i386 and x32 tables are covered (filtered
 * by their own tables when the profile lists the architecture, refused as a whole otherwise).
 */

#include <stddef.h>
#include <stdint.h>

struct err;
struct seccomp_profile;

/* An exported program: an array of struct sock_filter (8 bytes each). */
struct bpf {
    void *insns;  /* owned */
    size_t count; /* instructions; at most BPF_MAXINSNS (4096) */
};

void bpf_done(struct bpf *b);
void seccomp_profile_free(struct seccomp_profile *p);

/*
 * Compiles the profile for a sandbox whose bounding set is `capabilities` (decides the profile's
 * includes/excludes). Costs about 20 ms: callers cache. A name that this libseccomp does not know
 * is skipped, as Docker does, and counted in *ret_skipped (may be NULL).
 */
int seccomp_compile(const struct seccomp_profile *p, uint64_t capabilities, struct bpf *ret,
                    unsigned *ret_skipped, struct err *err);
