#pragma once

/* The disks that a request's rates and weight are about, found on this host. */

struct cgroup_limits;
struct err;
struct launch_request;
struct launcher;

/*
 * Fills the io members of the limits. -EOPNOTSUPP: the state directory has no disk of its own, or
 * nothing weighs accesses to it; -ENODEV, -ENOENT: a path that is no disk. Blocks on sysfs and /dev
 * only.
 */
int disks_of_request(const struct launcher *l, const struct launch_request *q,
                     struct cgroup_limits *limits, struct err *err);
