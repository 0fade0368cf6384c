#pragma once

/* Shared by the façade's resources. Errors are sent by http/reply.h in Docker's format
 * (route_set.failure). */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/common.h"
#include "http/route.h"
#include "http/server.h"
#include "json/parse.h"
#include "sandbox/sandbox.h"
#include "spec/spec.h"

struct err;
struct filters;
struct sandbox;
struct spec;

#define DOCKER_API_VERSION     "1.51"
#define DOCKER_API_VERSION_MIN "1.24"
/* spec/spec.h; the label in which the façade stores, as JSON, what only it knows of a container. */
#define DOCKER_LABEL SPEC_LABEL_OWN

enum {
    DOCKER_ID_LEN = 64,
    DOCKER_NAME_MAX = 255,
    DOCKER_TIME_MAX = 40, /* bytes of a time as text, with its NUL */
};

/* route_set.admit of the façade: true if the peer may use the API and requests a supported version;
 * otherwise answers. */
bool docker_admit(struct http_request *req);

/* True if the request names a version of the API older than 1.minor. */
bool docker_is_older(const struct http_request *req, int minor);

/* Parses the body of a call that needs none. Clients send blanks, null or {} instead, some with
 * a form's content type: then *ret is NULL, whatever the type. 0 or a negative errno. */
int docker_optional_body(struct http_request *req, json_t **ret, struct err *err);

/* ---- ids ---- */

/* A sandbox's id is the first 16 of 64 digits; the others are derived from them. So nothing is
 * stored, and foreign ids do not match. */
void docker_id(const char *sandbox_id, char ret[DOCKER_ID_LEN + 1]);
/* Finds a container that the peer sees by name, id, or prefix of an id. 0, -ENOENT, -ENOTUNIQ. */
int docker_lookup(struct http_request *req, const char *text, struct sandbox **ret,
                  struct err *err);
/* As docker_lookup, with the right that the route needs to the container that it names: -EPERM. */
int docker_find(struct http_request *req, const char *text, struct sandbox **ret, struct err *err);
/* Returns the container named by {id}, if the peer has the right that the route needs. NULL:
 * answered. */
struct sandbox *docker_sandbox(struct http_request *req);

/* Calls cb when the clean-up of the container's last run has ended: at once or from the loop.
 * Clients learn of the end before the clean-up, and expect that the next request works. cb is
 * called exactly once on success. -ENOMEM. */
int docker_when_settled(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);

/* ---- a container's description ---- */

/* Returns Docker's word for its state. */
const char *docker_status(const struct sandbox *s);
bool docker_is_running(const struct sandbox *s); /* in Docker's sense: true while paused */
/* Returns the JSON that create stored in DOCKER_LABEL; a new reference, an empty object if there
 * is none. */
json_t *docker_kept(const struct spec *spec);

/* Returns its network in Docker's words: a name, "bridge" or "none"; "" for another container's
 * network. */
const char *docker_network(const struct spec *spec);
/* Returns its network number i in Docker's words, borrowed; NULL: it has fewer. */
const char *docker_network_at(const struct spec *spec, size_t i);
bool docker_is_in_network(const struct spec *spec, const char *name);
/* True for a container that Docker's API has created. */
bool docker_is_made_here(const struct spec *spec);

/* Says in Docker's words, which clients look for, that command did not start. code: as a shell has
 * it, 126 or 127; others leave *err. -EINVAL: *err is set, with why as its end. */
int docker_explain_exec(int code, const char *command, const char *why, struct err *err);

/* ---- JSON and text ---- */

/* Formats "2006-01-02T15:04:05.000000000Z"; 0 gives "0001-01-01T00:00:00Z", which is Docker's
 * never. */
void docker_time_text(int64_t ns, char ret[DOCKER_TIME_MAX]);
json_t *docker_time(int64_t ms);
/* Parses "1136073845.000000000", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05" or "2006-01-02"
 * to nanoseconds. -EINVAL. */
int docker_time_parse(const char *text, int64_t *ret_ns);
/* Like docker_time_parse, for a query parameter; NULL or "" leaves *ret_ns. */
int docker_time_query(const char *key, const char *text, int64_t *ret_ns, struct err *err);
/* Parses the filter "until" of a prune: a time, or a span like "1h30m" before now. Without the
 * filter *ret_ms is the end of time. -EINVAL, also for two of them. */
int docker_filters_until(const struct filters *f, int64_t *ret_ms, struct err *err);
/* Parses a query's bool like Docker: "", "0", "no", "false", "none" in any letter case, and NULL,
 * are false. */
bool docker_bool(const char *text);
/* Returns the labels as an object, without the façade's own. NULL on OOM. */
json_t *docker_labels(const struct spec *spec);
/* Returns "K=V" strings as an object; NULL list: an empty one. */
json_t *docker_label_object(char *const *labels);
/* Converts an object to "K=V" strings; the caller frees them with json_strings_free; *ret is
 * NULL if there are none. -EINVAL: not an object of strings. value: borrowed, or NULL. */
int docker_label_strings(json_t *value, char ***ret, struct err *err);
/* Returns NULL-terminated strings as an array; NULL list: null. */
json_t *docker_strings(char *const *list);
/* Sets a key; takes value. False on OOM, also for a NULL value. */
bool docker_put(json_t *object, const char *key, json_t *value);
/* Makes a random id of DOCKER_ID_LEN digits. */
int docker_random_id(char ret[DOCKER_ID_LEN + 1]);
