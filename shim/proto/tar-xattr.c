/* Owns the rules for extended attributes in archives: names, and libarchive's form of them. Pure;
 * runs in every reader of archives, called by tar.c. */
#include "proto/tar-xattr.h"

#include <stdint.h>
#include <string.h>

bool tar_xattr_settable(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0 ||
           strcmp(name, "system.posix_acl_access") == 0 ||
           strcmp(name, "system.posix_acl_default") == 0;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool name_decode(char *name)
{
    char *to = name;

    for (const char *at = name; *at != '\0'; at++) {
        int high, low;

        if (*at != '%') {
            *to++ = *at;
            continue;
        }
        high = hex_digit(at[1]);
        low = high < 0 ? -1 : hex_digit(at[2]);
        if (low < 0)
            return false;
        *to = (char)(high << 4 | low);
        if (*to == '\0' || *to == '=')
            return false;
        to++;
        at += 2;
    }
    *to = '\0';
    return true;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool tar_xattr_decode(char *name, char *value, size_t *len)
{
    size_t in = *len, out = 0;
    uint32_t bits = 0;
    unsigned count = 0;

    for (int pad = 0; pad < 2 && in > 0 && value[in - 1] == '='; pad++)
        in--;
    if (in % 4 == 1 || !name_decode(name))
        return false;
    for (size_t i = 0; i < in; i++) {
        int digit = base64_digit(value[i]);

        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        count += 6;
        if (count >= 8) {
            count -= 8;
            value[out++] = (char)(bits >> count);
        }
    }
    *len = out;
    return true;
}
