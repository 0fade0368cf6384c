/* One request's counts (sizes.h): first the images, for the size of what is below a container's
 * writable layer, then every container and volume. Runs in the supervisor's loop thread. */
#include "api/docker/sizes.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/native/images.h"
#include "base/auto.h"
#include "base/err.h"
#include "images/disk-size.h"
#include "images/images.h"
#include "images/snapshots.h"
#include "sandbox/sandbox.h"

struct sizes_request {
    struct http_request *req;
    struct docker_sizes what; /* with references */
    docker_sizes_cb cb;
    void *data;
    unsigned left; /* counts that have not ended, plus one for the loop that starts them */
};

/* One container or volume. */
struct sizes_item {
    struct sizes_request *of;
    enum disk_size_kind kind;
    json_t *into;        /* borrowed from the arrays, or (kept) an owned reference */
    int64_t image_bytes; /* -1: not known */
};

static void sizes_request_free(struct sizes_request *z)
{
    json_decref(z->what.containers);
    json_decref(z->what.volumes);
    free(z);
}

static void sizes_request_drop(struct sizes_request *z)
{
    if (--z->left > 0)
        return;
    z->cb(z->data);
    sizes_request_free(z);
}

static void sizes_item_put(const struct sizes_item *i, const struct disk_size *size)
{
    int64_t bytes = size->partial && !i->of->what.prune ? -1 : size->bytes;

    if (i->kind == DISK_SIZE_VOLUME) {
        (void)docker_put(json_object_get(i->into, "UsageData"), "Size", json_integer(bytes));
        return;
    }
    (void)docker_put(i->into, "SizeRw", json_integer(bytes));
    if (i->image_bytes >= 0)
        (void)docker_put(i->into, "SizeRootFs",
                         json_integer(bytes >= 0 ? bytes + i->image_bytes : -1));
}

/* Copies an item for a callback; the request waits for it. NULL: out of memory. */
static struct sizes_item *sizes_item_keep(const struct sizes_item *from)
{
    struct sizes_item *i = malloc(sizeof(*i));

    if (i == NULL)
        return NULL;
    *i = *from;
    json_incref(i->into);
    i->of->left++;
    return i;
}

/* May end the request. */
static void sizes_item_free(struct sizes_item *i)
{
    struct sizes_request *z = i->of;

    json_decref(i->into);
    free(i);
    sizes_request_drop(z);
}

static void on_item_counted(void *data, const struct disk_size *size)
{
    struct sizes_item *i = data;

    sizes_item_put(i, size);
    sizes_item_free(i);
}

/* name: NULL if it cannot be counted now. */
static void sizes_item_count(const struct sizes_item *from, const char *name)
{
    struct images *im = native_images(from->of->req);
    struct disk_size size = {.bytes = -1};
    struct sizes_item *i;

    if (name == NULL || (!from->of->what.prune && disk_size_kept(im, from->kind, name, &size))) {
        sizes_item_put(from, &size);
        return;
    }
    i = sizes_item_keep(from);
    if (i != NULL && disk_size_count(im, i->kind, name, on_item_counted, i, NULL) == 0)
        return;
    if (i != NULL)
        sizes_item_free(i);
    sizes_item_put(from, &size);
}

/* ---- containers ---- */

static struct sandbox *sizes_item_container(const struct sizes_item *i)
{
    struct sandbox *s = NULL;

    return docker_lookup(i->of->req, json_string_value(json_object_get(i->into, "Id")), &s, NULL) ==
                   0
               ? s
               : NULL;
}

static void sizes_item_count_container(const struct sizes_item *i)
{
    struct sandbox *s = sizes_item_container(i);

    sizes_item_count(i, s != NULL && sandbox_check_readable(s, NULL) == 0 ? sandbox_id(s) : NULL);
}

/* The clean-up of the container's last run has ended. */
static void on_item_settled(void *data, int r, const struct err *err)
{
    struct sizes_item *i = data;

    (void)r;
    (void)err;
    sizes_item_count_container(i);
    sizes_item_free(i);
}

/* Clients learn of a container's end before its clean-up, during which its files are not read. */
static void sizes_item_settle(const struct sizes_item *from, struct sandbox *s)
{
    struct sizes_item *i =
        sandbox_check_readable(s, NULL) < 0 && !docker_is_running(s) ? sizes_item_keep(from) : NULL;

    if (i != NULL && docker_when_settled(s, on_item_settled, i, NULL) == 0)
        return;
    if (i != NULL)
        sizes_item_free(i);
    sizes_item_count_container(from);
}

static int64_t sizes_image_bytes(const struct spec *spec, struct image *const *list, size_t count)
{
    for (size_t i = 0; spec != NULL && spec->image_id != NULL && i < count; i++)
        if (strcmp(list[i]->id, spec->image_id) == 0)
            return list[i]->bytes;
    return -1;
}

static void on_sizes_images(void *data, int r, struct image **list, size_t count,
                            const struct err *err)
{
    struct sizes_request *z = data;
    json_t *one;
    size_t n;

    (void)err; /* without the images only SizeRootFs is missing */
    if (r < 0)
        count = 0;
    json_array_foreach(z->what.containers, n, one) {
        struct sizes_item i = {.of = z, .kind = DISK_SIZE_SANDBOX, .into = one};
        struct sandbox *s = sizes_item_container(&i);

        i.image_bytes = s != NULL ? sizes_image_bytes(sandbox_spec(s), list, count) : -1;
        if (s != NULL)
            sizes_item_settle(&i, s);
        else
            sizes_item_count(&i, NULL);
    }
    json_array_foreach(z->what.volumes, n, one) {
        struct sizes_item i = {.of = z, .kind = DISK_SIZE_VOLUME, .into = one};

        sizes_item_count(&i, json_string_value(json_object_get(one, "Name")));
    }
    if (r == 0)
        image_list_free(list, count);
    sizes_request_drop(z);
}

int docker_sizes_put(struct http_request *req, const struct docker_sizes *what, docker_sizes_cb cb,
                     void *data, struct err *err)
{
    struct sizes_request *z = calloc(1, sizeof(*z));
    int r;

    if (z == NULL)
        return err_errno(err, -ENOMEM, "sizes");
    *z = (struct sizes_request){.req = req, .what = *what, .cb = cb, .data = data, .left = 1};
    json_incref(z->what.containers);
    json_incref(z->what.volumes);
    r = images_list(native_images(req), IMAGE_VIEW(req), on_sizes_images, z, err);
    if (r < 0)
        sizes_request_free(z);
    return r;
}
