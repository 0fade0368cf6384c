/* The network options of a spec. Pure, except for reading an egress file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "base/strtab.h"
#include "json/parse.h"
#include "policy/egress.h"
#include "policy/tables.h"
#include "spec/parse.h"
#include "spec/spec.h"

static const char words[] = "must be none, internet, container:NAME, or the name of a network";

static int replace_string(char **member, const char *text, struct err *err)
{
    char *copy = strdup(text);

    if (copy == NULL)
        return err_errno(err, -ENOMEM, "network");
    free(*member);
    *member = copy;
    return 0;
}

/* The kernel uses a network's name as well, hence the restricted characters. */
static bool is_network_name(const char *text)
{
    static const char accepted[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";

    return parse_is_name(text, SPEC_NETWORK_MAX) && strspn(text, accepted) == strlen(text);
}

/* Words with a meaning in other tools must not become network names by mistake. */
static int check_reserved(const char *text, struct err *err)
{
    if (strcmp(text, "host") == 0)
        return err_set(err, -EPERM, "network \"host\": no sandbox has the host's network");
    if (strcmp(text, "bridge") == 0 || strcmp(text, "default") == 0)
        return err_set(err, -EINVAL, "network \"%s\": %s; what others call so is internet here",
                       text, words);
    return 0;
}

int spec_set_network(struct spec *s, const char *text, struct err *err)
{
    static const char container[] = "container:";
    int mode = strtab_value(net_mode_names, text), r;

    if (mode >= 0) {
        s->network = (enum net_mode)mode;
        return 0;
    }
    if (strncmp(text, container, sizeof(container) - 1) == 0) {
        const char *name = text + sizeof(container) - 1;

        if (!parse_is_name(name, SPEC_NAME_MAX))
            return err_set(err, -EINVAL, "network \"%.*s\": %s", QUOTE_MAX, text, words);
        return replace_string(&s->net_container, name, err);
    }
    r = check_reserved(text, err);
    if (r < 0)
        return r;
    if (!is_network_name(text))
        return err_set(err, -EINVAL,
                       "network \"%.*s\": %s: lower-case letters, digits, _ . and -, at most %d",
                       QUOTE_MAX, text, words, SPEC_NETWORK_MAX);
    return replace_string(&s->net_name, text, err);
}

int spec_add_allow_net(struct spec *s, const char *text, struct err *err)
{
    int r = net_access_add_rule(&s->access, text, false, err);

    return r < 0 ? err_wrap(err, r, "allow-net") : 0;
}

int spec_add_deny_net(struct spec *s, const char *text, struct err *err)
{
    int r = net_access_add_rule(&s->access, text, true, err);

    return r < 0 ? err_wrap(err, r, "deny-net") : 0;
}

int spec_add_host_port(struct spec *s, const char *text, struct err *err)
{
    int r = net_access_add_port(&s->access, text, err);

    return r < 0 ? err_wrap(err, r, "host-port") : 0;
}

int spec_add_dns(struct spec *s, const char *text, struct err *err)
{
    struct net_addr a;

    if (net_addr_parse(text, &a) < 0 || !net_addr_ok(&a))
        return err_set(err, -EINVAL, "dns \"%.*s\": must be an IPv4 or IPv6 address", QUOTE_MAX,
                       text);
    if (s->dns_count == NET_DNS_MAX)
        return err_set(err, -E2BIG, "dns \"%.*s\": more than %d name servers", QUOTE_MAX, text,
                       NET_DNS_MAX);
    s->dns[s->dns_count++] = a;
    return 0;
}

/* ---- egress ---- */

static int add_host(struct spec *s, const char *text, enum egress_action action, struct err *err)
{
    bool first = s->egress == NULL;
    int r;

    if (first)
        s->egress = egress_new();
    if (s->egress == NULL)
        return err_errno(err, -ENOMEM, "egress");
    if (action == EGRESS_ALLOW)
        s->egress->open = false;
    if (s->network == NET_INVALID)
        s->network = NET_INTERNET;
    else if (first)
        s->egress->open = true;
    r = egress_add(s->egress, text, EGRESS_PROTOCOLS, action, NULL, err);
    return r < 0 ? r : egress_index(s->egress, err);
}

int spec_add_allow_host(struct spec *s, const char *text, struct err *err)
{
    int r = add_host(s, text, EGRESS_ALLOW, err);

    return r < 0 ? err_wrap(err, r, "allow-host") : 0;
}

int spec_add_deny_host(struct spec *s, const char *text, struct err *err)
{
    int r = add_host(s, text, EGRESS_DENY, err);

    return r < 0 ? err_wrap(err, r, "deny-host") : 0;
}

int spec_set_egress_file(struct spec *s, const char *path, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct egress_rules *rules = NULL;
    auto_free char *text = NULL;
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t len = 0;
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "egress: %s", path);
    r = file_read_fd(fd, EGRESS_TEXT_MAX, &text, &len, err);
    if (r == 0)
        r = json_parse(text, len, EGRESS_TEXT_MAX, &root, err);
    if (r == 0)
        r = egress_from_json(root, NULL, &rules, err);
    if (r < 0)
        return err_wrap(err, r, "egress: %s", path);
    egress_free(s->egress);
    s->egress = rules;
    return 0;
}

static const char host_gateway[] = "host-gateway";

static bool is_host_name(const char *text, size_t len)
{
    static const char accepted[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    return len > 0 && len <= SPEC_HOST_NAME_MAX && strspn(text, accepted) >= len;
}

int spec_add_host(struct spec *s, const char *text, struct err *err)
{
    size_t len = strcspn(text, ":");
    struct extra_host h = {.name = ""};

    if (text[len] == '\0' || !is_host_name(text, len))
        return err_set(err, -EINVAL,
                       "add-host \"%.*s\": must be NAME:ADDRESS or NAME:host-gateway, the name of "
                       "letters, digits, -, _ and . and at most %d bytes",
                       QUOTE_MAX, text, SPEC_HOST_NAME_MAX);
    if (strcmp(text + len + 1, host_gateway) != 0 &&
        (net_addr_parse(text + len + 1, &h.addr) < 0 || !net_addr_ok(&h.addr)))
        return err_set(err, -EINVAL,
                       "add-host \"%.*s\": behind the name must be an IPv4 or IPv6 address, or %s",
                       QUOTE_MAX, text, host_gateway);
    if (s->host_count == SPEC_HOSTS_MAX)
        return err_set(err, -E2BIG, "add-host \"%.*s\": more than %d", QUOTE_MAX, text,
                       SPEC_HOSTS_MAX);
    (void)memcpy(h.name, text, len);
    s->hosts[s->host_count++] = h;
    return 0;
}

/* Appends a word without spaces. what: for the error when there are more than max. */
static int words_add(char **list, const char *text, size_t max, const char *what, struct err *err)
{
    auto_free char *all = NULL;
    size_t count = 1;

    for (const char *p = *list; p != NULL && *p != '\0'; p++)
        count += *p == ' ';
    count += *list != NULL;
    if (count > max)
        return err_set(err, -E2BIG, "%s \"%.*s\": more than %zu", what, QUOTE_MAX, text, max);
    if (*list == NULL)
        return replace_string(list, text, err);
    if (asprintf(&all, "%s %s", *list, text) < 0) {
        all = NULL;
        return err_errno(err, -ENOMEM, "%s", what);
    }
    return replace_string(list, all, err);
}

static int aliases_add(char **list, const char *text, struct err *err)
{
    if (!is_host_name(text, strlen(text)))
        return err_set(err, -EINVAL,
                       "network-alias \"%.*s\": must be letters, digits, -, _ and ., and at most "
                       "%d bytes",
                       QUOTE_MAX, text, SPEC_HOST_NAME_MAX);
    return words_add(list, text, SPEC_ALIASES_MAX, "network-alias", err);
}

int spec_add_net_link(struct spec *s, const char *text, struct err *err)
{
    const char *alias = strchr(text, ':');
    char name[SPEC_NAME_MAX + 1];

    if (alias == NULL || (size_t)(alias - text) > SPEC_NAME_MAX ||
        !is_host_name(alias + 1, strlen(alias + 1)))
        return err_set(err, -EINVAL, "link \"%.*s\": must be NAME:ALIAS", QUOTE_MAX, text);
    (void)snprintf(name, sizeof(name), "%.*s", (int)(alias - text), text);
    if (!parse_is_name(name, SPEC_NAME_MAX))
        return err_set(err, -EINVAL, "link \"%.*s\": must be NAME:ALIAS", QUOTE_MAX, text);
    return words_add(&s->net_links, text, SPEC_LINKS_MAX, "link", err);
}

int spec_add_net_alias(struct spec *s, const char *text, struct err *err)
{
    return aliases_add(&s->net_aliases, text, err);
}

static bool has_word(const char *all, const char *word)
{
    const size_t len = strlen(word);

    for (const char *p = all; *p != '\0';) {
        size_t n = strcspn(p, " ");

        if (n == len && strncmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* ---- several named networks ---- */

void spec_net_done(struct spec_net *n)
{
    free(n->name);
    free(n->aliases);
    *n = (struct spec_net){.name = NULL};
}

const char *spec_net(const struct spec *s, size_t i, const char **ret_aliases)
{
    const char *aliases = NULL, *name = NULL;

    if (i == 0) {
        name = s->net_name;
        aliases = s->net_aliases;
    } else if (i <= s->more_net_count) {
        name = s->more_nets[i - 1].name;
        aliases = s->more_nets[i - 1].aliases;
    }
    if (ret_aliases != NULL)
        *ret_aliases = aliases;
    return name;
}

const struct spec_lan *spec_net_lan(const struct spec *s, size_t i)
{
    if (spec_net(s, i, NULL) == NULL)
        return NULL;
    return i == 0 ? &s->net_lan : &s->more_nets[i - 1].lan;
}

const struct net_addr *spec_net_address(const struct spec *s, const char *name)
{
    const struct spec_lan *lan;

    for (size_t i = 0; (lan = spec_net_lan(s, i)) != NULL; i++)
        if (strcmp(spec_net(s, i, NULL), name) == 0)
            return lan->address.family != 0 ? &lan->address : NULL;
    return NULL;
}

int spec_set_ip(struct spec *s, const char *text, struct err *err)
{
    struct net_addr a;

    if (net_addr_parse(text, &a) < 0 || a.family != 4)
        return err_set(err, -EINVAL, "ip \"%.*s\": must be an IPv4 address", QUOTE_MAX, text);
    s->net_lan.address = a;
    return 0;
}

int spec_set_net_address(struct spec *s, const char *name, const char *text, struct err *err)
{
    struct net_addr a;

    if (net_addr_parse(text, &a) < 0 || a.family != 4)
        return err_set(err, -EINVAL, "network \"%.*s\": \"%.*s\" must be an IPv4 address",
                       QUOTE_MAX, name, QUOTE_MAX, text);
    if (s->net_name != NULL && strcmp(s->net_name, name) == 0) {
        s->net_lan.address = a;
        return 0;
    }
    for (size_t i = 0; i < s->more_net_count; i++)
        if (strcmp(s->more_nets[i].name, name) == 0) {
            s->more_nets[i].lan.address = a;
            return 0;
        }
    return err_set(err, -ENOENT, "network \"%.*s\": it is not there", QUOTE_MAX, name);
}

bool spec_has_net(const struct spec *s, const char *name)
{
    const char *own;

    for (size_t i = 0; (own = spec_net(s, i, NULL)) != NULL; i++)
        if (strcmp(own, name) == 0)
            return true;
    return false;
}

int spec_add_net(struct spec *s, const char *name, const char *const *aliases, struct err *err)
{
    struct spec_net n = {.name = NULL};
    int r = check_reserved(name, err);

    if (r == 0 && (!is_network_name(name) || strtab_value(net_mode_names, name) >= 0))
        r = err_set(err, -EINVAL, "network \"%.*s\": must be the name of a network", QUOTE_MAX,
                    name);
    if (r == 0 && spec_has_net(s, name))
        r = err_set(err, -EEXIST, "network \"%s\": it is there already", name);
    if (r == 0 && s->more_net_count == SPEC_NETS_MORE_MAX)
        r = err_set(err, -E2BIG, "network \"%s\": more than %d", name, SPEC_NETS_MORE_MAX + 1);
    if (r == 0)
        r = replace_string(&n.name, name, err);
    for (; r == 0 && aliases != NULL && *aliases != NULL; aliases++)
        r = aliases_add(&n.aliases, *aliases, err);
    if (r < 0) {
        spec_net_done(&n);
        return r;
    }
    if (s->net_name == NULL) {
        free(s->net_aliases);
        s->net_name = n.name;
        s->net_aliases = n.aliases;
        s->net_lan = n.lan;
    } else {
        s->more_nets[s->more_net_count++] = n;
    }
    return 0;
}

int spec_drop_net(struct spec *s, const char *name, struct err *err)
{
    size_t i = 0;

    if (s->net_name != NULL && strcmp(s->net_name, name) == 0) {
        free(s->net_name);
        free(s->net_aliases);
        s->net_name = s->net_aliases = NULL;
        s->net_lan = s->more_nets[0].lan;
        if (s->more_net_count == 0)
            return 0;
        s->net_name = take(s->more_nets[0].name); /* the next one is the first now */
        s->net_aliases = take(s->more_nets[0].aliases);
    } else {
        while (i < s->more_net_count && strcmp(s->more_nets[i].name, name) != 0)
            i++;
        if (i == s->more_net_count)
            return err_set(err, -ENOENT, "network \"%.*s\": it is not there", QUOTE_MAX, name);
        spec_net_done(&s->more_nets[i]);
    }
    s->more_net_count--;
    (void)memmove(&s->more_nets[i], &s->more_nets[i + 1],
                  (s->more_net_count - i) * sizeof(s->more_nets[0]));
    s->more_nets[s->more_net_count] = (struct spec_net){.name = NULL};
    return 0;
}

int spec_net_names(const struct spec *s, size_t i, char **ret, struct err *err)
{
    const char *name = s->name != NULL ? s->name : "", *aliases;

    (void)spec_net(s, i, &aliases);
    if (aliases == NULL)
        aliases = "";

    *ret = NULL;
    if (!is_host_name(name, strlen(name)) || has_word(aliases, name))
        name = "";
    if (name[0] == '\0' && aliases[0] == '\0')
        return 0;
    if (asprintf(ret, "%s%s%s", name, name[0] != '\0' && aliases[0] != '\0' ? " " : "", aliases) <
        0) {
        *ret = NULL;
        return err_errno(err, -ENOMEM, "network");
    }
    return 0;
}

void spec_format_host(const struct extra_host *h, char text[SPEC_HOST_TEXT_MAX])
{
    char addr[NET_ADDR_TEXT_MAX];

    if (h->addr.family != 0)
        net_addr_format(&h->addr, addr);
    (void)snprintf(text, SPEC_HOST_TEXT_MAX, "%s:%s", h->name,
                   h->addr.family != 0 ? addr : host_gateway);
}

int spec_validate_network(const struct spec *s, struct err *err)
{
    if (s->net_links != NULL && s->net_name == NULL)
        return err_set(err, -EINVAL, "network.links: only in a network that has a name");
    if ((s->net_aliases != NULL || s->more_net_count > 0) && s->net_name == NULL)
        return err_set(err, -EINVAL, "network.aliases: only in a network that has a name");
    if (s->net_lan.address.family != 0 && s->net_name == NULL)
        return err_set(err, -EINVAL,
                       "network.address: user specified IP address is supported on user defined "
                       "networks only");
    if (spec_validate_dns(s, err) < 0)
        return -EINVAL;
    if (s->net_container == NULL)
        return 0;
    if (s->egress != NULL)
        return err_set(err, -EINVAL, "egress: a sandbox in the network of another has the other's");
    if (s->network != NET_INVALID || s->net_name != NULL || s->access.rule_count > 0 ||
        s->access.port_count > 0 || s->dns_count > 0)
        return err_set(err, -EINVAL,
                       "network \"container:%s\": has all of the other's network, and nothing "
                       "beside it",
                       s->net_container);
    if (s->resources.net_rate != LIMIT_UNSET)
        return err_set(err, -EINVAL,
                       "limits.networkRate: a sandbox in the network of another has the other's");
    if (s->host_count > 0)
        return err_set(
            err, -EINVAL,
            "extraHosts: a sandbox in the network of another has the other's /etc/hosts");
    if (s->hostname != NULL)
        return err_set(err, -EINVAL,
                       "hostname: a sandbox in the network of another has the other's");
    return 0;
}
