/*
 * Parses what a broker reads about the caller: texts of /proc, and a path. The kernel writes these
 * texts. Only names in them come from processes, and the kernel escapes line ends there.
 */
#include <string.h>

#include "init/guard.h"

enum { DECIMAL = 10, OCTAL = 8, HEX = 16 };

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : HEX;
}

/* Reads the number at *at and advances *at; -1: no number, or one above max. */
static int take_number(const char **at, int base, uint64_t max, uint64_t *ret)
{
    const char *p = *at + strspn(*at, " \t");
    uint64_t n = 0;

    if (digit(*p) >= base)
        return -1;
    for (; digit(*p) < base; p++) {
        if (n > (max - (uint64_t)digit(*p)) / (uint64_t)base)
            return -1;
        n = n * (uint64_t)base + (uint64_t)digit(*p);
    }
    *at = p;
    *ret = n;
    return 0;
}

/* Returns the text after "\nname:"; NULL = no such line. */
static const char *find_line(const char *text, const char *name)
{
    const size_t len = strlen(name);

    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, len) == 0 && at[len] == ':')
            return at + len + 1;
    }
    return NULL;
}

/* Reads the last of four ids: real, effective, saved, file system. */
static int take_id(const char *text, const char *name, uint32_t *ret)
{
    const char *at = find_line(text, name);
    uint64_t id = 0;

    for (int i = 0; i < 4; i++)
        if (at == NULL || take_number(&at, DECIMAL, UINT32_MAX, &id) < 0)
            return -1;
    *ret = (uint32_t)id;
    return 0;
}

static int take_groups(const char *text, struct broker_status *s)
{
    const char *at = find_line(text, "Groups");
    uint64_t id;

    if (at == NULL)
        return -1;
    for (s->group_count = 0; take_number(&at, DECIMAL, UINT32_MAX, &id) == 0; s->group_count++) {
        if (s->group_count == BROKER_GROUPS_MAX)
            return -1;
        s->groups[s->group_count] = (uint32_t)id;
    }
    at += strspn(at, " \t");
    return *at == '\n' ? 0 : -1;
}

int broker_status_parse(const char *text, struct broker_status *s)
{
    const char *mask = find_line(text, "Umask"), *caps = find_line(text, "CapEff");
    uint64_t n;

    if (mask == NULL || take_number(&mask, OCTAL, 0777, &n) < 0)
        return -1;
    s->umask = (unsigned)n;
    if (caps == NULL || take_number(&caps, HEX, UINT64_MAX, &s->caps) < 0)
        return -1;
    return take_id(text, "Uid", &s->uid) < 0 || take_id(text, "Gid", &s->gid) < 0 ||
                   take_groups(text, s) < 0
               ? -1
               : 0;
}

bool broker_fdinfo_is_path(const char *text)
{
    const char *flags = find_line(text, "flags");
    uint64_t n;

    /* True for O_PATH. Also if the flags cannot be read, because fchmod then fails. */
    return flags == NULL || take_number(&flags, OCTAL, UINT32_MAX, &n) < 0 || (n & 010000000) != 0;
}

int broker_path_fd(const char *path)
{
    static const char *const prefixes[] = {"/proc/self/fd/", "/proc/thread-self/fd/"};
    uint64_t n;

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const size_t len = strlen(prefixes[i]);
        const char *at = path + len;

        if (strncmp(path, prefixes[i], len) == 0 && *at >= '0' && *at <= '9' &&
            (*at != '0' || at[1] == '\0') && take_number(&at, DECIMAL, INT32_MAX, &n) == 0 &&
            *at == '\0')
            return (int)n;
    }
    return -1;
}
