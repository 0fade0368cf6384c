#pragma once

struct err;
struct spec;

/*
 * For who runs a sandbox without a daemon, as root: finds the spec's image in the store of the
 * state directory and merges it. *ret_use_fd, the caller's, keeps everybody from removing its
 * layers.
 */
int run_image(int state_fd, struct spec *spec, int *ret_use_fd, struct err *err);
