#pragma once

/* What the resources of the façade share. Errors go by api/reply.h, in Docker's shape: the route
 * set's. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/http.h"
#include "api/native/common.h"
#include "api/route.h"
#include "core/sandbox.h"
#include "json/parse.h"
#include "spec/spec.h"

struct err;
struct sandbox;
struct spec;

#define DOCKER_API_VERSION     "1.51"
#define DOCKER_API_VERSION_MIN "1.24"
/* spec/spec.h; label under which the façade keeps what it alone knows of a container, as JSON. */
#define DOCKER_LABEL SPEC_LABEL_OWN

enum {
    DOCKER_ID_LEN = 64,
    DOCKER_NAME_MAX = 255,
    DOCKER_TIME_MAX = 40, /* bytes of a time as text, with its NUL */
};

/* Whether the peer may use the API, and speaks a version of it that we know; else answered. Every
 * handler that does not call docker_sandbox calls this first. */
bool docker_admit(struct http_request *req);

/* The body of a call that needs none. Clients send blanks, null or {} for that, some of them with
 * the content type of a form: *ret is NULL then, whatever the type. */
int docker_optional_body(struct http_request *req, json_t **ret, struct err *err);

/* ---- ids ---- */

/*
 * A sandbox's id is the first 16 of 64 digits; the others follow from them, so that nothing has to
 * be written down, and what is no id of ours is not taken for one.
 */
void docker_id(const char *sandbox_id, char ret[DOCKER_ID_LEN + 1]);
/* By name, id, or the beginning of one: 0, -ENOENT, -ENOTUNIQ. */
int docker_lookup(struct http_request *req, const char *text, struct sandbox **ret,
                  struct err *err);
/* docker_admit, and the container that {id} names, if the peer may use it; NULL: answered. */
struct sandbox *docker_sandbox(struct http_request *req);

/*
 * Calls fn once nothing of the container's last run is being cleared away any more: at once, or
 * from the loop. Its end has been told by then, and clients take what comes next for possible. cb:
 * as of sandbox_cb, and called in both cases. -ENOMEM.
 */
int docker_when_settled(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);

/* ---- what a container looks like ---- */

/* Docker's word for its state. */
const char *docker_status(const struct sandbox *s);
bool docker_is_running(const struct sandbox *s); /* in Docker's sense: paused ones do */
/* What create has kept in DOCKER_LABEL; a new reference, an empty object where there is none. */
json_t *docker_kept(const struct spec *spec);

/* The network that it is in, in Docker's words: a name, "bridge", "none"; "": another container's.
 */
const char *docker_network(const struct spec *spec);

/* ---- JSON and text ---- */

/* "2006-01-02T15:04:05.000000000Z"; "0001-01-01T00:00:00Z" for 0, which is Docker's never. */
void docker_time_text(int64_t ns, char ret[DOCKER_TIME_MAX]);
json_t *docker_time(int64_t ms);
/* "1136073845.000000000", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05", "2006-01-02" as
 * nanoseconds. -EINVAL. */
int docker_time_parse(const char *text, int64_t *ret_ns);
/* The same of a query, where none (NULL, "") leaves *ret_ns. */
int docker_time_query(const char *key, const char *text, int64_t *ret_ns, struct err *err);
/* As Docker reads a query's bool: "", "0", "no", "false", "none" are false in any case. NULL too.
 */
bool docker_bool(const char *text);
/* The labels as an object, but for the façade's own. NULL on OOM. */
json_t *docker_labels(const struct spec *spec);
/* "K=V"s as an object; NULL: none. */
json_t *docker_label_object(char *const *labels);
/* The other way round, to be freed with json_strings_free; *ret NULL where there are none. -EINVAL:
 * not an object of strings. value: borrowed, or NULL. */
int docker_label_strings(json_t *value, char ***ret, struct err *err);
/* NULL-terminated strings as an array; NULL list: null. */
json_t *docker_strings(char *const *list);
/* Takes value. False on OOM, also for a NULL value. */
bool docker_put(json_t *object, const char *key, json_t *value);
/* A random id of DOCKER_ID_LEN digits. */
int docker_random_id(char ret[DOCKER_ID_LEN + 1]);
