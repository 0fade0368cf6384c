#pragma once

/* Shared by the files of /v1/images. */

#include <jansson.h>

#include "http/route.h"
#include "image/store.h"

struct http_request;
struct image;
struct images;

struct images *native_images(const struct http_request *req);
/* What of the images the peer sees; as an argument: a pointer that lives as long as the block. */
struct image_view native_image_view(struct http_request *req);
#define IMAGE_VIEW(req) ((const struct image_view[]){native_image_view(req)})
/* True if the peer may add images to the store, or remove some; otherwise the request was
 * answered. */
bool api_may_load(struct http_request *req);
bool api_may_remove(struct http_request *req);

/* image-json.c: for lists; whole: for inspect. NULL on OOM. */
json_t *image_encode(const struct image *i, bool whole);
json_t *image_encode_history(const struct image *i);

/* image-load.c, image-save.c */
http_handler_fn image_post_load, image_post_import;
http_handler_fn image_get_save, image_get_export, image_get_sandbox_export;
