#pragma once

/* What a snapshot's configuration says beside its parent's: pure. */

struct err;
struct image_config;
struct spec;

/*
 * Puts changes (image/config.h) in front of those in *changes (owned, NULL-terminated) that make a
 * sandbox of the new image what one of this spec is: command, environment, directory, user, labels,
 * stop signal. config: the parent's, or NULL.
 */
int snapshot_changes(const struct spec *spec, const struct image_config *config, char ***changes,
                     struct err *err);
