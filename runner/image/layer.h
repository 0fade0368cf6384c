#pragma once

/*
 * Unpacked, read-only layers: `layers/<sha256 of the archive>/` below the state directory. An
 * existing layer is complete: it is unpacked under a temporary name, synced and renamed. Layers
 * hold files of "root", also set-id ones, which must not be reachable from the host; so only the
 * owner can enter `layers`.
 */

#include <stdbool.h>

struct err;

/* The archives in the binary. */
enum builtin_layer {
    BUILTIN_BASE,   /* below every image: the shim, and mount points that images may lack */
    BUILTIN_ROOT,   /* the default root file system */
    BUILTIN_DOCKER, /* /.dockerenv, in containers of Docker's API */
    BUILTIN_MAX,
};

/* The layer's directory name below `layers`, 64 hexadecimal digits. */
const char *image_builtin_name(enum builtin_layer which);

/*
 * Opens both layers, the root file system of a sandbox without --rootfs and image; unpacks them at
 * first use. Blocks. state_fd: the state directory. *ret_base_fd, *ret_root_fd:
 * O_PATH|O_DIRECTORY|O_CLOEXEC, owner root (or this user if not root), mode 0755. Safe against
 * concurrent first uses and against crashes; a later first use removes their remains. -EPERM: a
 * directory has the wrong owner or mode.
 */
int image_default_layers(int state_fd, int *ret_base_fd, int *ret_root_fd, struct err *err);

/* Unpacks the layer of Docker's containers at first use. Blocks. Otherwise as above. */
int image_docker_layer(int state_fd, struct err *err);

enum { BUILTIN_NAMES_MAX = BUILTIN_MAX + 1 };
/*
 * Names the built-in layers below a sandbox's own, topmost first, then NULL. has_root: it has a
 * root file system of its own, or an image. docker: it is a container of Docker's API.
 */
void image_builtin_names(bool has_root, bool docker, const char *ret[BUILTIN_NAMES_MAX]);
