#pragma once

struct err;

/*
 * Makes this process the supervisor: root_fd becomes its root directory, its ids become uid's, its
 * capabilities go, and a filter lets it only do what a server on open descriptors does: no execve,
 * no new sockets, no fork, no mounts. Everything it needs is open before. Irrevocable.
 */
int confine_supervisor(int root_fd, unsigned uid, struct err *err);
