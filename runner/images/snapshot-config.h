#pragma once

/* The configuration of a snapshot, as differences from its parent image's. Pure. */

struct err;
struct image_config;
struct spec;

/*
 * Prepends changes (image/config.h) to *changes (owned, NULL-terminated), so that a sandbox of the
 * new image is configured like spec: command, environment, directory, user, labels, stop signal.
 * config: the parent's, or NULL.
 */
int snapshot_changes(const struct spec *spec, const struct image_config *config, char ***changes,
                     struct err *err);
