#include "net/resolv.h"

#include <string.h>

enum { WORD_MAX = 64, LINE_MAX_LEN = 200 };

bool resolv_usable(const struct net_addr *a, bool v6)
{
    static const uint8_t zero[16];

    if (a->family == 4)
        return a->bytes[0] != 127 && a->bytes[0] != 0;
    /* "::", "::1", link-local (needs the host's interface) */
    return v6 && memcmp(a->bytes, zero, 15) != 0 &&
           !(a->bytes[0] == 0xfe && (a->bytes[1] & 0xc0) == 0x80);
}

static bool is_loopback(const struct net_addr *a)
{
    static const uint8_t one[16] = {[15] = 1};

    return a->family == 4 ? a->bytes[0] == 127 : memcmp(a->bytes, one, sizeof(one)) == 0;
}

/* The first word at `text`, without a zone. */
static bool word(const char *text, size_t len, char ret[WORD_MAX])
{
    size_t n = 0;

    while (n < len && strchr(" \t\r%", text[n]) == NULL)
        n++;
    if (n == 0 || n >= WORD_MAX)
        return false;
    (void)memcpy(ret, text, n);
    ret[n] = '\0';
    return true;
}

static bool take_server(struct net_box *box, const char *text, size_t len)
{
    char addr[WORD_MAX];
    struct net_addr a;

    if (!word(text, len, addr) || net_addr_parse(addr, &a) < 0)
        return false;
    if (resolv_usable(&a, box->route6 != 0) && box->dns_count < NET_DNS_MAX)
        box->dns[box->dns_count++] = a;
    return is_loopback(&a);
}

/* As it is, where every byte may stand in a resolv.conf. */
static void take_line(struct net_box *box, const char *line, size_t len)
{
    size_t have = strlen(box->search);

    for (size_t i = 0; i < len; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || (unsigned char)line[i] >= 0x7f)
            return;
    if (len > LINE_MAX_LEN || have + len + 2 > sizeof(box->search))
        return;
    (void)memcpy(box->search + have, line, len);
    box->search[have + len] = '\n';
    box->search[have + len + 1] = '\0';
}

/* What follows the keyword, or NULL. */
static const char *after(const char *line, size_t len, const char *keyword)
{
    size_t n = strlen(keyword);

    if (len <= n || memcmp(line, keyword, n) != 0 || (line[n] != ' ' && line[n] != '\t'))
        return NULL;
    while (n < len && (line[n] == ' ' || line[n] == '\t'))
        n++;
    return line + n;
}

bool resolv_take(struct net_box *box, const char *text, size_t len)
{
    bool stub = false;

    while (len > 0) {
        const char *newline = memchr(text, '\n', len), *rest;
        size_t line = newline != NULL ? (size_t)(newline - text) : len;
        size_t step = line + (newline != NULL);

        rest = after(text, line, "nameserver");
        if (rest != NULL)
            stub |= take_server(box, rest, line - (size_t)(rest - text));
        else if (after(text, line, "search") != NULL || after(text, line, "options") != NULL)
            take_line(box, text, line);
        text += step;
        len -= step;
    }
    return stub;
}
