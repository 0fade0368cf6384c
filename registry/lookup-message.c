/*
 * The messages behind lookup-message.h (RFC 1035). Runs in rind-registry. Pure.
 */
#include "lookup-message.h"

#include <errno.h>
#include <string.h>

enum { HEAD = 12, LABEL_MAX = 63, NAME_WIRE_MAX = 255, FLAG_QR = 0x80, FLAG_TC = 0x02 };

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

int lookup_write(const char *name, int type, uint16_t id, uint8_t ret[LOOKUP_QUESTION_MAX])
{
    /* one question, recursion desired */
    const uint8_t head[HEAD] = {(uint8_t)(id >> 8), (uint8_t)id, 0x01, 0x00, 0, 1};
    size_t at = HEAD;

    (void)memcpy(ret, head, HEAD);
    while (*name != '\0') {
        size_t len = strcspn(name, ".");

        if (len == 0 || len > LABEL_MAX || at - HEAD + len + 2 > NAME_WIRE_MAX)
            return -EINVAL;
        ret[at++] = (uint8_t)len;
        (void)memcpy(ret + at, name, len);
        at += len;
        name += len;
        if (*name == '.')
            name++;
    }
    if (at == HEAD)
        return -EINVAL;
    ret[at++] = 0;
    ret[at++] = 0;
    ret[at++] = (uint8_t)type;
    ret[at++] = 0;
    ret[at++] = 1; /* IN */
    return (int)at;
}

/* Moves *at behind a name, which may end in a pointer. */
static bool message_skip_name(const uint8_t *data, size_t len, size_t *at)
{
    while (*at < len) {
        unsigned c = data[*at];

        if (c == 0) {
            *at += 1;
            return true;
        }
        if ((c & 0xc0) == 0xc0) {
            *at += 2;
            return *at <= len;
        }
        if (c > LABEL_MAX)
            return false;
        *at += 1 + c;
    }
    return false;
}

/* Compares the question's bytes; names without regard to case. */
static bool message_same_question(const uint8_t *a, const uint8_t *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned x = a[i], y = b[i];

        if (x >= 'A' && x <= 'Z')
            x |= 0x20;
        if (y >= 'A' && y <= 'Z')
            y |= 0x20;
        if (x != y)
            return false;
    }
    return true;
}

int lookup_read(const uint8_t *data, size_t data_len, const uint8_t *question, size_t len,
                struct lookup_answer *ret)
{
    struct lookup_answer a = {.count = 0};
    unsigned records;
    size_t at = len;

    if (data_len < len || memcmp(data, question, 2) != 0 || (data[2] & FLAG_QR) == 0 ||
        get16(data + 4) != 1 || !message_same_question(data + HEAD, question + HEAD, len - HEAD))
        return -EBADMSG;
    a.rcode = data[3] & 0xf;
    a.truncated = (data[2] & FLAG_TC) != 0;
    records = get16(data + 6);
    for (unsigned i = 0; i < records && !a.truncated; i++) {
        unsigned type, size;

        if (!message_skip_name(data, data_len, &at) || data_len - at < 10)
            return -EBADMSG;
        type = get16(data + at);
        size = get16(data + at + 8);
        at += 10;
        if (data_len - at < size)
            return -EBADMSG;
        if (a.count < LOOKUP_ADDRESSES_MAX &&
            ((type == LOOKUP_TYPE_A && size == 4) || (type == LOOKUP_TYPE_AAAA && size == 16))) {
            a.addresses[a.count].family = size == 4 ? 4 : 6;
            (void)memcpy(a.addresses[a.count++].bytes, data + at, size);
        }
        at += size;
    }
    *ret = a;
    return 0;
}
