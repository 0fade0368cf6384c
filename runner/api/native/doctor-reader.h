#pragma once

/* The doctor's report for clients. The supervisor is confined and cannot examine the host: a
 * child of the launcher does so at the start (doctor/doctor-fork.h) and writes the report to a
 * pipe, which is read here. Earlier requests wait for it.
 *
 * Runs in the supervisor's loop thread. */

#include <uv.h>

struct doctor_reader;
struct http_request;

/* Always takes fd, the pipe's read end; -1: there is no report. Sets *ret on success. -ENOMEM. */
int doctor_reader_new(uv_loop_t *loop, int fd, struct doctor_reader **ret);
/* Frees d when its handles are closed. No request may be waiting. NULL is allowed. */
void doctor_reader_close(struct doctor_reader *d);
/* Answers the request now, or when the report has arrived. */
void doctor_reader_answer(struct doctor_reader *d, struct http_request *req);
