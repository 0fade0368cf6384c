#pragma once

/*
 * Addresses that connections of a sandbox can be handed to: "/run/handler.sock", "127.0.0.1:9000",
 * "[::1]:9000". Pure.
 */

#include <stdbool.h>

enum { EGRESS_HANDLER_MAX = 107 /* bytes; longest path in a sockaddr_un */ };

/*
 * True for an absolute path without "." and "..", and for a loopback address with a port. Remote
 * addresses are refused.
 */
bool egress_handler_ok(const char *text);
/* Text for messages: the accepted forms. */
extern const char egress_handler_words[];
