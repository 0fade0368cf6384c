#pragma once

/* Credentials and tokens of a registry's host (distribution's specification). Thread-safe: of
 * several requests that need the same token one asks for it, and the others wait. */

#include <stdint.h>

#include "session.h"

enum { AUTH_HEADER_MAX = 96 << 10 };

/*
 * Makes the Authorization header for a request, of what the host asked for so far; *ret is owned by
 * the caller, and NULL if nothing is to be sent. *ret_number: of the token in it, 0 for others.
 * *ret_fresh: the token server was asked for it now. `stale`: the number of a token that the host
 * has refused: another one is made, unless another request has one by now. Negative errno with t
 * set.
 */
int auth_make_header(struct errand *e, struct registry_host *h, const char *mount_from,
                     uint64_t stale, char **ret, uint64_t *ret_number, bool *ret_fresh,
                     struct trouble *t);
/* Takes over what an answer with status 401 asks for. */
void auth_challenge(struct registry_host *h, const struct challenge *c);
/* True if a 401 may be answered: with a token, or with a password that was not sent yet. */
bool auth_has_answer(struct registry_host *h, bool was_sent);

/* Asks the token server with the user's password for an identity token. *ret: owned, NULL = it has
 * none. */
int auth_login(struct errand *e, struct registry_host *h, char **ret, struct trouble *t);
