#pragma once

/* JSON encoders for output, end and errors of processes, common to all forms. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct exec;

/* A shell's exit codes for a program that is not executable, or missing. */
enum { STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };

/* Encodes bytes as text if they are UTF-8, else as base64. Returns the string; *ret_base64 tells
 * which. NULL on OOM. */
json_t *exec_bytes(const void *data, size_t len, bool *ret_base64);
/* Encodes {"data":"…"}, with "encoding":"base64" if so. NULL on OOM. */
json_t *exec_chunk(const void *data, size_t len);

/* Returns the number of bytes (0 to 3) at the end of data that may be an incomplete character. */
size_t exec_text_tail(const char *data, size_t len);

/* Encodes how an exec ended: exitCode, signal ("SIGKILL" or null), timedOut, reason (null,
 * "timeout", "sandboxEnded"). NULL on OOM. */
json_t *exec_encode_end(const struct exec *e);
/* Encodes an exec for lists and inspection. NULL on OOM. */
json_t *exec_encode(const struct exec *e);
/* Encodes {"code":"ENOENT","message":"…","errno":2}, and exitCode (126, 127) if a shell would
 * have one. NULL on OOM. */
json_t *exec_encode_error(const struct err *err, int exit_code);
