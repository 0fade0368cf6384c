#pragma once

/* The requests of the parent (image/registry-proto.h), one function each. They block, send what
 * comes before the last message, and return 0 with *done filled (type, id and REGISTRY_DONE are the
 * caller's), or a negative errno with t set. *ret_fd: an fd for DONE, owned by the caller. */

#include "session.h"

typedef int request_fn(struct errand *e, struct registry_msg *done, int *ret_fd, struct trouble *t);

request_fn request_resolve;
request_fn request_fetch;
request_fn request_push_blob;
request_fn request_push_manifest;
request_fn request_login;
request_fn request_tags;

/* The hosts that are asked, in order: mirrors that serve this kind of reference, then the origin.
 * *at begins as 0; NULL: no more. */
struct registry_host *request_next_host(struct errand *e, bool by_digest, size_t *at);
/* True if another host may do better. */
bool request_goes_on(const struct errand *e, const struct registry_host *h,
                     const struct trouble *t);
