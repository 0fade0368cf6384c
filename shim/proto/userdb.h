#pragma once

/*
 * Users and groups of an image: the syntax of "user[:group]", and look-ups in the text of its
 * /etc/passwd and /etc/group. Pure functions on a buffer, without allocation and without libc's
 * user database (which would load code from the image). The texts are hostile.
 *
 * A string of digits is always a number, never looked up as a name: an image may have a login
 * "1000" with uid 0. The first matching line of a file counts; malformed lines are skipped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    USERDB_NAME_MAX = 255,
    USERDB_HOME_MAX = 1023,
    USERDB_LINE_MAX = 65535, /* longer lines are skipped */
    USERDB_GROUPS_MAX = 256,
};

/* The highest valid id; the next number means "no id" to the kernel. */
#define USERDB_ID_MAX UINT32_C(4294967294)

/* The parts of "user[:group]". A name is empty if a number was given. */
struct userdb_spec {
    char user[USERDB_NAME_MAX + 1];
    char group[USERDB_NAME_MAX + 1];
    uint32_t uid, gid;
    bool has_group;
};

/* Parses "user[:group]". "", "root" and "0" are root. -EINVAL for neither a name nor a number,
 * -ERANGE for a number above USERDB_ID_MAX. *ret_why then says what is accepted (a literal; may be
 * NULL). */
int userdb_parse(const char *text, struct userdb_spec *ret, const char **ret_why);

/* Parses a group into group or gid of *ret. Errors as userdb_parse; "" is -EINVAL. */
int userdb_parse_group(const char *text, struct userdb_spec *ret, const char **ret_why);

struct userdb_user {
    char name[USERDB_NAME_MAX + 1]; /* empty: no line has this uid */
    char home[USERDB_HOME_MAX + 1]; /* absolute; "/" when there is none */
    uint32_t uid, gid;
};

/* Finds the user's line, by name or by number. -ENOENT: no such name. A number without a line is no
 * error: gid 0, home "/", no name. */
int userdb_lookup_user(const char *passwd, size_t len, const struct userdb_spec *spec,
                       struct userdb_user *ret);

/* Finds the group that spec names, by name or by number. -ENOENT: no such name. */
int userdb_lookup_group(const char *group, size_t len, const struct userdb_spec *spec,
                        uint32_t *ret);

/* Collects the groups that list `user` as a member, each once, `primary` first. An empty name has
 * no memberships. -E2BIG when there are more than max: dropping one could give access that the
 * group is denied. */
int userdb_supplementary(const char *group, size_t len, const char *user, uint32_t primary,
                         uint32_t *ret, size_t max, size_t *ret_count);

struct userdb_identity {
    char home[USERDB_HOME_MAX + 1];
    char name[USERDB_NAME_MAX + 1];
    uint32_t uid, gid;
    uint32_t groups[USERDB_GROUPS_MAX]; /* gid first */
    size_t group_count;
};

/* Parses and looks up everything. Missing files are empty texts. -ENOENT, -E2BIG; *ret_why as
 * above. */
int userdb_resolve(const struct userdb_spec *spec, const char *passwd, size_t passwd_len,
                   const char *group, size_t group_len, struct userdb_identity *ret,
                   const char **ret_why);

/* Adds one more group, by name or by number. -EINVAL, -ERANGE, -ENOENT, -E2BIG. */
int userdb_add_group(struct userdb_identity *who, const char *name, const char *group,
                     size_t group_len);
