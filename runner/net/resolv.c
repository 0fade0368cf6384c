#include "net/resolv.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64, LINE_MAX_LEN = 200 };

/* True if a sandbox can use this server. */
static bool is_usable(const struct net_addr *a, bool v6)
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

/* Copies the first word at `text`, without a zone. */
static bool text_word(const char *text, size_t len, char ret[WORD_MAX])
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

static bool box_take_server(struct net_setup *setup, const char *text, size_t len)
{
    char addr[WORD_MAX];
    struct net_addr a;

    if (!text_word(text, len, addr) || net_addr_parse(addr, &a) < 0)
        return false;
    if (is_usable(&a, setup->route6 != 0) && setup->dns_count < NET_DNS_MAX)
        setup->dns[setup->dns_count++] = a;
    return is_loopback(&a);
}

/* Copies the line if all of its bytes are allowed in a resolv.conf. */
static void box_take_line(struct net_setup *setup, const char *line, size_t len)
{
    size_t have = strlen(setup->search);

    for (size_t i = 0; i < len; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t') || (unsigned char)line[i] >= 0x7f)
            return;
    if (len > LINE_MAX_LEN || have + len + 2 > sizeof(setup->search))
        return;
    (void)memcpy(setup->search + have, line, len);
    setup->search[have + len] = '\n';
    setup->search[have + len + 1] = '\0';
}

/* Returns the text after the keyword, or NULL. */
static const char *keyword_rest(const char *line, size_t len, const char *keyword)
{
    size_t n = strlen(keyword);

    if (len <= n || memcmp(line, keyword, n) != 0 || (line[n] != ' ' && line[n] != '\t'))
        return NULL;
    while (n < len && (line[n] == ' ' || line[n] == '\t'))
        n++;
    return line + n;
}

/* Returns the flag of a line's kind; 0: another kind. */
static unsigned line_kind(const char *line, size_t len)
{
    if (keyword_rest(line, len, "search") != NULL)
        return NET_OWN_SEARCH;
    return keyword_rest(line, len, "options") != NULL ? NET_OWN_OPTIONS : 0;
}

void resolv_forget_lines(struct net_setup *setup)
{
    const char *at = setup->search;
    char kept[sizeof(setup->search)] = "";
    size_t n = 0;

    while (*at != '\0') {
        const size_t len = strcspn(at, "\n");
        const size_t whole = len + (at[len] == '\n');

        if ((line_kind(at, len) & setup->own_lines) != 0) {
            (void)memcpy(kept + n, at, whole);
            n += whole;
        }
        at += whole;
    }
    (void)memcpy(setup->search, kept, sizeof(kept));
}

bool resolv_take(struct net_setup *setup, const char *text, size_t len)
{
    bool stub = false;

    while (len > 0) {
        const char *newline = memchr(text, '\n', len), *rest;
        size_t line = newline != NULL ? (size_t)(newline - text) : len;
        size_t step = line + (newline != NULL);

        rest = keyword_rest(text, line, "nameserver");
        if (rest != NULL)
            stub |= box_take_server(setup, rest, line - (size_t)(rest - text));
        else if (line_kind(text, line) != 0 && (line_kind(text, line) & setup->own_lines) == 0)
            box_take_line(setup, text, line);
        text += step;
        len -= step;
    }
    return stub;
}

/* ---- for the host itself ---- */

enum { DNS_PORT = 53 };

int resolv_server(const struct net_addr *a, unsigned scope, struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)ret;

    (void)memset(ret, 0, sizeof(*ret));
    if (a->family == 4) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(DNS_PORT);
        (void)memcpy(&v4->sin_addr, a->bytes, 4);
    } else {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(DNS_PORT);
        v6->sin6_scope_id = scope;
        (void)memcpy(&v6->sin6_addr, a->bytes, 16);
    }
    return 0;
}

/* Parses "%eth0" or "%2". A missing interface gives no scope, and the address is then unreachable.
 */
static unsigned zone_scope(const char *text, size_t len)
{
    const char *percent = memchr(text, '%', len);
    char zone[WORD_MAX];
    unsigned index;

    if (percent == NULL || !text_word(percent + 1, len - (size_t)(percent + 1 - text), zone))
        return 0;
    index = if_nametoindex(zone);
    return index != 0 ? index : (unsigned)strtoul(zone, NULL, 10);
}

int resolv_nth(const char *text, size_t len, unsigned index, struct sockaddr_storage *ret)
{
    static const struct net_addr own = {.family = 4, .bytes = {127, 0, 0, 1}};
    unsigned seen = 0;

    while (len > 0) {
        const char *newline = memchr(text, '\n', len), *rest;
        size_t line = newline != NULL ? (size_t)(newline - text) : len;
        size_t step = line + (newline != NULL);
        char addr[WORD_MAX];
        struct net_addr a;

        rest = keyword_rest(text, line, "nameserver");
        if (rest != NULL && text_word(rest, line - (size_t)(rest - text), addr) &&
            net_addr_parse(addr, &a) == 0 && seen++ == index)
            return resolv_server(&a, zone_scope(rest, line - (size_t)(rest - text)), ret);
        text += step;
        len -= step;
    }
    if (seen == 0 && index == 0)
        return resolv_server(&own, 0, ret);
    return -ENOENT;
}
