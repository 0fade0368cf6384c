/* JSON encoders of images. */

#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "api/native/images.h"
#include "images/images.h"

static json_t *encode_strings(char *const *list)
{
    json_t *array = json_array();

    for (; list != NULL && *list != NULL; list++)
        (void)json_array_append_new(array, json_string(*list));
    return array;
}

static json_t *encode_names(char *const *list)
{
    json_t *array = json_array();
    char name[REFERENCE_MAX + 1];

    for (; list != NULL && *list != NULL; list++) {
        reference_shorten(*list, name);
        (void)json_array_append_new(array, json_string(name));
    }
    return array;
}

static json_t *encode_text(const char *s)
{
    return s != NULL && s[0] != '\0' ? json_string(s) : json_null();
}

static json_t *encode_labels(char *const *list)
{
    json_t *object = json_object();

    for (; list != NULL && *list != NULL; list++) {
        const char *equals = strchr(*list, '=');

        (void)json_object_setn_new(object, *list, (size_t)(equals - *list),
                                   json_string(equals + 1));
    }
    return object;
}

static json_t *encode_layers(const struct image *i)
{
    json_t *array = json_array();

    for (size_t k = 0; k < i->layer_count; k++)
        (void)json_array_append_new(
            array, json_pack("{s:s, s:s, s:s, s:I}", "digest", i->layers[k].blob, "diffId",
                             i->layers[k].diff_id, "mediaType", i->layers[k].media_type, "size",
                             (json_int_t)i->layers[k].bytes));
    return array;
}

json_t *image_encode(const struct image *i, bool whole)
{
    const struct image_config *c = i->config;
    json_t *root =
        json_pack("{s:s, s:o, s:s, s:I, s:o, s:o, s:o, s:o, s:b}", "id", i->id, "names",
                  encode_names(i->names), "digest", i->manifest, "size", (json_int_t)i->bytes,
                  "createdAt", api_time(i->created_ms), "loadedAt", api_time(i->loaded_ms),
                  "labels", encode_labels(c != NULL ? c->labels : NULL), "parent",
                  encode_text(i->parent), "damaged", c == NULL);

    if (root == NULL || !whole || c == NULL)
        return root;
    (void)json_object_set_new(root, "references", encode_strings(i->names));
    (void)json_object_set_new(root, "os", encode_text(c->os));
    (void)json_object_set_new(root, "architecture", encode_text(c->architecture));
    (void)json_object_set_new(root, "variant", encode_text(c->variant));
    (void)json_object_set_new(root, "author", encode_text(c->author));
    (void)json_object_set_new(root, "layers", encode_layers(i));
    (void)json_object_set(root, "configuration", i->config_tree);
    return root;
}

/* Fallback for an image without history: lists its layers. */
static void add_layers(const struct image *i, json_t *array)
{
    for (size_t k = 0; k < i->layer_count; k++)
        (void)json_array_append_new(array, json_pack("{s:n, s:s, s:s, s:I, s:s, s:b}", "createdAt",
                                                     "createdBy", "", "comment", "", "size",
                                                     (json_int_t)i->layers[k].bytes, "layer",
                                                     i->layers[k].diff_id, "empty", 0));
}

json_t *image_encode_history(const struct image *i)
{
    const struct image_config *c = i->config;
    json_t *array = json_array();
    size_t layer = 0;

    for (size_t k = 0; k < c->history_count; k++) {
        const struct image_history *h = &c->history[k];
        const bool has = !h->empty_layer && layer < i->layer_count;

        (void)json_array_append_new(
            array,
            json_pack("{s:o, s:s, s:s, s:I, s:o, s:b}", "createdAt", encode_text(h->created),
                      "createdBy", h->created_by != NULL ? h->created_by : "", "comment",
                      h->comment != NULL ? h->comment : "", "size",
                      (json_int_t)(has ? i->layers[layer].bytes : 0), "layer",
                      has ? json_string(i->layers[layer].diff_id) : json_null(), "empty", !has));
        layer += has;
    }
    if (c->history_count == 0)
        add_layers(i, array);
    return array;
}
