#pragma once

/* Numbers of named networks. Members of one number reach each other, so a client must not find two
 * names with one number. Private to launch/. */

#include <stdint.h>

struct err;
struct launcher;

/* Returns in *ret the number of a named network: never NET_GROUP_NONE, and the same for each
 * launcher of this state directory. Fails if the secret of the state directory can neither be read
 * nor made. */
int network_number(struct launcher *l, const char *name, uint64_t *ret, struct err *err);
