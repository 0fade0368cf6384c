#pragma once

/* Where connections of a sandbox can be handed to: "/run/handler.sock", "127.0.0.1:9000",
 * "[::1]:9000". Pure. */

#include <stdbool.h>

enum { EGRESS_HANDLER_MAX = 107 /* bytes: what fits into a sockaddr_un */ };

/* An absolute path without "." and "..", or an address and port of loopback: nothing far away. */
bool egress_handler_ok(const char *text);
/* What is accepted, for messages. */
extern const char egress_handler_words[];
