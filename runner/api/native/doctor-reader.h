#pragma once

/*
 * The doctor's report for clients. The supervisor is confined and cannot look at the host: a child
 * of the launcher's does it at the start (core/doctor-fork.h) and writes the report to a pipe,
 * which is read here. Who asks before it is there waits for it.
 */

#include <uv.h>

struct doctor_reader;
struct http_request;

/* Takes fd, the pipe's read end, in any case; -1: there is no report. *ret is set on success. */
int doctor_reader_new(uv_loop_t *loop, int fd, struct doctor_reader **ret);
/* Frees it when its handles are closed. Nobody waits any more. NULL is fine. */
void doctor_reader_close(struct doctor_reader *d);
/* Answers the request, now or when the report is there. */
void doctor_reader_answer(struct doctor_reader *d, struct http_request *req);
