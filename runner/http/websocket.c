/* Owns nothing. Runs in the supervisor's loop thread; called by handlers that speak WebSocket. */
#include "http/websocket.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"

enum {
    PIECE_MAX = 4096, /* bytes of a payload that are unmasked at a time */
    BIT_FINAL = 0x80,
    BITS_RESERVED = 0x70,
    BITS_OPCODE = 0x0f,
    BIT_MASK = 0x80,
    BITS_LENGTH = 0x7f,
    LENGTH_16 = 126, /* two bytes of length follow */
    LENGTH_64 = 127, /* eight do */
};

/* ---- the handshake ---- */

bool ws_key_ok(const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    return strlen(key) == WS_KEY_LEN && strspn(key, digits) == WS_KEY_LEN - 2 &&
           strcmp(key + WS_KEY_LEN - 2, "==") == 0;
}

void ws_accept(const char *key, char ret[WS_ACCEPT_LEN + 1])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[WS_KEY_LEN + sizeof(guid)];
    unsigned char digest[SHA_DIGEST_LENGTH];

    (void)snprintf(text, sizeof(text), "%.*s%s", WS_KEY_LEN, key, guid);
    (void)SHA1((const unsigned char *)text, strlen(text), digest);
    ret[base64_encode(ret, digest, sizeof(digest))] = '\0';
}

/* ---- our frames ---- */

size_t ws_head(enum ws_opcode op, uint64_t len, unsigned char ret[WS_HEAD_MAX])
{
    const unsigned bytes = len < LENGTH_16 ? 0 : len <= UINT16_MAX ? 2 : 8;

    ret[0] = (unsigned char)(BIT_FINAL | (unsigned)op);
    ret[1] = (unsigned char)(bytes == 0 ? len : bytes == 2 ? LENGTH_16 : LENGTH_64);
    for (unsigned i = 0; i < bytes; i++)
        ret[2 + i] = (unsigned char)(len >> (8 * (bytes - 1 - i)));
    return 2 + bytes;
}

/* ---- the client's frames ---- */

static bool opcode_is_control(unsigned op)
{
    return (op & 8) != 0;
}

/* Returns the length of the head whose first two bytes are known. */
static size_t head_size(const struct ws_reader *r)
{
    const unsigned length = r->head[1] & BITS_LENGTH;

    return 2 + (length == LENGTH_16 ? 2U : length == LENGTH_64 ? 8U : 0U) + sizeof(r->mask);
}

/* Checks the first two bytes of a head. */
static int head_check(const struct ws_reader *r, struct err *err)
{
    const unsigned op = r->head[0] & BITS_OPCODE;
    const bool final = (r->head[0] & BIT_FINAL) != 0;

    if ((r->head[0] & BITS_RESERVED) != 0)
        return err_set(err, -EPROTO, "websocket: a frame with reserved bits");
    if ((r->head[1] & BIT_MASK) == 0)
        return err_set(err, -EPROTO, "websocket: a client's frame without a mask");
    if (opcode_is_control(op)) {
        if (op > WS_PONG)
            return err_set(err, -EPROTO, "websocket: unknown opcode %u", op);
        if (!final || (r->head[1] & BITS_LENGTH) > WS_CONTROL_MAX)
            return err_set(err, -EPROTO, "websocket: a control frame in parts, or too long");
        return 0;
    }
    if (op > WS_BINARY)
        return err_set(err, -EPROTO, "websocket: unknown opcode %u", op);
    if ((op == WS_CONTINUATION) != r->in_message)
        return err_set(err, -EPROTO, "websocket: %s",
                       r->in_message ? "a message within a message" : "the rest of no message");
    return 0;
}

/* Takes a whole head. */
static int head_take(struct ws_reader *r, struct err *err)
{
    const unsigned length = r->head[1] & BITS_LENGTH;
    const unsigned bytes = length == LENGTH_16 ? 2U : length == LENGTH_64 ? 8U : 0U;

    r->left = bytes == 0 ? length : 0;
    for (unsigned i = 0; i < bytes; i++)
        r->left = r->left << 8 | r->head[2 + i];
    if (r->left > INT64_MAX)
        return err_set(err, -EPROTO, "websocket: a frame of more than 2^63 bytes");
    (void)memcpy(r->mask, r->head + 2 + bytes, sizeof(r->mask));
    r->op = r->head[0] & BITS_OPCODE;
    r->final = (r->head[0] & BIT_FINAL) != 0;
    r->mask_at = 0;
    r->head_len = r->control_len = 0;
    r->in_payload = true;
    if (!opcode_is_control(r->op))
        r->in_message = !r->final;
    return 0;
}

/* len: at most PIECE_MAX. */
static bool payload_take(struct ws_reader *r, const char *bytes, size_t len,
                         const struct ws_events *events, void *data)
{
    char plain[PIECE_MAX];

    for (size_t i = 0; i < len; i++)
        plain[i] = (char)((unsigned char)bytes[i] ^ r->mask[r->mask_at++ & 3]);
    r->left -= len;
    if (!opcode_is_control(r->op))
        return len == 0 || events->data(data, plain, len);
    (void)memcpy(r->control + r->control_len, plain, len); /* head_check has bounded it */
    r->control_len += len;
    return r->left > 0 || events->control(data, (enum ws_opcode)r->op, r->control, r->control_len);
}

int ws_read(struct ws_reader *r, const char *bytes, size_t len, const struct ws_events *events,
            void *data, struct err *err)
{
    while (len > 0 || (r->in_payload && r->left == 0)) {
        size_t n;
        int e = 0;

        if (r->in_payload) {
            n = len < PIECE_MAX ? len : PIECE_MAX;
            n = r->left < n ? (size_t)r->left : n;
            r->in_payload = r->left > n;
            if (!payload_take(r, bytes, n, events, data))
                return 1;
            bytes += n;
            len -= n;
            continue;
        }
        r->head[r->head_len++] = (unsigned char)*bytes++;
        len--;
        if (r->head_len == 2)
            e = head_check(r, err);
        if (e == 0 && r->head_len > 2 && r->head_len == head_size(r))
            e = head_take(r, err);
        if (e < 0)
            return e;
    }
    return 0;
}
