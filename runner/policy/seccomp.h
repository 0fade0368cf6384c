#pragma once

/*
 * Compiles Docker/OCI seccomp profiles to BPF programs with libseccomp. Pure, except for a memfd
 * that libseccomp writes to. Calls unknown to the profile get ENOSYS; denied ones EPERM (or the
 * rule's errnoRet). The i386 and x32 tables are covered: filtered if the profile lists the
 * architecture, otherwise refused as a whole.
 */

#include <stddef.h>
#include <stdint.h>

struct err;
struct seccomp_profile;

/* A compiled program: an array of struct sock_filter (8 bytes each). */
struct bpf {
    void *insns;  /* owned */
    size_t count; /* instructions; at most BPF_MAXINSNS (4096) */
};

void bpf_done(struct bpf *b);
void seccomp_profile_free(struct seccomp_profile *p);

/*
 * Compiles the profile for a sandbox with the bounding set `capabilities`, which decides the
 * profile's includes/excludes. Takes about 20 ms, so callers cache. Names unknown to this
 * libseccomp are skipped, as in Docker, and counted in *ret_skipped (may be NULL).
 */
int seccomp_compile(const struct seccomp_profile *p, uint64_t capabilities, struct bpf *ret,
                    unsigned *ret_skipped, struct err *err);
