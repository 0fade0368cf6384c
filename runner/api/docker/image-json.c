#include "api/docker/image-json.h"

#include <string.h>

#include "api/docker/common.h"
#include "base/auto.h"
#include "images/images.h"

enum { MS = 1000 };

static json_t *encode_names(const struct image *image, bool digests)
{
    json_t *list = json_array();

    for (char **n = image->names; list != NULL && n != NULL && *n != NULL; n++) {
        char text[REFERENCE_MAX + 1];

        if ((strchr(*n, '@') != NULL) != digests)
            continue;
        reference_shorten(*n, text);
        (void)json_array_append_new(list, json_string(text));
    }
    return list;
}

/* Returns names with a tag, in short form; or with a digest. */
static json_t *encode_tags(const struct image *image)
{
    return encode_names(image, false);
}

static json_t *encode_digests(const struct image *image)
{
    return encode_names(image, true);
}

static json_t *text_or_empty(const char *text)
{
    json_t *value = json_string(text != NULL ? text : "");

    return value != NULL ? value : json_string("");
}

static json_t *encode_layers(const struct image *image)
{
    json_t *list = json_array();

    for (size_t i = 0; list != NULL && i < image->layer_count; i++)
        (void)json_array_append_new(list, json_string(image->layers[i].diff_id));
    return list;
}

/* Copies the image's configuration, whose keys are Docker's. Clients expect Labels not to be
 * null. */
static json_t *encode_config(const struct image *image)
{
    json_t *inner = json_object_get(image->config_tree, "config");
    json_t *copy = json_is_object(inner) ? json_copy(inner) : json_object();

    if (copy != NULL && json_object_get(copy, "Labels") == NULL)
        (void)json_object_set_new(copy, "Labels", json_object());
    return copy;
}

/* As in Docker that of the newest step of its history. */
static json_t *encode_comment(const struct image_config *c)
{
    const bool has = c != NULL && c->history_count > 0;

    return text_or_empty(has ? c->history[c->history_count - 1].comment : NULL);
}

json_t *docker_image(const struct image *image)
{
    const struct image_config *c = image->config;
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:{s:s, s:n}, s:{s:s, s:o}}", "Id",
        image->id, "RepoTags", encode_tags(image), "RepoDigests", encode_digests(image), "Parent",
        image->parent, "Comment", encode_comment(c), "Created", docker_time(image->created_ms),
        "DockerVersion", "", "Author", text_or_empty(c != NULL ? c->author : NULL), "Architecture",
        text_or_empty(c != NULL ? c->architecture : NULL), "Os",
        text_or_empty(c != NULL ? c->os : NULL), "Size", (json_int_t)image->bytes, "GraphDriver",
        "Name", "overlay2", "Data", "RootFS", "Type", "layers", "Layers", encode_layers(image));

    if (root == NULL || !docker_put(root, "Config", encode_config(image)) ||
        !docker_put(root, "VirtualSize", json_integer(image->bytes))) {
        json_decref(root);
        return NULL;
    }
    return root;
}

bool docker_image_add_container(json_t *root, const struct image *image)
{
    json_t *inner = json_object_get(image->config_tree, "container_config");

    return docker_put(root, "Container", json_string("")) &&
           docker_put(root, "ContainerConfig",
                      json_is_object(inner) ? json_incref(inner) : encode_config(image));
}

static json_t *encode_labels(const struct image *image)
{
    json_t *object = json_object();

    for (char **l = image->config != NULL ? image->config->labels : NULL;
         object != NULL && l != NULL && *l != NULL; l++) {
        size_t n = strcspn(*l, "=");

        (void)json_object_setn_new(object, *l, n, json_string((*l)[n] == '=' ? *l + n + 1 : ""));
    }
    return object;
}

json_t *docker_image_line(const struct image *image)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:i}", "Id", image->id,
                     "ParentId", image->parent, "RepoTags", encode_tags(image), "RepoDigests",
                     encode_digests(image), "Created", (json_int_t)(image->created_ms / MS), "Size",
                     (json_int_t)image->bytes, "VirtualSize", (json_int_t)image->bytes,
                     "SharedSize", (json_int_t)-1, "Labels", encode_labels(image), "Containers",
                     -1);
}

/* Newest first, like Docker; sizes are those of the layers' archives. */
json_t *docker_image_history(const struct image *image)
{
    const struct image_config *c = image->config;
    json_t *list = json_array();
    size_t layer = 0;

    for (size_t i = 0; list != NULL && c != NULL && i < c->history_count; i++) {
        const struct image_history *h = &c->history[i];
        bool last = i + 1 == c->history_count;
        json_int_t bytes =
            h->empty_layer || layer >= image->layer_count ? 0 : image->layers[layer++].bytes;
        int64_t ns = 0;

        if (h->created == NULL || docker_time_parse(h->created, &ns) < 0)
            ns = 0;
        (void)json_array_insert_new(
            list, 0,
            json_pack("{s:s, s:I, s:o, s:o, s:I, s:o}", "Id", last ? image->id : "<missing>",
                      "Created", (json_int_t)(ns / 1000000000), "CreatedBy",
                      text_or_empty(h->created_by), "Tags", last ? encode_tags(image) : json_null(),
                      "Size", bytes, "Comment", text_or_empty(h->comment)));
    }
    return list;
}
