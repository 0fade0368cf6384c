#pragma once

/*
 * Subordinate ids of a user in /etc/subuid and /etc/subgid, for rind doctor: the user's ranges,
 * users with overlapping ranges, and a free range. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum {
    SUBIDS_COUNT = 65536,    /* ids in a proposed range */
    SUBIDS_FIRST = 100000,   /* as SUB_UID_MIN of useradd */
    SUBIDS_LAST = 600100000, /* as SUB_UID_MAX of useradd */
    SUBIDS_OWNER_MAX = 32,   /* bytes of an owner's name that are kept */
};

/* Contents of the host's files; NULL and 0 for a missing file. Borrowed. */
struct subid_texts {
    const char *subuid, *subgid, *passwd, *group;
    size_t subuid_len, subgid_len, passwd_len, group_len;
};

/* The longest range that a file grants to a user. */
struct subid_range {
    uint32_t first;
    uint64_t count;                   /* 0: no range */
    char other[SUBIDS_OWNER_MAX + 1]; /* first owner of a line that overlaps the range; "": none */
};

/* user: name, or "". Malformed lines are ignored. */
void subids_of(const char *text, size_t len, const char *user, uid_t uid, struct subid_range *ret);

/*
 * Finds the first SUBIDS_COUNT free ids from SUBIDS_FIRST on: not granted by subuid and subgid, not
 * the id of a user or group, not in rind's pool. -EINVAL: a line is malformed and could hold any
 * range; err names file and line. -ENOSPC; -E2BIG: more lines than IDRANGE_SUBIDS_MAX; -ENOMEM.
 */
int subids_free(const struct subid_texts *t, uint32_t *ret_first, struct err *err);
