#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/init-msg.h"

struct err;
struct rlimit_value;

struct exec_spec {
    char *const *argv;      /* NULL-terminated, at least one */
    char *const *envp;      /* NULL-terminated */
    const char *user, *cwd; /* user "" = root; cwd absolute */
    char *const *groups;    /* NULL-terminated; beside the user's; or NULL */
    const struct rlimit_value *rlimits;
    size_t rlimit_count;
};

/* The sealed memfd that goes with EXEC (proto/init-msg.h). Returns its fd; -E2BIG when it would not
 * be accepted. */
int exec_request(const struct exec_spec *spec, struct err *err);

/* Sends one message to init with at most IMSG_FDS_MAX descriptors (borrowed), without blocking. */
int channel_send(int control, const struct imsg *msg, const int *fds, int fd_count);

/*
 * Receives one message: 1, 0 when init is gone, or negative: -EAGAIN when flags has MSG_DONTWAIT
 * and nothing is there, -EPROTO for what no honest init sends. Descriptors are the caller's;
 * *ret_fd_count is -EMFILE, and none is there, when they found no room in this process.
 */
int channel_recv(int control, int flags, struct imsg *msg, int fds[IMSG_FDS_MAX],
                 int *ret_fd_count);

/* Whether fd is what init may hand out: a pipe end open for `access` (O_RDONLY, O_WRONLY), or a pty
 * master for O_RDWR. */
int channel_fd_ok(int fd, int access);

/* What EXEC_FAILED of a main process says, in words: err, and what a shell would end with (125,
 * 126, 127). user and cwd as asked for; may be NULL. */
int exec_failure(const struct imsg *msg, const char *command, const char *user, const char *cwd,
                 struct err *err);

/* What STDIO says with ENOSPC. */
extern const char exec_no_terminal[];
/* "step" of EXEC_FAILED in words. */
const char *exec_step_name(uint32_t step);
