/* Validation of egress handlers. Pure. */

#include "policy/egress-handler.h"

#include <string.h>

#include "base/address.h"
#include "policy/plain-path.h"

const char egress_handler_words[] =
    "must be the absolute path of a unix socket, or a port of loopback: /run/handler.sock, "
    "127.0.0.1:9000";

bool egress_handler_ok(const char *text)
{
    static const unsigned char one[16] = {[15] = 1};
    struct address a;

    if (text[0] == '/')
        return strlen(text) <= EGRESS_HANDLER_MAX && path_is_plain(text);
    if (address_parse(text, &a) < 0 || a.port == 0)
        return false;
    return a.family == 4 ? a.bytes[0] == 127 : memcmp(a.bytes, one, sizeof(one)) == 0;
}
