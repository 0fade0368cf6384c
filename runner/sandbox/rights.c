/*
 * Decides which right a caller has to an object, and finds sandboxes for a caller. The only code
 * that compares a caller with an owner. Runs in the supervisor's loop; called by the routes of both
 * APIs, and by whatever resolves a name for a client.
 */
#include "sandbox/rights.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/share.h"
#include "spec/spec.h"

enum { ID_PREFIX_MIN = 4 };

/* ---- rights ---- */

static bool caller_in_group(const struct caller *c, gid_t gid)
{
    if (c->gid == gid)
        return true;
    for (size_t i = 0; i < c->group_count; i++)
        if (c->groups[i] == gid)
            return true;
    return false;
}

static enum right share_right(const struct share *s, const struct caller *c)
{
    if (s->group ? !caller_in_group(c, s->id) : c->uid != s->id)
        return RIGHT_NONE;
    return s->read_only ? RIGHT_SEE : RIGHT_USE;
}

bool right_is_own(const struct caller *c, int64_t owner)
{
    return owner == (int64_t)c->uid || (!c->limited && (owner <= 0 || owner == (int64_t)c->daemon));
}

enum right right_to(const struct caller *c, int64_t owner, const struct share_list *shares)
{
    enum right most = RIGHT_NONE;

    if (!c->limited || right_is_own(c, owner))
        return RIGHT_OWN;
    for (size_t i = 0; shares != NULL && i < shares->count; i++) {
        enum right one = share_right(&shares->list[i], c);

        most = one > most ? one : most;
    }
    return most;
}

/* A sandbox whose spec cannot be read has no shares. */
enum right sandbox_right(const struct sandbox *s, const struct caller *c)
{
    return right_to(c, s->made.by, s->spec != NULL ? &s->spec->shares : NULL);
}

int sandbox_check_right(const struct sandbox *s, const struct caller *c, enum right need,
                        struct err *err)
{
    const enum right have = sandbox_right(s, c);

    if (have >= need)
        return 0;
    if (have == RIGHT_NONE)
        return err_set(err, -ENOENT, "sandbox '%.63s': there is none of this name or id",
                       sandbox_name(s));
    return err_set(
        err, -EPERM, "sandbox %s: it is another user's, who has shared it %s", sandbox_name(s),
        have == RIGHT_SEE ? "to be looked at (:ro)" : "to be used, not to be changed or removed");
}

/* ---- finding ---- */

/* Which sandboxes a search is about. */
enum reach { REACH_OWN, REACH_SEEN, REACH_END };

static bool sandbox_in_reach(const struct sandbox *s, const struct caller *c, enum reach reach)
{
    if (c == NULL)
        return true;
    return reach == REACH_OWN ? right_is_own(c, s->made.by) : sandbox_right(s, c) >= RIGHT_SEE;
}

/* *ret_matches: how many sandboxes of this name are in reach. */
static struct sandbox *find_by_name(struct supervisor *sup, const struct caller *c,
                                    enum reach reach, const char *name, unsigned *ret_matches)
{
    struct sandbox *found = NULL;

    for (struct sandbox *s = sandbox_by_name(sup, name); s != NULL;
         s = sandbox_next_of_name(s, name))
        if (sandbox_in_reach(s, c, reach)) {
            found = s;
            (*ret_matches)++;
        }
    return found;
}

static struct sandbox *find_by_prefix(struct supervisor *sup, const struct caller *c,
                                      enum reach reach, const char *text, unsigned *ret_matches)
{
    const size_t len = strlen(text);
    struct sandbox *found = NULL;

    if (len < ID_PREFIX_MIN || len >= SANDBOX_ID_LEN || strspn(text, "0123456789abcdef") != len)
        return NULL;
    for (struct sandbox *s = sup->sandboxes; s != NULL; s = s->all.next)
        if (strncmp(s->id, text, len) == 0 && sandbox_in_reach(s, c, reach)) {
            found = s;
            (*ret_matches)++;
        }
    return found;
}

/*
 * The caller's own sandboxes are searched before others': another user could otherwise give a
 * sandbox a name that is the beginning of an id of the caller's.
 */
int sandbox_find_for(struct supervisor *sup, const struct caller *c, const char *text,
                     struct sandbox **ret, struct err *err)
{
    struct sandbox *s = sandbox_by_id(sup, text);
    unsigned names = 0, ids = 0;

    if (s != NULL && !sandbox_in_reach(s, c, REACH_SEEN))
        s = NULL;
    for (enum reach reach = REACH_OWN; s == NULL && ids == 0 && reach < REACH_END; reach++) {
        names = 0;
        s = find_by_name(sup, c, reach, text, &names);
        if (s == NULL)
            s = find_by_prefix(sup, c, reach, text, &ids);
    }
    if (names > 1)
        return err_set(err, -ENOTUNIQ, "sandbox '%.63s': %u of this name are seen; write an id",
                       text, names);
    if (ids > 1)
        return err_set(err, -ENOTUNIQ, "sandbox '%.63s': %u ids begin so; write more of it", text,
                       ids);
    if (s == NULL)
        return err_set(err, -ENOENT, "sandbox '%.63s': there is none of this name or id", text);
    *ret = s;
    return 0;
}

bool sandbox_name_taken(struct supervisor *sup, const struct caller *c, const char *name,
                        const struct sandbox *but)
{
    struct sandbox *s = sandbox_by_id(sup, name);
    unsigned matches = 0;

    if (s == NULL || !sandbox_in_reach(s, c, REACH_OWN))
        s = find_by_name(sup, c, REACH_OWN, name, &matches);
    if (s == NULL)
        s = find_by_prefix(sup, c, REACH_OWN, name, &matches);
    return s != NULL && (s != but || matches > 1);
}

struct caller sandbox_maker(const struct sandbox *s)
{
    return (struct caller){.uid = (uid_t)s->made.by,
                           .limited = s->made.by > 0 && s->made.by != (int64_t)s->sup->owner,
                           .daemon = s->sup->owner,
                           .fd = FD_NONE,
                           .gid = (gid_t)-1};
}

struct sandbox *sandbox_find_beside(const struct sandbox *s, const char *text)
{
    const struct caller maker = sandbox_maker(s);
    struct sandbox *other = sandbox_by_id(s->sup, text);
    unsigned matches = 0;

    if (other == NULL)
        other = find_by_name(s->sup, &maker, REACH_OWN, text, &matches);
    if (other == NULL)
        other = find_by_prefix(s->sup, &maker, REACH_OWN, text, &matches);
    return matches > 1 ? NULL : other;
}

bool sandbox_may_join(const struct sandbox *s, const struct sandbox *other)
{
    const struct caller maker = sandbox_maker(s);
    const struct share_list *shares = other->spec != NULL ? &other->spec->shares : NULL;

    if (right_to(&maker, other->made.by, shares) >= RIGHT_USE)
        return true;
    for (size_t i = 0; shares != NULL && i < shares->count; i++)
        if (shares->list[i].group && !shares->list[i].read_only)
            return true;
    return false;
}
