#include "ports/exposure.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "json/decode.h"
#include "json/parse.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

/* ---- the file exposures.json ---- */

struct stored_exposure {
    int64_t port;
    char *token, *name, *hostname; /* owned */
};

struct stored_exposures {
    struct stored_exposure *list; /* owned */
    size_t count;
};

#define ONE(member) offsetof(struct stored_exposure, member)
/* clang-format off */
static const struct jfield one_fields[] = {
    {.name = "port",     .decode = j_int64,  .off = ONE(port), .min = PREVIEW_PORT_MIN, .max = PREVIEW_PORT_MAX, .required = true},
    {.name = "token",    .decode = j_string, .off = ONE(token), .min = 1, .max = PREVIEW_TOKEN_MAX, .required = true},
    {.name = "name",     .decode = j_string, .off = ONE(name), .min = 1, .max = EXPOSURE_NAME_MAX, .nullable = true},
    {.name = "hostname", .decode = j_string, .off = ONE(hostname), .min = 1, .max = PREVIEW_HOST_MAX + 8, .required = true},
    {0},
};
static const struct jarray one_array = {
    .fields = one_fields, .size = sizeof(struct stored_exposure), .count_off = offsetof(struct stored_exposures, count)};
static const struct jfield file_fields[] = {
    {.name = "exposures", .decode = j_objects, .off = offsetof(struct stored_exposures, list), .array = &one_array, .max = EXPOSURES_MAX, .required = true},
    {0},
};
/* clang-format on */

static json_t *exposure_encode(const struct exposure *e)
{
    char hostname[PREVIEW_HOST_MAX + 8];

    (void)snprintf(hostname, sizeof(hostname), e->host.port != 0 ? "%s:%u" : "%s", e->host.name,
                   e->host.port);
    return json_pack("{s:i, s:s, s:s?, s:s}", "port", (int)e->port, "token", e->token, "name",
                     e->name, "hostname", hostname);
}

static int exposures_save(struct sandbox *s, struct err *err)
{
    auto_ptr(json_decref) json_t *root = json_object();
    json_t *list = json_array();

    if (root == NULL || json_object_set_new(root, "exposures", list) < 0)
        return err_errno(err, -ENOMEM, "exposures");
    for (const struct exposure *e = s->parts.exposures; e != NULL; e = e->next)
        if (json_array_append_new(list, exposure_encode(e)) < 0)
            return err_errno(err, -ENOMEM, "exposures");
    return store_save_exposures(s->sup->store, s->id, root, err);
}

static void exposure_free(struct exposure *e)
{
    if (e == NULL)
        return;
    free(e->name);
    free(e);
}
DEFINE_AUTO(struct exposure, exposure_free);

static int exposure_take_stored(struct sandbox *s, struct stored_exposure *from,
                                struct exposure ***tail, struct err *err)
{
    auto_ptr(exposure_free) struct exposure *e = calloc(1, sizeof(*e));
    int r;

    if (e == NULL)
        return err_errno(err, -ENOMEM, "exposures");
    if (!preview_token_ok(from->token) || exposure_find(s, (unsigned)from->port) != NULL)
        return err_set(err, -EINVAL, "a token that is none, or a port twice");
    r = preview_host_parse(from->hostname, &e->host, err);
    if (r < 0)
        return r;
    e->port = (unsigned)from->port;
    e->name = take(from->name);
    (void)snprintf(e->token, sizeof(e->token), "%s", from->token);
    **tail = e;
    *tail = &e->next;
    (void)take(e);
    return 0;
}

/* Also of a token that stays, as its host may be another one. */
static int exposure_check_token(const struct sandbox *s, const struct exposure *e, struct err *err)
{
    unsigned min = preview_token_min(&s->sup->front, e->host.local);

    if (strlen(e->token) >= min)
        return 0;
    return err_set(err, -EINVAL,
                   "token: \"%s\" can be guessed, and who knows the URL may use it: at least %u "
                   "characters (gateway.minToken in the daemon's configuration)",
                   e->token, min);
}

void exposure_load(struct sandbox *s)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct stored_exposures stored = {.list = NULL};
    struct exposure **tail = &s->parts.exposures;
    struct err err = ERR_NONE;
    int r;

    r = store_load_exposures(s->sup->store, s->id, &root, &err);
    if (r == -ENOENT)
        return;
    if (r == 0)
        r = json_decode(root, file_fields, &stored, &err);
    for (size_t i = 0; r == 0 && i < stored.count; i++)
        r = exposure_take_stored(s, &stored.list[i], &tail, &err);
    if (r < 0) {
        log_warn("sandbox", "id=%s exposures: %s; its ports are not exposed", s->id, err.msg);
        exposure_free_all(s);
    }
    for (const struct exposure *e = s->parts.exposures; e != NULL; e = e->next)
        if (exposure_check_token(s, e, &err) < 0)
            log_warn("sandbox", "id=%s port %u is not served: %s", s->id, e->port, err.msg);
    for (size_t i = 0; i < stored.count; i++) {
        free(stored.list[i].token);
        free(stored.list[i].name);
        free(stored.list[i].hostname);
    }
    free(stored.list);
}

void exposure_free_all(struct sandbox *s)
{
    while (s->parts.exposures != NULL) {
        struct exposure *e = s->parts.exposures;

        s->parts.exposures = e->next;
        exposure_free(e);
    }
}

/* ---- requests of clients ---- */

const struct exposure *exposure_first(const struct sandbox *s)
{
    return s->parts.exposures;
}

const struct exposure *exposure_find(const struct sandbox *s, unsigned port)
{
    for (const struct exposure *e = s->parts.exposures; e != NULL; e = e->next)
        if (e->port == port)
            return e;
    return NULL;
}

static int exposure_choose_token(const struct sandbox *s, const struct exposure_request *request,
                                 struct exposure *e, struct err *err)
{
    int r;

    if (request->token == NULL && e->token[0] != '\0')
        return 0;
    if (request->token == NULL) {
        r = preview_token_make(e->token);
        return r < 0 ? err_errno(err, r, "token") : 0;
    }
    if (!preview_token_ok(request->token))
        return err_set(err, -EINVAL, "token: must be 1 to %d of a-z, 0-9 and _", PREVIEW_TOKEN_MAX);
    for (const struct exposure *o = s->parts.exposures; o != NULL; o = o->next)
        if (o->port != e->port && strcmp(o->token, request->token) == 0)
            return err_set(err, -EEXIST, "token: port %u of this sandbox has it already", o->port);
    (void)snprintf(e->token, sizeof(e->token), "%s", request->token);
    return 0;
}

static int exposure_fill(const struct sandbox *s, const struct exposure_request *request,
                         const struct exposure *old, struct exposure *e, struct err *err)
{
    const char *name = request->name != NULL ? request->name : old != NULL ? old->name : NULL;
    char url[PREVIEW_URL_MAX];
    int r;

    if (old != NULL) {
        (void)memcpy(e->token, old->token, sizeof(e->token));
        e->host = old->host;
    }
    e->port = request->port;
    if (!preview_name_ok(sandbox_name(s)))
        return err_set(err, -EINVAL,
                       "the sandbox's name %s cannot stand in a host name: only a-z, 0-9, - and _ "
                       "can",
                       sandbox_name(s));
    r = exposure_choose_token(s, request, e, err);
    if (r == 0 && (request->hostname != NULL || old == NULL))
        r = preview_host_parse(request->hostname != NULL ? request->hostname : "localhost",
                               &e->host, err);
    if (r == 0)
        r = exposure_check_token(s, e, err);
    if (r < 0)
        return r;
    if (name != NULL && (e->name = strdup(name)) == NULL)
        return err_errno(err, -ENOMEM, "exposure");
    return exposure_url(s, e, NULL, url, err);
}

static struct exposure **exposure_place(struct sandbox *s, unsigned port)
{
    struct exposure **at = &s->parts.exposures;

    while (*at != NULL && (*at)->port < port)
        at = &(*at)->next;
    return at;
}

static unsigned exposure_count(const struct sandbox *s)
{
    unsigned n = 0;

    for (const struct exposure *e = s->parts.exposures; e != NULL; e = e->next)
        n++;
    return n;
}

int exposure_put(struct sandbox *s, const struct exposure_request *request,
                 const struct exposure **ret, bool *ret_made, struct err *err)
{
    auto_ptr(exposure_free) struct exposure *e = calloc(1, sizeof(*e));
    struct exposure **at, *old;
    int r;

    if (e == NULL)
        return err_errno(err, -ENOMEM, "exposure");
    at = exposure_place(s, request->port);
    old = *at != NULL && (*at)->port == request->port ? *at : NULL;
    if (old == NULL && exposure_count(s) >= s->sup->limits.exposures)
        return err_set(err, -EUSERS, "limit maxExposures: %u ports are exposed", exposure_count(s));
    r = exposure_fill(s, request, old, e, err);
    if (r < 0)
        return r;
    e->next = old != NULL ? old->next : *at;
    *at = e;
    r = exposures_save(s, err);
    if (r < 0) {
        *at = old != NULL ? old : e->next;
        return r;
    }
    exposure_free(old);
    *ret_made = old == NULL;
    *ret = take(e);
    return 0;
}

int exposure_remove(struct sandbox *s, unsigned port, struct err *err)
{
    struct exposure **at = exposure_place(s, port), *e = *at;
    int r;

    if (e == NULL || e->port != port)
        return err_set(err, -ENOENT, "port %u of sandbox %s is not exposed", port, sandbox_name(s));
    *at = e->next;
    r = exposures_save(s, err);
    if (r < 0) {
        *at = e; /* the file still has it, so a restart would bring it back */
        return r;
    }
    exposure_free(e);
    return 0;
}

bool exposure_is_served(const struct sandbox *s)
{
    return s->sup->front.port != 0;
}

int exposure_url(const struct sandbox *s, const struct exposure *e, const struct preview_host *host,
                 char ret[PREVIEW_URL_MAX], struct err *err)
{
    struct preview p = {.port = e->port};

    (void)snprintf(p.name, sizeof(p.name), "%s", sandbox_name(s));
    (void)memcpy(p.token, e->token, sizeof(p.token));
    return preview_url(&p, host != NULL ? host : &e->host, &s->sup->front, ret, err);
}

/* ---- requests of the gateway ---- */

struct sandbox *exposure_open(struct supervisor *sup, const struct preview *p)
{
    /*
     * No valid token. It is compared when there is no exposure, so that both cases take equally
     * long.
     */
    static const char nothing[PREVIEW_TOKEN_MAX + 1] = "----------------";
    struct sandbox *s = sandbox_by_name(sup, p->name), *found = NULL;
    const bool enough = strlen(p->token) >= preview_token_min(&sup->front, p->local);

    /*
     * Several users may have a sandbox of the name: the token says whose is meant. With the same
     * token, chosen by one of them, it is the oldest: a later sandbox takes over no URL.
     */
    do {
        const struct exposure *e = s != NULL ? exposure_find(s, p->port) : NULL;

        if (preview_token_same(e != NULL ? e->token : nothing, p->token) &&
            (found == NULL || (s != NULL && s->made.ms < found->made.ms)))
            found = s;
        s = s != NULL ? sandbox_next_of_name(s, p->name) : NULL;
    } while (s != NULL);
    /* A short one of an earlier configuration, or for another host, opens nothing. */
    return enough ? found : NULL;
}
