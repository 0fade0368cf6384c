#include "proto/userdb.h"

#include <errno.h>
#include <string.h>

enum { PASSWD_FIELDS = 7, GROUP_FIELDS = 4 };

static const char why_syntax[] =
    "must be a name or a number, optionally with :group (names: letters, digits, _ . - and not "
    "a digit, . or - first)";
static const char why_group[] = "must be a name or a number (names: letters, digits, _ . - and not "
                                "a digit, . or - first)";
static const char why_range[] = "a number must be between 0 and 4294967294";
static const char why_leading_zero[] = "a number must not begin with 0";

/* ---- bytes ---- */

/* A part of a text, not NUL-terminated. */
struct span {
    const char *at;
    size_t len;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool all_digits(struct span s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_digit(s.at[i]))
            return false;
    return s.len > 0;
}

static bool span_is(struct span s, const char *text)
{
    return strlen(text) == s.len && memcmp(s.at, text, s.len) == 0;
}

/* Parses decimal digits only. -EINVAL, -ERANGE. */
static int parse_id(struct span s, uint32_t *ret)
{
    uint64_t n = 0;

    if (!all_digits(s))
        return -EINVAL;
    for (size_t i = 0; i < s.len; i++) {
        n = n * 10 + (uint64_t)(s.at[i] - '0');
        if (n > USERDB_ID_MAX)
            return -ERANGE;
    }
    *ret = (uint32_t)n;
    return 0;
}

static bool is_name(struct span s)
{
    if (s.len == 0 || s.len > USERDB_NAME_MAX || !is_letter(s.at[0]))
        return false;
    for (size_t i = 1; i < s.len; i++) {
        char c = s.at[i];

        /* A trailing $ is Samba's notation for machine accounts. */
        if (!is_letter(c) && !is_digit(c) && c != '.' && c != '-' && !(c == '$' && i == s.len - 1))
            return false;
    }
    return true;
}

static void copy_span(char *to, struct span s)
{
    (void)memcpy(to, s.at, s.len);
    to[s.len] = '\0';
}

/* Cuts the next field off *rest at `end`. Returns false when nothing is left; an empty field
 * counts. */
static bool next_field(struct span *rest, char end, struct span *field)
{
    const char *p;

    if (rest->at == NULL)
        return false;
    field->at = rest->at;
    p = rest->len > 0 ? memchr(rest->at, end, rest->len) : NULL;
    if (p == NULL) {
        field->len = rest->len;
        *rest = (struct span){0};
        return true;
    }
    field->len = (size_t)(p - rest->at);
    rest->len -= field->len + 1;
    rest->at = p + 1;
    return true;
}

/* ---- "user[:group]" ---- */

static int parse_part(struct span s, char *name, uint32_t *id, const char **why)
{
    int r;

    name[0] = '\0';
    *id = 0;
    if (all_digits(s)) {
        if (s.len > 1 && s.at[0] == '0') {
            *why = why_leading_zero; /* 010 could mean ten or eight */
            return -EINVAL;
        }
        r = parse_id(s, id);
        if (r < 0)
            *why = why_range;
        return r;
    }
    if (!is_name(s)) {
        *why = why_syntax;
        return -EINVAL;
    }
    copy_span(name, s);
    return 0;
}

int userdb_parse(const char *text, struct userdb_spec *ret, const char **ret_why)
{
    struct span rest = {.at = text, .len = strlen(text)}, user = {0}, group = {0};
    struct userdb_spec spec = {0};
    const char *why = "";
    int r = 0;

    if (rest.len > 0) {
        (void)next_field(&rest, ':', &user);
        r = parse_part(user, spec.user, &spec.uid, &why);
        if (r == 0 && rest.at != NULL) {
            spec.has_group = true;
            group = rest; /* a second colon is refused as part of the name */
            r = parse_part(group, spec.group, &spec.gid, &why);
        }
    }
    if (r < 0) {
        if (ret_why != NULL)
            *ret_why = why;
        return r;
    }
    *ret = spec;
    return 0;
}

int userdb_parse_group(const char *text, struct userdb_spec *ret, const char **ret_why)
{
    struct userdb_spec spec = {.has_group = true};
    const char *why = "";
    int r = parse_part((struct span){.at = text, .len = strlen(text)}, spec.group, &spec.gid, &why);

    if (r < 0) {
        if (ret_why != NULL)
            *ret_why = why == why_syntax ? why_group : why;
        return r;
    }
    *ret = spec;
    return 0;
}

/* ---- the files ---- */

/* Splits a line into exactly `want` fields; the last one may not contain a colon. */
static bool line_split(struct span line, struct span *fields, size_t want)
{
    struct span field;
    size_t n = 0;

    if (line.len > USERDB_LINE_MAX || (line.len > 0 && memchr(line.at, '\0', line.len) != NULL))
        return false;
    while (next_field(&line, ':', &field)) {
        if (n == want)
            return false;
        fields[n++] = field;
    }
    return n == want;
}

static bool passwd_line(struct span line, struct span *f, uint32_t *uid, uint32_t *gid)
{
    /* The "+" and "-" lines of NIS have no numbers or such a name, and are skipped. */
    return line_split(line, f, PASSWD_FIELDS) && f[0].len > 0 && f[0].len <= USERDB_NAME_MAX &&
           f[0].at[0] != '+' && f[0].at[0] != '-' && parse_id(f[2], uid) == 0 &&
           parse_id(f[3], gid) == 0;
}

static bool group_line(struct span line, struct span *f, uint32_t *gid)
{
    return line_split(line, f, GROUP_FIELDS) && f[0].len > 0 && f[0].len <= USERDB_NAME_MAX &&
           f[0].at[0] != '+' && f[0].at[0] != '-' && parse_id(f[2], gid) == 0;
}

int userdb_lookup_user(const char *passwd, size_t len, const struct userdb_spec *spec,
                       struct userdb_user *ret)
{
    struct span rest = {.at = passwd, .len = len}, line, f[PASSWD_FIELDS];
    uint32_t uid, gid;

    while (next_field(&rest, '\n', &line)) {
        if (!passwd_line(line, f, &uid, &gid))
            continue;
        if (spec->user[0] != '\0' ? !span_is(f[0], spec->user) : uid != spec->uid)
            continue;
        copy_span(ret->name, f[0]);
        if (f[5].len > 0 && f[5].len <= USERDB_HOME_MAX && f[5].at[0] == '/')
            copy_span(ret->home, f[5]);
        else
            copy_span(ret->home, (struct span){"/", 1});
        ret->uid = uid;
        ret->gid = gid;
        return 0;
    }
    /* Docker accepts "root" even if an image has no passwd file. */
    if (spec->user[0] != '\0' && strcmp(spec->user, "root") != 0)
        return -ENOENT;
    *ret = (struct userdb_user){.home = "/", .uid = spec->uid};
    return 0;
}

int userdb_lookup_group(const char *group, size_t len, const struct userdb_spec *spec,
                        uint32_t *ret)
{
    struct span rest = {.at = group, .len = len}, line, f[GROUP_FIELDS];
    uint32_t gid;

    if (spec->group[0] == '\0') {
        *ret = spec->gid;
        return 0;
    }
    while (next_field(&rest, '\n', &line))
        if (group_line(line, f, &gid) && span_is(f[0], spec->group)) {
            *ret = gid;
            return 0;
        }
    if (strcmp(spec->group, "root") != 0)
        return -ENOENT;
    *ret = 0;
    return 0;
}

static bool lists_member(struct span members, const char *user)
{
    struct span one;

    while (next_field(&members, ',', &one))
        if (span_is(one, user))
            return true;
    return false;
}

static int add_group(uint32_t gid, uint32_t *groups, size_t max, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (groups[i] == gid)
            return 0;
    if (*count == max)
        return -E2BIG;
    groups[(*count)++] = gid;
    return 0;
}

int userdb_supplementary(const char *group, size_t len, const char *user, uint32_t primary,
                         uint32_t *ret, size_t max, size_t *ret_count)
{
    struct span rest = {.at = group, .len = len}, line, f[GROUP_FIELDS];
    size_t count = 0;
    uint32_t gid;
    int r;

    r = add_group(primary, ret, max, &count);
    if (user[0] == '\0')
        rest.at = NULL;
    while (r == 0 && next_field(&rest, '\n', &line))
        if (group_line(line, f, &gid) && lists_member(f[3], user))
            r = add_group(gid, ret, max, &count);
    if (r == 0)
        *ret_count = count;
    return r;
}

int userdb_resolve(const struct userdb_spec *spec, const char *passwd, size_t passwd_len,
                   const char *group, size_t group_len, struct userdb_identity *ret,
                   const char **ret_why)
{
    struct userdb_user user = {0};
    const char *why = NULL;
    uint32_t gid;
    int r;

    r = userdb_lookup_user(passwd, passwd_len, spec, &user);
    if (r < 0)
        why = "no such user in the image's /etc/passwd";
    gid = user.gid;
    if (r == 0 && spec->has_group) {
        r = userdb_lookup_group(group, group_len, spec, &gid);
        if (r < 0)
            why = "no such group in the image's /etc/group";
    }
    if (r == 0) {
        /* An explicit group replaces only the primary one. Memberships stay, because a group can
         * also deny access. */
        r = userdb_supplementary(group, group_len, user.name, gid, ret->groups, USERDB_GROUPS_MAX,
                                 &ret->group_count);
        if (r < 0)
            why = "the user is in too many groups";
    }
    if (r < 0) {
        if (ret_why != NULL)
            *ret_why = why;
        return r;
    }
    (void)memcpy(ret->home, user.home, sizeof(ret->home));
    (void)memcpy(ret->name, user.name, sizeof(ret->name));
    ret->uid = user.uid;
    ret->gid = gid;
    return 0;
}

int userdb_add_group(struct userdb_identity *who, const char *name, const char *group,
                     size_t group_len)
{
    struct userdb_spec spec;
    uint32_t gid = 0;
    int r;

    r = userdb_parse_group(name, &spec, NULL);
    if (r == 0)
        r = userdb_lookup_group(group, group_len, &spec, &gid);
    return r < 0 ? r : add_group(gid, who->groups, USERDB_GROUPS_MAX, &who->group_count);
}
