#pragma once

/*
 * The seccomp floor: what no policy can allow. The launcher adds it to every sandbox whatever the
 * supervisor asks for; init installs it on itself before it starts anything, so that everything
 * inside inherits it. (A filter is inherited and cannot be taken off: a narrower filter on init
 * would be a narrower filter on every process inside.)
 */

#include <linux/filter.h>
#include <stddef.h>

enum { FLOOR_MAX = 256 };

/* Writes the program; returns the number of instructions. */
size_t floor_build(struct sock_filter out[FLOOR_MAX]);
