/* How names are looked up inside: name servers' companions in resolv.conf, and the sandbox's own
 * domain. Pure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "spec/parse.h"
#include "spec/spec.h"

/* Appends a word to a list of words that are separated by spaces. */
static int dns_add_word(char **list, const char *text, const char *what, struct err *err)
{
    char *all = NULL;

    if ((*list != NULL ? strlen(*list) : 0) + strlen(text) + 1 > SPEC_DNS_WORDS_MAX)
        return err_set(err, -E2BIG, "%s \"%.*s\": more than %d bytes of all", what, QUOTE_MAX, text,
                       SPEC_DNS_WORDS_MAX);
    if (asprintf(&all, "%s%s%s", *list != NULL ? *list : "", *list != NULL ? " " : "", text) < 0)
        return err_errno(err, -ENOMEM, "%s", what);
    free(*list);
    *list = all;
    return 0;
}

/* A domain as a resolver may be given one: labels of letters, digits, '-' and '_', joined by dots,
 * with or without one at the end. */
static bool is_domain(const char *text, size_t max)
{
    static const char accepted[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t total = strlen(text);

    if (total == 0 || total > max)
        return false;
    for (;;) {
        const size_t len = strspn(text, accepted);

        if (len == 0 || len > 63 || text[0] == '-' || text[len - 1] == '-')
            return false;
        if (text[len] == '\0' || (text[len] == '.' && text[len + 1] == '\0'))
            return true;
        if (text[len] != '.')
            return false;
        text += len + 1;
    }
}

int spec_add_dns_search(struct spec *s, const char *text, struct err *err)
{
    const bool none = strcmp(text, ".") == 0;

    if (!none && !is_domain(text, SPEC_DNS_WORDS_MAX))
        return err_set(err, -EINVAL,
                       "dns-search \"%.*s\": must be a domain, or . alone for none of the host's",
                       QUOTE_MAX, text);
    if (s->dns_search != NULL && (none || strcmp(s->dns_search, ".") == 0))
        return err_set(err, -EINVAL, "dns-search \"%.*s\": . goes with no other domain", QUOTE_MAX,
                       text);
    return dns_add_word(&s->dns_search, text, "dns-search", err);
}

int spec_add_dns_option(struct spec *s, const char *text, struct err *err)
{
    bool plain = text[0] != '\0';

    for (const char *p = text; *p != '\0'; p++)
        plain &= *p > ' ' && *p < 0x7f && *p != '#' && *p != ';';
    if (!plain)
        return err_set(err, -EINVAL,
                       "dns-option \"%.*s\": must be an option of resolv.conf(5), such as ndots:2",
                       QUOTE_MAX, text);
    return dns_add_word(&s->dns_options, text, "dns-option", err);
}

int spec_set_domainname(struct spec *s, const char *text, struct err *err)
{
    char *copy;

    if (!is_domain(text, SPEC_DOMAIN_MAX) || text[strlen(text) - 1] == '.')
        return err_set(err, -EINVAL,
                       "domainname \"%.*s\": must be at most %d letters, digits, - and _, in parts "
                       "joined by dots",
                       QUOTE_MAX, text, SPEC_DOMAIN_MAX);
    copy = strdup(text);
    if (copy == NULL)
        return err_errno(err, -ENOMEM, "domainname");
    free(s->domainname);
    s->domainname = copy;
    return 0;
}

int spec_validate_dns(const struct spec *s, struct err *err)
{
    if (s->net_container == NULL)
        return 0;
    if (s->dns_search != NULL || s->dns_options != NULL)
        return err_set(err, -EINVAL,
                       "network.dnsSearch, dnsOptions: a sandbox in the network of another has the "
                       "other's resolv.conf");
    if (s->domainname != NULL)
        return err_set(err, -EINVAL,
                       "domainname: a sandbox in the network of another has the other's names");
    return 0;
}
