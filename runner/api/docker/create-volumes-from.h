#pragma once

struct create_body;
struct err;
struct http_request;

/* Adds the mounts of the containers that b->volumes_from names to b->spec. The caller needs the
 * right to use them; what it may mount is judged with the whole spec. -EINVAL, -EPERM. */
int create_volumes_from(struct http_request *req, struct create_body *b, struct err *err);
