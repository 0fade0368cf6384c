/* Parsing and formatting of image references. Pure functions. */

#include "image/reference.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

enum { QUOTED = 128 /* bytes of a foreign text quoted in a message */ };

static const char default_registry[] = "docker.io", official[] = "library/";

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* ---- digests ---- */

bool digest_prefix(const char *text, size_t min, const char **ret_hex)
{
    size_t n = 0;

    if (strncmp(text, "sha256:", 7) == 0)
        text += 7;
    while (n <= DIGEST_HEX_LEN && is_hex(text[n]))
        n++;
    if (text[n] != '\0' || n < min || n > DIGEST_HEX_LEN)
        return false;
    *ret_hex = text;
    return true;
}

bool digest_ok(const char *text)
{
    const char *hex;

    return strncmp(text, "sha256:", 7) == 0 && digest_prefix(text, DIGEST_HEX_LEN, &hex);
}

/* ---- parts of a reference ---- */

/* Letters, digits and inner hyphens, joined by dots; then an optional port. */
static bool is_registry(const char *text, size_t len)
{
    size_t i = 0, port = 0;

    if (len > 0 && text[0] == '[') { /* an IPv6 address */
        for (i = 1; i < len && (is_hex(text[i]) || text[i] == ':'); i++)
            ;
        if (i == 1 || i == len || text[i++] != ']')
            return false;
    } else {
        for (;;) {
            size_t begin = i;

            while (i < len && (is_alnum(text[i]) || text[i] == '-'))
                i++;
            if (i == begin || text[begin] == '-' || text[i - 1] == '-')
                return false;
            if (i == len || text[i] != '.')
                break;
            i++;
        }
    }
    if (i == len)
        return true;
    if (text[i++] != ':')
        return false;
    for (port = 0; i < len && text[i] >= '0' && text[i] <= '9' && port < 5; i++)
        port++;
    return i == len && port > 0;
}

/* Lower-case letters and digits, joined by one dot, one or two underscores, or hyphens. */
static bool is_component(const char *text, size_t len)
{
    size_t i = 0;

    for (;;) {
        size_t begin = i;

        while (i < len && is_lower(text[i]))
            i++;
        if (i == begin)
            return false;
        if (i == len)
            return true;
        if (text[i] == '-')
            while (i < len && text[i] == '-')
                i++;
        else if (text[i] == '_')
            i += i + 1 < len && text[i + 1] == '_' ? 2 : 1;
        else if (text[i] == '.')
            i++;
        else
            return false;
    }
}

static bool is_path(const char *text, size_t len)
{
    for (;;) {
        const char *slash = memchr(text, '/', len);
        size_t part = slash != NULL ? (size_t)(slash - text) : len;

        if (!is_component(text, part))
            return false;
        if (slash == NULL)
            return true;
        text += part + 1;
        len -= part + 1;
    }
}

static bool is_tag(const char *text, size_t len)
{
    if (len == 0 || len > REFERENCE_TAG_MAX || (!is_alnum(text[0]) && text[0] != '_'))
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_alnum(text[i]) && strchr("_.-", text[i]) == NULL)
            return false;
    return true;
}

/* True if the first part is a registry, and not the beginning of the path. */
static bool names_registry(const char *text, size_t len)
{
    if (memchr(text, '.', len) != NULL || memchr(text, ':', len) != NULL || text[0] == '[')
        return true;
    if (len == strlen("localhost") && memcmp(text, "localhost", len) == 0)
        return true;
    for (size_t i = 0; i < len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            return true;
    return false;
}

static int reference_error(const char *text, const char *why, struct err *err)
{
    return err_set(err, -EINVAL, "image \"%.*s\": %s", QUOTED, text, why);
}

static int put_name(const char *text, size_t len, struct reference *r, struct err *err)
{
    const char *slash = memchr(text, '/', len), *path = text, *hex;
    const char *registry = default_registry;
    size_t registry_len = strlen(default_registry);
    int n;

    if (slash != NULL && names_registry(text, (size_t)(slash - text))) {
        registry = text;
        registry_len = (size_t)(slash - text);
        path = slash + 1;
        if (!is_registry(registry, registry_len))
            return reference_error(text, "its registry is no host name with or without a port",
                                   err);
    }
    len -= (size_t)(path - text);
    if (!is_path(path, len))
        return reference_error(
            text,
            "must be [REGISTRY/]NAME[:TAG][@DIGEST] with a name of lower-case letters, "
            "digits and single . _ or - between them",
            err);
    /* index.docker.io is an alias of docker.io. */
    if (registry_len == strlen("index.docker.io") &&
        memcmp(registry, "index.docker.io", registry_len) == 0) {
        registry = default_registry;
        registry_len = strlen(default_registry);
    }
    n = snprintf(r->name, sizeof(r->name), "%.*s/%s%.*s", (int)registry_len, registry,
                 registry_len == strlen(default_registry) &&
                         memcmp(registry, default_registry, registry_len) == 0 &&
                         memchr(path, '/', len) == NULL
                     ? official
                     : "",
                 (int)len, path);
    if (n < 0 || (size_t)n >= sizeof(r->name))
        return reference_error(text, "its name is longer than 255 bytes", err);
    /* The name could be confused with an id. */
    if (path == text && len == DIGEST_HEX_LEN && memchr(text, '/', len) == NULL) {
        char id[DIGEST_HEX_LEN + 1];

        (void)memcpy(id, text, len);
        id[len] = '\0';
        if (digest_prefix(id, DIGEST_HEX_LEN, &hex))
            return reference_error(text, "64 hexadecimal digits are an id, not a name", err);
    }
    return 0;
}

int reference_parse(const char *text, struct reference *ret, struct err *err)
{
    struct reference r = {.name = ""};
    const char *at = strchr(text, '@'), *slash, *colon;
    size_t len = at != NULL ? (size_t)(at - text) : strlen(text);
    int n;

    if (strlen(text) > REFERENCE_MAX)
        return reference_error(text, "is too long", err);
    if (at != NULL) {
        if (!digest_ok(at + 1))
            return reference_error(
                text, "its digest must be sha256: and 64 lower-case hexadecimal digits", err);
        (void)snprintf(r.digest, sizeof(r.digest), "%s", at + 1);
    }
    slash = memrchr(text, '/', len);
    colon = memrchr(text, ':', len);
    if (colon != NULL && (slash == NULL || colon > slash)) {
        size_t tag = len - (size_t)(colon + 1 - text);

        if (!is_tag(colon + 1, tag))
            return reference_error(
                text,
                "its tag must be 1 to 128 letters, digits, _ . or -, and not begin with "
                ". or -",
                err);
        (void)memcpy(r.tag, colon + 1, tag);
        len = (size_t)(colon - text);
    }
    n = put_name(text, len, &r, err);
    if (n == 0)
        *ret = r;
    return n;
}

void reference_default_tag(struct reference *r)
{
    if (r->tag[0] == '\0' && r->digest[0] == '\0')
        (void)strcpy(r->tag, "latest");
}

static void format_with_name(const struct reference *r, const char *name,
                             char ret[REFERENCE_MAX + 1])
{
    (void)snprintf(ret, REFERENCE_MAX + 1, "%s%s%s%s%s", name, r->tag[0] != '\0' ? ":" : "", r->tag,
                   r->digest[0] != '\0' ? "@" : "", r->digest);
}

void reference_format(const struct reference *r, char ret[REFERENCE_MAX + 1])
{
    format_with_name(r, r->name, ret);
}

/*
 * Removes default registry and "library" from a name, unless the shorter name would be parsed
 * differently.
 */
static const char *without_default(const char *name)
{
    const size_t len = strlen(default_registry);
    const char *path = name + len + 1, *last, *hex;

    if (strncmp(name, default_registry, len) != 0 || name[len] != '/')
        return name;
    last = path + strlen(official);
    if (strncmp(path, official, strlen(official)) == 0 && strchr(last, '/') == NULL)
        return digest_prefix(last, DIGEST_HEX_LEN, &hex) ? path : last;
    return names_registry(path, strcspn(path, "/")) ? name : path;
}

void reference_format_short(const struct reference *r, char ret[REFERENCE_MAX + 1])
{
    format_with_name(r, without_default(r->name), ret);
}

void reference_shorten(const char *whole, char ret[REFERENCE_MAX + 1])
{
    struct reference r;

    if (reference_parse(whole, &r, NULL) == 0)
        reference_format_short(&r, ret);
    else
        (void)snprintf(ret, REFERENCE_MAX + 1, "%s", whole);
}
