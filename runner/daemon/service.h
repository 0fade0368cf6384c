#pragma once

/* Interface to a service manager (systemd): sd_listen_fds(3), sd_notify(3). Called by serve.c
 * before it forks, except service_tell. */

#include <stdbool.h>
#include <sys/types.h>

struct err;

enum { SERVICE_FDS_START = 3 };

/* True if this process inherited fds by LISTEN_FDS; they start at SERVICE_FDS_START. */
bool service_has_socket(void);
/* Returns the inherited socket, made CLOEXEC; the caller owns it. Must be a listening unix
 * stream socket and the only inherited fd; anything else is refused. group: gets access if the
 * socket still has the shipped unit's owner and mode (root, 0600); -1: none. */
int service_socket(gid_t group, struct err *err);

/* Returns a socket connected to the manager, or -1 without NOTIFY_SOCKET. The caller owns it.
 * Called before chroot. */
int service_notify_socket(void);
/* Sends a state to the manager; best effort. fd of service_notify_socket, may be -1. */
void service_tell(int fd, const char *state);
