#pragma once

/*
 * The lower layer of the root file system `host`: the host's paths that policy/host-rootfs.h lists,
 * and no others, readable as far as any user of the host may read them. Private to launch/.
 *
 * It is a read-only overlay of two layers. The upper one is a small tmpfs (the skeleton), made when
 * first needed and again when a copied file has changed. The lower one is the host's root,
 * id-mapped so that its files belong to the sandbox's root. In the skeleton the directory `view` is
 * opaque; each shared tree in it is an empty directory with a redirect to the tree's path. So the
 * view contains exactly the listed paths. The sandbox gets the view, not the overlay's root.
 *
 * Read permission: the sandbox's root owns all these files, so their modes and owners do not stop
 * it. But overlayfs checks each access a second time, on the real file, with the credentials of the
 * mounter. This overlay is mounted as nobody (an id that owns no file in either layer), without the
 * capabilities that override modes. So a file of the host's root with mode 0600 is refused to root
 * inside, to the overlay above when it copies up, and to the launcher. This includes files that
 * packages install later.
 *
 * The overlay above must be mounted with those capabilities, because its upper layer has files of
 * all ids of the sandbox. That is why there are two overlays.
 */

#include <stdint.h>
#include <sys/types.h>

struct err;
struct host_rootfs;

struct host_layers {
    int skeleton, root; /* owned; detached mounts, or FD_NONE */
    int view;           /* owned; the overlay of both, or FD_NONE */
};
#define HOST_LAYERS_NONE ((struct host_layers){.skeleton = -1, .root = -1, .view = -1})
void host_layers_close(struct host_layers *h);

/* Makes a skeleton whose files belong to the ids from base on; returns it as a detached mount.
 * `root` is an fd of "/", the directory that the list's paths are relative to. -EXDEV: /usr is a
 * separate mount; other separate mounts are left out. */
int host_skeleton_make(const struct host_rootfs *list, int root, uid_t base, struct err *err);
/* Returns a hash of the host files that a skeleton is made from; it changes when they do. */
uint64_t host_skeleton_stamp(const struct host_rootfs *list, int root);

/* Returns 0 if a tree of the list (not a pattern) is shown. -ENOENT: missing, or not a directory;
 * -ELOOP: behind a link; -EXDEV: a separate mount. */
int host_tree_check(const char *path);

/* Mounts h->view by fds. Returns an O_PATH fd of the view in it, to use as a lower layer; -EINVAL
 * from a kernel before 6.13. */
int host_view_by_fd(struct host_layers *h);
/* Like host_view_by_fd, but by names, in a private mount namespace whose cwd the launcher may use:
 * mounts the overlay at `at` and its layers at two further names. Returns 0; the view is
 * at/HOST_VIEW. */
int host_view_staged(struct host_layers *h, const char *at);
#define HOST_VIEW "view"
