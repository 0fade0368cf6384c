#pragma once

/*
 * Subordinate ids of a user as /etc/subuid and /etc/subgid say them, for rind doctor: what the user
 * has, whether another user has the same, and which range no user has. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    SUBIDS_COUNT = 65536,    /* ids of the range that is proposed */
    SUBIDS_FIRST = 100000,   /* as SUB_UID_MIN of useradd */
    SUBIDS_LAST = 600100000, /* as SUB_UID_MAX */
    SUBIDS_OWNER_MAX = 32,   /* bytes of an owner's name that are kept */
};

/* The host's files, whole; NULL and 0 of one that is not there. Borrowed. */
struct subid_texts {
    const char *subuid, *subgid, *passwd, *group;
    size_t subuid_len, subgid_len, passwd_len, group_len;
};

/* The longest range that one file gives to one user. */
struct subid_range {
    uint32_t first;
    uint64_t count; /* 0: the user has none */
    char
        other[SUBIDS_OWNER_MAX + 1]; /* the first owner of a line that overlaps it; "": none does */
};

/* user: its name, or "". A line that cannot be understood gives nothing. */
void subids_of(const char *text, size_t len, const char *user, uid_t uid, struct subid_range *ret);

/*
 * The first of SUBIDS_COUNT ids from SUBIDS_FIRST on that no line of subuid and subgid gives to any
 * user, that are no user's or group's own, and that are none of rind's pool. -EINVAL, and which
 * line of which file: it cannot be understood, so any range could be in it. -ENOSPC; -E2BIG for
 * more lines than IDRANGE_SUBIDS_MAX; -ENOMEM.
 */
int subids_free(const struct subid_texts *t, uint32_t *ret_first, struct err *err);
