#pragma once

/* How output, ends and errors of processes look in JSON, the same in every form. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct exec;

/* What a shell ends with for a program that is none, or is not there. */
enum { STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

/*
 * Bytes as text when they are UTF-8, else as base64. Returns the string; *ret_base64 says which.
 * NULL on OOM.
 */
json_t *exec_bytes(const void *data, size_t len, bool *ret_base64);
/* {"data":"…"}, with "encoding":"base64" where it is that. NULL on OOM. */
json_t *exec_chunk(const void *data, size_t len);

/* Bytes at the end of data that may be the beginning of a character: 0 to 3. */
size_t exec_text_tail(const char *data, size_t len);

/* How an exec that has ended did: exitCode, signal ("SIGKILL" or null), timedOut, reason (null,
 * "timeout", "sandboxEnded"). NULL on OOM. */
json_t *exec_encode_end(const struct exec *e);
/* The whole exec, as lists and inspection show it. */
json_t *exec_encode(const struct exec *e);
/* {"code":"ENOENT","message":"…","errno":2}, and exitCode (126, 127) where a shell would have one.
 */
json_t *exec_encode_error(const struct err *err, int exit_code);
