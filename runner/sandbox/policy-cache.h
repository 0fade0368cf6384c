#pragma once

#include <stddef.h>

struct bpf;
struct err;
struct policy;

/*
 * Parses and compiles a policy's text (about 20 ms). The result is cached in
 * <state>/policies.cache, keyed by the text, rind's version and the kernel. Failures of the cache
 * are ignored; they only cost time. The returned policy has no seccomp profile (NULL), as
 * *ret_filter replaces it. `where` names the text in messages. Blocks.
 */
int policy_cached(int state_fd, const char *where, const char *text, size_t len,
                  struct policy **ret, struct bpf *ret_filter, struct err *err);
