#pragma once

/* The parts of message.h: message.c the reader, message-head.c what a head says, message-out.c
 * heads as they go on. */

#include <stdbool.h>
#include <stddef.h>

#include "gateway/message.h"

/* message-head.c */
/* RFC 9110: a method, a header's name. */
bool is_token(const char *text);
/* Whether a comma-separated list holds this token, in any case. */
bool list_has(const char *list, const char *token);
/* Whether replies of this status never have a body. */
bool is_bodiless(int status);
/* Both cut the line into strings. */
int read_request_line(struct message *m, char *line, int *status, struct err *err);
int read_status_line(struct message *m, char *line, struct err *err);
/* Framing, keep-alive, host, upgrade. */
int read_headers(struct message *m, bool response, bool head_of_get, int *status, struct err *err);

/* message-out.c */
/* Whether a field may stand behind a body: none that says where the body ends or whom it is for. */
bool header_may_trail(const char *name);
