#pragma once

/* The parts of message.h: message.c the reader, message-head.c what a head says, message-out.c
 * heads as written. */

#include <stdbool.h>
#include <stddef.h>

#include "http/message.h"

/* message-head.c */
/* True if replies of this status never have a body. */
bool is_bodiless(int status);
/* Both split the line in place. 0 or a negative errno; *status is set only where a client gets a
 * special one. */
int read_request_line(struct message *m, char *line, int *status, struct err *err);
int read_status_line(struct message *m, char *line, struct err *err);
/* Sets framing, keep-alive, host and upgrade from the headers. 0 or a negative errno. */
int read_headers(struct message *m, bool response, bool head_of_get, int *status, struct err *err);

/* message-out.c */
/* True if a field is allowed as a trailer: it neither frames nor routes a message. */
bool header_may_trail(const char *name);
