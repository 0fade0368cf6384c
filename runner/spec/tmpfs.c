/* The options of a tmpfs, as mount(8), docker and podman write them. Pure. */

#include "spec/tmpfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "spec/parse.h"
#include "spec/spec.h"

enum tmpfs_word {
    WORD_RW,
    WORD_RO,
    WORD_EXEC,
    WORD_NOEXEC,
    WORD_NO_EFFECT, /* what every tmpfs of a sandbox is, and how times of access are kept */
    WORD_NEVER,
};

static const struct {
    const char *name;
    enum tmpfs_word word;
} words[] = {
    {"rw", WORD_RW},
    {"ro", WORD_RO},
    {"exec", WORD_EXEC},
    {"noexec", WORD_NOEXEC},
    {"nosuid", WORD_NO_EFFECT},
    {"nodev", WORD_NO_EFFECT},
    {"defaults", WORD_NO_EFFECT},
    {"async", WORD_NO_EFFECT},
    {"atime", WORD_NO_EFFECT},
    {"noatime", WORD_NO_EFFECT},
    {"diratime", WORD_NO_EFFECT},
    {"nodiratime", WORD_NO_EFFECT},
    {"relatime", WORD_NO_EFFECT},
    {"norelatime", WORD_NO_EFFECT},
    {"strictatime", WORD_NO_EFFECT},
    {"nostrictatime", WORD_NO_EFFECT},
    {"suid", WORD_NEVER},
    {"dev", WORD_NEVER},
};

static int tmpfs_take_word(struct tmpfs *t, const char *word, struct err *err)
{
    size_t i = 0;
    const size_t count = sizeof(words) / sizeof(words[0]);

    while (i < count && strcmp(words[i].name, word) != 0)
        i++;
    if (i == count)
        return err_set(err, -EINVAL,
                       "tmpfs option \"%.*s\": must be one of rw, ro, exec, noexec, size=, mode=, "
                       "uid= and gid=",
                       QUOTE_MAX, word);
    switch (words[i].word) {
    case WORD_RW:
        t->read_only = false;
        break;
    case WORD_RO:
        t->read_only = true;
        break;
    case WORD_EXEC:
        t->no_exec = false;
        break;
    case WORD_NOEXEC:
        t->no_exec = true;
        break;
    case WORD_NEVER:
        return err_set(err, -EPERM, "tmpfs option \"%s\": a tmpfs is always nosuid and nodev",
                       word);
    case WORD_NO_EFFECT:
    default:
        break;
    }
    return 0;
}

int tmpfs_parse_mode(const char *text, uint32_t *ret, struct err *err)
{
    const size_t len = strlen(text);
    uint32_t mode = 0;

    if (len == 0 || len > TMPFS_MODE_DIGITS_MAX || strspn(text, "01234567") != len)
        return err_set(err, -EINVAL, "tmpfs mode \"%.*s\": must be octal digits, 0 to 7777",
                       QUOTE_MAX, text);
    for (size_t i = 0; i < len; i++)
        mode = mode << 3 | (uint32_t)(text[i] - '0');
    if (mode > TMPFS_MODE_MAX)
        return err_set(err, -ERANGE, "tmpfs mode \"%s\": must be octal digits, 0 to 7777", text);
    *ret = mode;
    return 0;
}

static int tmpfs_take_id(const char *what, const char *text, uint32_t *ret, struct err *err)
{
    int64_t id;
    int r = parse_number(what, text, 0, SPEC_GROUP_ID_MAX, &id, err);

    if (r == 0)
        *ret = (uint32_t)id;
    return r;
}

static int tmpfs_take_option(struct tmpfs *t, char *option, struct err *err)
{
    char *value = strchr(option, '=');

    if (value == NULL)
        return tmpfs_take_word(t, option, err);
    *value++ = '\0';
    if (strcmp(option, "size") == 0)
        return parse_bytes("tmpfs size", value, SPEC_TMPFS_MIN, LIMIT_BYTES_MAX, &t->bytes, err);
    if (strcmp(option, "mode") == 0)
        return tmpfs_parse_mode(value, &t->mode, err);
    if (strcmp(option, "uid") == 0)
        return tmpfs_take_id("tmpfs uid", value, &t->uid, err);
    if (strcmp(option, "gid") == 0)
        return tmpfs_take_id("tmpfs gid", value, &t->gid, err);
    return tmpfs_take_word(t, option, err);
}

int tmpfs_parse_options(const char *options, struct tmpfs *t, struct err *err)
{
    auto_free char *copy = strdup(options);
    char *save = NULL;
    int r = 0;

    if (copy == NULL)
        return err_errno(err, -ENOMEM, "tmpfs");
    for (char *o = strtok_r(copy, ",", &save); o != NULL && r == 0; o = strtok_r(NULL, ",", &save))
        r = tmpfs_take_option(t, o, err);
    return r;
}

/* The text after DST: is one size, as in earlier versions, or a list of options. */
static int tmpfs_parse_rest(const char *rest, struct tmpfs *t, struct err *err)
{
    const bool size = rest[0] == '\0' || (rest[0] >= '0' && rest[0] <= '9');

    return size ? parse_bytes("tmpfs size", rest, SPEC_TMPFS_MIN, LIMIT_BYTES_MAX, &t->bytes, err)
                : tmpfs_parse_options(rest, t, err);
}

int spec_add_tmpfs(struct spec *s, const char *text, struct err *err)
{
    auto_free char *copy = strdup(text);
    struct tmpfs t = tmpfs_default();
    char *rest;
    int r = 0;

    if (copy == NULL)
        return err_errno(err, -ENOMEM, "tmpfs");
    rest = strchr(copy, ':');
    if (rest != NULL) {
        *rest++ = '\0';
        r = tmpfs_parse_rest(rest, &t, err);
    }
    return r < 0 ? r : spec_put_tmpfs(s, copy, &t, err);
}
