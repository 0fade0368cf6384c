#pragma once

/* What a service manager (systemd) and a daemon say to each other: sd_listen_fds(3), sd_notify(3).
 */

#include <stdbool.h>
#include <sys/types.h>

struct err;

enum { SERVICE_FDS_START = 3 };

/* Whether descriptors were handed to this very process; they are then at SERVICE_FDS_START and up.
 */
bool service_has_socket(void);
/*
 * The one socket that was handed over, CLOEXEC; borrowed from the environment once. It must be a
 * listening unix stream socket and the only one: whatever else is refused, because it was meant for
 * something. group: opened to it when the socket is still as the shipped unit makes it, root's
 * alone; -1 for none.
 */
int service_socket(gid_t group, struct err *err);

/* A socket to the manager, connected while there are paths; -1 when there is none. */
int service_notify_socket(void);
/* fd: from service_notify_socket. Nothing when it is -1; what cannot be said is not. */
void service_tell(int fd, const char *state);
