#pragma once

#include <stdint.h>

struct err;

/* Parses a port in a path: decimal, min to 65535, only the shortest spelling. -EINVAL. */
int port_number(const char *text, unsigned min, uint16_t *ret, struct err *err);
