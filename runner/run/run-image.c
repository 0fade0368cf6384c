#include "run/run-image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "images/images.h"
#include "launch/idrange.h"
#include "spec/spec.h"

static int image_check_layers(int state_fd, const struct image *image, struct err *err)
{
    for (size_t i = 0; i < image->layer_count; i++) {
        char path[128];
        struct stat st;

        (void)snprintf(path, sizeof(path), "image-layers/%s/fs",
                       image_layer_name(&image->layers[i]));
        if (fstatat(state_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return err_errno(err, -errno,
                             "layer %zu of the image is not unpacked any more (load it again): %s",
                             i + 1, image->layers[i].diff_id);
    }
    return 0;
}

static int image_find(int tree_fd, const char *name, struct image **ret, int *ret_use_fd,
                      struct err *err)
{
    auto_ptr(image_store_close) struct image_store *s = NULL;
    auto_close int use = FD_NONE;
    int r = image_store_open(tree_fd, &s, err);

    if (r < 0)
        return r;
    use = image_store_use(s, err);
    if (use < 0)
        return use;
    r = image_store_find(s, &IMAGE_VIEW_ALL, name, ret, err);
    if (r == 0)
        *ret_use_fd = take_fd(&use);
    return r;
}

int run_image(int state_fd, struct spec *spec, int *ret_use_fd, struct err *err)
{
    auto_ptr(image_free) struct image *image = NULL;
    auto_close int tree = FD_NONE;
    auto_close int use = FD_NONE;
    int r;

    tree = openat(state_fd, "supervisor", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (tree < 0)
        return err_set(err, -ENOENT, "no such image: %.300s", spec->image);
    /* Files made in the store must belong to its daemon's ids. */
    (void)setfsgid(IDRANGE_SUPERVISOR);
    (void)setfsuid(IDRANGE_SUPERVISOR);
    r = image_find(tree, spec->image, &image, &use, err);
    (void)setfsuid(geteuid());
    (void)setfsgid(getegid());
    if (r == 0)
        r = image_check_layers(state_fd, image, err);
    if (r == 0)
        r = image_merge(image, spec, err);
    if (r == 0)
        r = spec_validate_kept(spec, err);
    if (r == 0 && spec->argv[0] == NULL)
        r = err_set(err, -EINVAL, "no command: the image names none, either");
    if (r == 0)
        *ret_use_fd = take_fd(&use);
    return r;
}
