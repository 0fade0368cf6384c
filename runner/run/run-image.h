#pragma once

struct err;
struct spec;

/* For a run without a daemon, as root: finds the spec's image in the store of the state directory
 * and merges it. *ret_use_fd, the caller's, keeps its layers from being removed. */
int run_image(int state_fd, struct spec *spec, int *ret_use_fd, struct err *err);
