#pragma once

/*
 * A doctor's report for a process that cannot look itself: a child that is nobody's any more asks
 * the host, writes the report as JSON and ends. For single-threaded processes, before they serve.
 */

struct err;

/* *ret_fd: the read end of a pipe; its end of file ends the report. The child holds nothing else
 * that is open here. */
int doctor_fork(const char *state_dir, int *ret_fd, struct err *err);
