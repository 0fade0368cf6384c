#pragma once

struct err;

/* Confines this process as supervisor: root_fd becomes its root directory, all ids become `uid`,
 * capabilities are dropped, Landlock (where the kernel has it) locks all files but those beneath
 * the root, and a seccomp filter allows only what a server on open fds needs: no execve, new
 * sockets, fork or mounts. All fds are opened before. Irrevocable. 0 or a negative errno; on
 * failure the process may be half confined and must exit. */
int confine_supervisor(int root_fd, unsigned uid, struct err *err);
