#include "base/detach-keys.h"

#include <errno.h>
#include <string.h>

static int parse_key(const char *text, size_t len, unsigned char *ret)
{
    static const char ctrl[] = "ctrl-";
    size_t skip = sizeof(ctrl) - 1;
    unsigned char c;

    if (len == 1 && text[0] > 0x20 && text[0] < 0x7f) {
        *ret = (unsigned char)text[0];
        return 0;
    }
    if (len != skip + 1 || strncmp(text, ctrl, skip) != 0)
        return -EINVAL;
    c = (unsigned char)text[skip];
    if (c >= 'a' && c <= 'z')
        c = (unsigned char)(c - 0x20);
    if (c < '@' || c > '_')
        return -EINVAL;
    *ret = c & 0x1f;
    return 0;
}

int keys_parse(const char *text, struct keys *ret)
{
    struct keys k = {.count = 0};

    while (*text != '\0') {
        size_t len = strcspn(text, ",");

        if (k.count == KEYS_MAX || parse_key(text, len, &k.keys[k.count++]) < 0)
            return -EINVAL;
        text += len;
        if (*text == ',' && *++text == '\0')
            return -EINVAL;
    }
    *ret = k;
    return 0;
}

bool keys_filter(struct keys *k, const char *bytes, size_t len, char *out, size_t *ret_len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        while (k->matched > 0 && c != k->keys[k->matched]) {
            /*
             * Keeps the longest prefix of the keys that is also a suffix of what was held back,
             * less its first byte.
             */
            unsigned keep = k->matched - 1;

            while (keep > 0 && memcmp(k->keys, k->keys + k->matched - keep, keep) != 0)
                keep--;
            (void)memcpy(out + n, k->keys, k->matched - keep);
            n += k->matched - keep;
            k->matched = keep;
        }
        if (k->count > 0 && c == k->keys[k->matched])
            k->matched++;
        else
            out[n++] = (char)c;
        if (k->count > 0 && k->matched == k->count) {
            k->matched = 0;
            *ret_len = n;
            return true;
        }
    }
    *ret_len = n;
    return false;
}
