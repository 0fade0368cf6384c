#pragma once

#include <stdbool.h>
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
 * and nothing is there, -EPROTONOSUPPORT from an init of another version (msg->version), -EPROTO
 * for what no honest init sends. Descriptors are the caller's;
 * *ret_fd_count is -EMFILE, and none is there, when they found no room in this process.
 */
int channel_recv(int control, int flags, struct imsg *msg, int fds[IMSG_FDS_MAX],
                 int *ret_fd_count);

/* The sockets between the process's streams and us; -1 where there is none, closed by
 * stdio_sockets_close. */
struct stdio_sockets {
    int ours[3];  /* of stdin, stdout, stderr; a terminal's is [0] alone */
    int inits[3]; /* their other ends, for EXEC */
};
#define STDIO_SOCKETS_NONE                                                                         \
    {                                                                                              \
        .ours = {-1, -1, -1}, .inits = { -1, -1, -1 }                                              \
    }

/* Makes those that an EXEC with these flags (enum imsg_flags) needs, non-blocking. 0 or -errno. */
int stdio_sockets_make(uint32_t flags, struct stdio_sockets *ret);
/* Closes those that are still there. */
void stdio_sockets_close(struct stdio_sockets *s);
/* Appends what EXEC brings of them to fds (borrowed). Returns the new count. */
int stdio_sockets_add(const struct stdio_sockets *s, uint32_t flags, int fds[IMSG_FDS_MAX],
                      int count);
/* Whether fd is what init may hand out: a unix stream socket. */
bool channel_socket_ok(int fd);

/* What EXEC_FAILED of a main process says, in words: err, and what a shell would end with (125,
 * 126, 127). user and cwd as asked for; may be NULL. */
int exec_failure(const struct imsg *msg, const char *command, const char *user, const char *cwd,
                 struct err *err);

/* The message for EXEC_STEP_STDIO with ENOSPC. */
extern const char exec_no_terminal[];
/* "step" of EXEC_FAILED in words. */
const char *exec_step_name(uint32_t step);
