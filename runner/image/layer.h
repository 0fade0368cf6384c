#pragma once

/*
 * Unpacked, read-only layers: `layers/<sha256 of the archive>/` below the state directory. A layer
 * that is there is complete: it is unpacked under another name, synced and renamed. `layers` itself
 * is closed to everybody but its owner, because layers hold files of "root", setuid ones included,
 * that must not be reached from the host.
 */

struct err;

/* The archives that the binary carries. */
enum builtin_layer {
    BUILTIN_BASE, /* below every image: the shim, and the mount points that scratch images lack */
    BUILTIN_ROOT, /* the default root file system */
    BUILTIN_MAX,
};

/* The layer's directory name below `layers`, 64 hexadecimal digits. */
const char *image_builtin_name(enum builtin_layer which);

/*
 * Opens the layer's directory, after unpacking it at the first use. state_fd: the state directory.
 * *ret_fd is O_PATH|O_DIRECTORY|O_CLOEXEC, a root-owned 0755 directory (owned by our own user when
 * that is not root). Safe against concurrent first starts and against a crash at any instant; a
 * later first use sweeps what a crash has left. -EPERM when something of the wrong kind or owner
 * stands in its place.
 */
int image_builtin_layer(int state_fd, enum builtin_layer which, int *ret_fd, struct err *err);

/* Both of them: what a sandbox without --rootfs is made of. */
int image_default_layers(int state_fd, int *ret_base_fd, int *ret_root_fd, struct err *err);
