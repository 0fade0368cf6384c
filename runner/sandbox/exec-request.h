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
    char *const *groups;    /* NULL-terminated; in addition to the user's own; or NULL */
    const struct rlimit_value *rlimits;
    size_t rlimit_count;
};

/*
 * Makes the sealed memfd of an EXEC (proto/init-msg.h). Returns its fd, owned by the caller; -E2BIG
 * if init would refuse it.
 */
int exec_request(const struct exec_spec *spec, struct err *err);

/* Sends one message to init with at most IMSG_FDS_MAX descriptors (borrowed). Does not block. */
int channel_send(int control, const struct imsg *msg, const int *fds, int fd_count);

/*
 * Receives one message. Returns 1, 0 if init has exited, or a negative errno. -EAGAIN: flags has
 * MSG_DONTWAIT and no message is there. -EPROTONOSUPPORT: init has another version (msg->version).
 * -EPROTO: no honest init sends this. The caller owns fds. *ret_fd_count is -EMFILE if this process
 * had no room for the descriptors; then there are none.
 */
int channel_recv(int control, int flags, struct imsg *msg, int fds[IMSG_FDS_MAX],
                 int *ret_fd_count);

/* The sockets between init and the supervisor for the process's streams; -1 where there is none. */
struct stdio_sockets {
    int ours[3];  /* for stdin, stdout, stderr; a terminal has only [0] */
    int inits[3]; /* their other ends, for EXEC */
};
#define STDIO_SOCKETS_NONE                                                                         \
    {                                                                                              \
        .ours = {-1, -1, -1}, .inits = { -1, -1, -1 }                                              \
    }

/*
 * Makes the non-blocking sockets that an EXEC with these flags (enum imsg_flags) needs. Returns 0
 * or -errno.
 */
int stdio_sockets_make(uint32_t flags, struct stdio_sockets *ret);
/* Closes the remaining sockets. */
void stdio_sockets_close(struct stdio_sockets *s);
/* Appends the sockets that an EXEC message carries to fds (borrowed). Returns the new count. */
int stdio_sockets_add(const struct stdio_sockets *s, uint32_t flags, int fds[IMSG_FDS_MAX],
                      int count);
/* True if fd is of the kind that init may send: a unix stream socket. */
bool channel_socket_ok(int fd);

/*
 * Translates EXEC_FAILED into err and the exit status of a shell (125, 126, 127), which it returns.
 * user and cwd are those of the request; may be NULL.
 */
int exec_failure(const struct imsg *msg, const char *command, const char *user, const char *cwd,
                 struct err *err);

/* The message for EXEC_STEP_STDIO with ENOSPC. */
extern const char exec_no_terminal[];
/* Returns the name of a step of EXEC_FAILED. */
const char *exec_step_name(uint32_t step);
