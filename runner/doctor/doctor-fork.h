#pragma once

/*
 * Writes a doctor's report from a detached grandchild, for a process that cannot fork later on. The
 * grandchild probes the host, writes the report as JSON and exits. Call it from a single-threaded
 * process, before it serves clients.
 */

struct err;

/*
 * *ret_fd: read end of a pipe; EOF marks the end of the report. The grandchild closes all other
 * file descriptors it inherited. Waits only for the short-lived first child.
 */
int doctor_fork(const char *state_dir, int *ret_fd, struct err *err);
