#pragma once

/*
 * The server's side of the WebSocket protocol (RFC 6455), as far as a stream of bytes needs it: the
 * handshake's answer, the frames of a client, which may be hostile, and the heads of our own.
 * Payloads are passed on piece by piece and never kept, so a frame may be of any length. Pure: no
 * I/O.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum {
    WS_KEY_LEN = 24,    /* digits of Sec-WebSocket-Key */
    WS_ACCEPT_LEN = 28, /* digits of Sec-WebSocket-Accept */
    WS_HEAD_MAX = 10,   /* bytes of a head of ours */
    WS_CONTROL_MAX = 125,
    WS_CLIENT_HEAD_MAX = 14,
};

/* Status codes of a close frame. */
enum { WS_NORMAL = 1000, WS_PROTOCOL_ERROR = 1002 };

enum ws_opcode {
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
};

/* True for a key as a client must send it: 16 bytes in base64. */
bool ws_key_ok(const char *key);
/* Makes Sec-WebSocket-Accept of a key that ws_key_ok accepts; NUL-terminated. */
void ws_accept(const char *key, char ret[WS_ACCEPT_LEN + 1]);

/* Writes the head of an unmasked frame of len bytes, which is a whole message. Returns its length.
 */
size_t ws_head(enum ws_opcode op, uint64_t len, unsigned char ret[WS_HEAD_MAX]);

/*
 * data: bytes of messages, in order; borrowed. control: a whole control frame. They return false to
 * end the reading, because the connection is over.
 */
struct ws_events {
    bool (*data)(void *data, const char *bytes, size_t len);
    bool (*control)(void *data, enum ws_opcode op, const char *bytes, size_t len);
};

struct ws_reader {
    unsigned char head[WS_CLIENT_HEAD_MAX];
    size_t head_len;
    bool in_payload, in_message; /* in_message: between the frames of one message */
    unsigned op;
    bool final;
    uint64_t left; /* of the payload */
    unsigned char mask[4];
    unsigned mask_at;
    char control[WS_CONTROL_MAX];
    size_t control_len;
};

/* Reads a piece of the client's stream. Zero-initialise the reader. 1: an event ended the reading;
 * -EPROTO: no client of the protocol sends this, and err says what. */
int ws_read(struct ws_reader *r, const char *bytes, size_t len, const struct ws_events *events,
            void *data, struct err *err);
