/*
 * Pure functions over the text of /etc/subuid, /etc/subgid, /etc/passwd and /etc/group. Called by
 * rind doctor, in its process. The texts are untrusted; the time is that of a sort.
 */
#include "sandbox/subids.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/number.h"
#include "launch/idrange.h"

_Static_assert((int64_t)SUBIDS_LAST < (int64_t)IDRANGE_FIRST,
               "no range of rind's own pool is proposed to a user");

/*
 * Moves *at behind the next line; [*ret, *ret_end) is the line without its newline. False: no more
 * lines.
 */
static bool text_next_line(const char **at, const char *end, const char **ret, const char **ret_end)
{
    const char *newline;

    if (*at == end)
        return false;
    newline = memchr(*at, '\n', (size_t)(end - *at));
    *ret = *at;
    *ret_end = newline != NULL ? newline : end;
    *at = newline != NULL ? newline + 1 : end;
    return true;
}

static size_t owner_len(const char *line, const char *end)
{
    const char *colon = memchr(line, ':', (size_t)(end - line));

    return colon != NULL ? (size_t)(colon - line) : 0;
}

static bool owner_is(const char *line, const char *end, const char *name)
{
    size_t len = owner_len(line, end);

    return len > 0 && len == strlen(name) && memcmp(line, name, len) == 0;
}

/* ---- the ranges of a user ---- */

struct subid_user {
    const char *name;
    char number[16];
};

static bool subid_user_owns(const struct subid_user *u, const char *line, const char *end)
{
    return owner_is(line, end, u->name) || owner_is(line, end, u->number);
}

static void range_find_longest(const char *text, size_t len, const struct subid_user *u,
                               struct subid_range *ret)
{
    const char *at = text, *line, *end;
    struct idrange_avoid range;

    while (text_next_line(&at, text + len, &line, &end)) {
        if (!subid_user_owns(u, line, end) ||
            idrange_parse_subid(line, (size_t)(end - line), &range) != 1)
            continue;
        if ((uint64_t)range.last - range.first + 1 <= ret->count)
            continue;
        ret->first = range.first;
        ret->count = (uint64_t)range.last - range.first + 1;
    }
}

static void range_find_other(const char *text, size_t len, const struct subid_user *u,
                             struct subid_range *ret)
{
    const char *at = text, *line, *end;
    struct idrange_avoid range;

    while (text_next_line(&at, text + len, &line, &end)) {
        if (subid_user_owns(u, line, end) ||
            idrange_parse_subid(line, (size_t)(end - line), &range) != 1)
            continue;
        if (range.first > ret->first + (ret->count - 1) || range.last < ret->first)
            continue;
        (void)snprintf(ret->other, sizeof(ret->other), "%.*s", (int)owner_len(line, end), line);
        return;
    }
}

void subids_of(const char *text, size_t len, const char *user, uid_t uid, struct subid_range *ret)
{
    struct subid_user u = {.name = user};

    *ret = (struct subid_range){.count = 0};
    if (text == NULL)
        return;
    (void)snprintf(u.number, sizeof(u.number), "%u", (unsigned)uid);
    range_find_longest(text, len, &u, ret);
    if (ret->count > 0)
        range_find_other(text, len, &u, ret);
}

/* ---- a free range ---- */

struct taken_ids {
    struct idrange_avoid *ranges; /* owned */
    size_t count, room;
};

static int taken_add(struct taken_ids *t, struct idrange_avoid range, struct err *err)
{
    struct idrange_avoid *more;

    /* Ids below SUBIDS_FIRST, most users', are never proposed, so they need not be kept. */
    if (range.last < SUBIDS_FIRST || range.first > SUBIDS_LAST)
        return 0;
    if (t->count == IDRANGE_SUBIDS_MAX)
        return err_set(err, -E2BIG, "there are more than %d ranges of ids", IDRANGE_SUBIDS_MAX);
    if (t->count == t->room) {
        more = realloc(t->ranges, (t->room + 64) * 2 * sizeof(*more));
        if (more == NULL)
            return err_errno(err, -ENOMEM, "subordinate ids");
        t->ranges = more;
        t->room = (t->room + 64) * 2;
    }
    t->ranges[t->count++] = range;
    return 0;
}

static int taken_add_subids(struct taken_ids *t, const char *path, const char *text, size_t len,
                            struct err *err)
{
    const char *at = text, *line, *end;
    struct idrange_avoid range;
    unsigned number = 0;

    while (text != NULL && text_next_line(&at, text + len, &line, &end)) {
        int r = idrange_parse_subid(line, (size_t)(end - line), &range);

        number++;
        if (r < 0)
            return err_set(err, r, "correct line %u of %s, which is not NAME:FIRST:COUNT", number,
                           path);
        if (r == 1)
            r = taken_add(t, range, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Adds the third field of lines of passwd or group; a line without one has no id. */
static int taken_add_owners(struct taken_ids *t, const char *text, size_t len, struct err *err)
{
    const char *at = text, *line, *end;

    while (text != NULL && text_next_line(&at, text + len, &line, &end)) {
        char number[NUMBER_DIGITS_MAX + 1];
        const char *field = line, *field_end;
        int64_t id;
        int r;

        for (int i = 0; i < 2 && field != NULL; i++) {
            field = memchr(field, ':', (size_t)(end - field));
            field = field != NULL ? field + 1 : NULL;
        }
        if (field == NULL)
            continue;
        field_end = memchr(field, ':', (size_t)(end - field));
        (void)snprintf(number, sizeof(number), "%.*s",
                       (int)((field_end != NULL ? field_end : end) - field), field);
        id = number_whole(number, NUMBER_DIGITS_MAX);
        if (id < 0 || id > UINT32_MAX)
            continue;
        r = taken_add(t, (struct idrange_avoid){.first = (uint32_t)id, .last = (uint32_t)id}, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int taken_by_first(const void *a, const void *b)
{
    const struct idrange_avoid *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

int subids_free(const struct subid_texts *t, uint32_t *ret_first, struct err *err)
{
    struct taken_ids taken = {.count = 0};
    auto_free struct idrange_avoid *owned = NULL;
    uint64_t first = SUBIDS_FIRST;
    int r;

    r = taken_add_subids(&taken, "/etc/subuid", t->subuid, t->subuid_len, err);
    if (r == 0)
        r = taken_add_subids(&taken, "/etc/subgid", t->subgid, t->subgid_len, err);
    if (r == 0)
        r = taken_add_owners(&taken, t->passwd, t->passwd_len, err);
    if (r == 0)
        r = taken_add_owners(&taken, t->group, t->group_len, err);
    owned = taken.ranges;
    if (r < 0)
        return r;
    if (taken.count > 0)
        qsort(taken.ranges, taken.count, sizeof(*taken.ranges), taken_by_first);
    for (size_t i = 0; i < taken.count && taken.ranges[i].first < first + SUBIDS_COUNT; i++)
        if ((uint64_t)taken.ranges[i].last + 1 > first)
            first = (uint64_t)taken.ranges[i].last + 1;
    if (first + SUBIDS_COUNT - 1 > SUBIDS_LAST)
        return err_set(err, -ENOSPC, "no %d ids up to %d are free in /etc/subuid and /etc/subgid",
                       SUBIDS_COUNT, SUBIDS_LAST);
    *ret_first = (uint32_t)first;
    return 0;
}
