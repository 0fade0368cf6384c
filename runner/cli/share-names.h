#pragma once

/* Names of users and groups in --share: the API takes ids, which do not change their owners. */

#include "spec/share.h"

struct err;

/*
 * Makes "user:1001:ro" of "alice:ro", "group:GID" of "group:dev", and so on. A name without "user:"
 * or "group:" is a user's, else a group's. Only /etc/passwd and /etc/group are read. -ENOENT: no
 * such user or group.
 */
int share_resolve(const char *text, char ret[SHARE_TEXT_MAX], struct err *err);
