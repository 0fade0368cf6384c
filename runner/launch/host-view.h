#pragma once

/*
 * The lower layer of the root file system `host`: what policy/host-rootfs.h lists of the host, and
 * nothing else, readable as far as any user of the host may read it. Private to launch/.
 *
 * It is an overlay of its own, read-only, of two layers: a small tmpfs (the skeleton, which is made
 * when it is first needed and when what it has copies of has changed), and the host's root,
 * id-mapped so that its files are the sandbox's root's. In the skeleton the directory `view` is
 * opaque; each shared tree in it is an empty directory with a redirect to the tree's path. So the
 * view has exactly what is listed, and the sandbox gets the view, not the overlay's root.
 *
 * Who may read what: to the sandbox's root all of these files are its own, so no mode and no owner
 * keeps them from it. What does is that overlay checks every access a second time, on the real
 * file, as whoever mounted the overlay: this one is mounted as nobody (an id that owns nothing in
 * either layer), without the capabilities that override modes. A file of mode 0600 of the host's
 * root is refused to the root inside, to the overlay above when it copies up, and to us; whatever a
 * package puts there later as well. (The overlay above has to be mounted with those capabilities,
 * because its upper layer belongs to all of the sandbox's ids: hence two.)
 */

#include <stdint.h>
#include <sys/types.h>

struct err;
struct host_rootfs;

struct host_layers {
    int skeleton, root; /* owned; detached mounts, or FD_NONE */
    int view;           /* owned; the overlay of them, or FD_NONE */
};
#define HOST_LAYERS_NONE ((struct host_layers){.skeleton = -1, .root = -1, .view = -1})
void host_layers_close(struct host_layers *h);

/*
 * Makes a skeleton, whose files are those of the ids from base on: a detached mount, which is
 * returned. `root` is a descriptor of the directory that paths are below, "/". -EXDEV: /usr is a
 * mount of its own; other such trees are left out.
 */
int host_skeleton_make(const struct host_rootfs *list, int root, uid_t base, struct err *err);
/* What of the host a skeleton is made from, as a number that is another one when that has changed.
 */
uint64_t host_skeleton_stamp(const struct host_rootfs *list, int root);

/* Whether a tree of that list, which is no pattern, is shown: 0, or why not, -ENOENT (not there, or
 * no directory), -ELOOP (behind a link), -EXDEV (a mount of its own). */
int host_tree_check(const char *path);

/* Mounts h->view by descriptors. Returns the O_PATH descriptor of the view in it, which is a
 * lower layer; -EINVAL from a kernel before 6.13. */
int host_view_by_fd(struct host_layers *h);
/* The same by names, in a private mount namespace whose cwd is ours: the overlay is mounted at
 * `at`, its layers at two further names. Returns 0; the view is at/HOST_VIEW. */
int host_view_staged(struct host_layers *h, const char *at);
#define HOST_VIEW "view"
