#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpf;
struct err;
struct policy;

/*
 * The compiled seccomp filter of a policy: from <state>/policies.cache when a file there was made
 * from the very same text by the same rind for the same kernel, else compiled (20 ms) and put
 * there. A cache that cannot be read or written costs time, nothing else.
 */
int filter_cached(int state_fd, const struct policy *p, const char *text, size_t len,
                  struct bpf *ret, struct err *err);
