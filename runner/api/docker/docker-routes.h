#pragma once

/* Route tables of the façade's resources; each ends with {0}. */

#include "http/route.h"

extern const struct route docker_container_routes[]; /* containers.c */
extern const struct route docker_exec_routes[];      /* exec.c */
extern const struct route docker_event_routes[];     /* events.c */
extern const struct route docker_ping_routes[];      /* system.c; any version */
extern const struct route docker_system_routes[];    /* system.c */
extern const struct route docker_network_routes[];   /* networks.c */
extern const struct route docker_image_routes[];     /* images.c */
extern const struct route docker_volume_routes[];    /* volumes.c */
extern const struct route docker_usage_routes[];     /* usage.c */
extern const struct route docker_commit_routes[];    /* commit.c */
extern const struct route docker_absent_routes[];    /* absent.c */
