#pragma once

#include <stddef.h>

struct bpf;
struct err;
struct policy;

/*
 * A policy's text, parsed and compiled: from <state>/policies.cache when a file there was made from
 * the very same text by the same rind for the same kernel, else made now (20 ms) and put there. A
 * cache that cannot be read or written costs time, nothing else. The policy has no seccomp profile
 * any more (NULL): the filter is what it came to. `where` names the text in messages.
 */
int policy_cached(int state_fd, const char *where, const char *text, size_t len,
                  struct policy **ret, struct bpf *ret_filter, struct err *err);
