/*
 * The token flow behind auth.h. Runs in the threads of rind-registry; the host's lock is held while
 * a token is asked for.
 */
#include "auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "call.h"
#include "refusal.h"
#include "token.h"

enum {
    EARLY_MS = 10000 /* before the end of a token it is not used any more */,
    FORM_MAX = 256 << 10
};

static void auth_secret_free(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static int auth_no_memory(struct trouble *t)
{
    return trouble_set(t, REGISTRY_LOCAL, -ENOMEM, "out of memory");
}

/* ---- headers ---- */

static char *header_of(const char *scheme, const char *value)
{
    char *header = NULL;

    return asprintf(&header, "Authorization: %s %s", scheme, value) < 0 ? NULL : header;
}

static char *header_of_password(const struct job_credential *c)
{
    auto_free char *plain = NULL, *text = NULL;
    char *header;
    int n = asprintf(&plain, "%s:%s", c->username, c->password);

    if (n < 0)
        return NULL;
    text = malloc(base64_encoded_size((size_t)n) + 1);
    if (text == NULL)
        return NULL;
    (void)base64_encode(text, plain, (size_t)n);
    header = header_of("Basic", text);
    explicit_bzero(plain, (size_t)n);
    explicit_bzero(text, strlen(text));
    return header;
}

static bool has_password(const struct job_credential *c)
{
    return c->username != NULL && c->username[0] != '\0' && c->password != NULL;
}

/* ---- what is asked of the token server ---- */

/* Scopes, joined by blanks: the job's own, the one to mount from, and the challenge's where it is
 * of another kind. */
static void auth_format_scope(const struct errand *e, const struct registry_host *h,
                              const char *mount_from, char *ret, size_t size)
{
    const char *asked = h->challenge.scope;
    size_t at = 0;

    ret[0] = '\0';
    if (h->repository != NULL)
        at = (size_t)snprintf(ret, size, "repository:%s:%s", h->repository,
                              e->session->job->push && !h->is_mirror ? "pull,push" : "pull");
    if (mount_from != NULL && mount_from[0] != '\0' && at < size)
        at += (size_t)snprintf(ret + at, size - at, " repository:%s:pull", mount_from);
    if (asked[0] != '\0' && strncmp(asked, "repository:", 11) != 0 && at < size)
        (void)snprintf(ret + at, size - at, "%s%s", at > 0 ? " " : "", asked);
}

static int url_add_scopes(struct url *u, const char *scopes)
{
    char one[CHALLENGE_TEXT_MAX + 1];
    int r = 0;

    while (r == 0 && *scopes != '\0') {
        size_t len = strcspn(scopes, " ");

        if (len > 0 && len < sizeof(one)) {
            (void)memcpy(one, scopes, len);
            one[len] = '\0';
            r = url_add_query(u, "scope", one);
        }
        scopes += len + (scopes[len] == ' ');
    }
    return r;
}

static int form_add(struct buf *form, const char *name, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    int r = buf_printf(form, "%s%s=", form->len > 0 ? "&" : "", name);

    for (; r == 0 && *value != '\0'; value++)
        r = strchr(plain, *value) != NULL ? buf_append(form, value, 1)
                                          : buf_printf(form, "%%%02X", (unsigned char)*value);
    return r;
}

/* The realm, whose scheme may not be worse than the registry's. */
static int auth_parse_realm(const struct registry_host *h, struct url *ret, struct trouble *t)
{
    struct err err = ERR_NONE;

    if (url_parse(h->challenge.realm, ret, &err) < 0)
        return trouble_set(t, REGISTRY_ADDRESS, err.code,
                           "%s: the address of its token server is %s", h->shown, err.msg);
    if (h->base.https && !ret->https)
        return trouble_set(t, REGISTRY_ADDRESS, -EPROTONOSUPPORT,
                           "%s: its token server %s speaks http, which is refused", h->shown,
                           ret->host);
    return 0;
}

/* ---- asking it ---- */

/* Interprets the answer. *ret_no_form: the server does not know the POST form. */
static int auth_read_answer(struct registry_host *h, const struct http_response *p,
                            struct token **ret, bool *ret_no_form, struct trouble *t)
{
    struct err err = ERR_NONE;

    if (p->status == 404 || p->status == 405) {
        *ret_no_form = true;
        return call_refused(h, p, "token", t);
    }
    if (p->status != 200)
        return call_refused(h, p, "token", t);
    if (token_parse(p->body.data != NULL ? p->body.data : "", p->body.len, time(NULL), ret, &err) <
        0)
        return trouble_set(t, REGISTRY_MALFORMED, err.code, "%s: the answer of its token server %s",
                           h->shown, err.msg);
    return 0;
}

static int auth_exchange(struct errand *e, struct registry_host *h, const struct call *c,
                         const struct url *realm, const char *auth, struct token **ret,
                         bool *ret_no_form, struct trouble *t)
{
    int attempt = 0, r;

    for (;;) {
        struct http_response p;

        r = call_follow(e, c, realm, auth, &p, NULL, t);
        if (r == 0) {
            r = call_check_busy(h, &p, t);
            if (r == 0)
                r = auth_read_answer(h, &p, ret, ret_no_form, t);
            if (p.body.data != NULL)
                explicit_bzero(p.body.data, p.body.len);
            http_response_done(&p);
        }
        if (r == 0 || !errand_try_again(e, &attempt, t))
            return r;
    }
}

static int auth_get(struct errand *e, struct registry_host *h, const char *scopes,
                    struct token **ret, struct trouble *t)
{
    const struct call c = {.method = "GET", .body_fd = FD_NONE, .answer_max = TOKEN_ANSWER_MAX};
    char *header = NULL;
    struct url realm;
    bool no_form = false;
    int r = auth_parse_realm(h, &realm, t);

    if (r < 0)
        return r;
    if (has_password(h->credential)) {
        header = header_of_password(h->credential);
        if (header == NULL)
            return auth_no_memory(t);
        r = url_add_query(&realm, "account", h->credential->username);
    }
    if (r == 0 && h->challenge.service[0] != '\0')
        r = url_add_query(&realm, "service", h->challenge.service);
    if (r == 0)
        r = url_add_scopes(&realm, scopes);
    if (r == 0)
        r = url_add_query(&realm, "client_id", "rind");
    if (r < 0)
        r = trouble_set(t, REGISTRY_MALFORMED, r, "%s: the address of its token server is too long",
                        h->shown);
    else
        r = auth_exchange(e, h, &c, &realm, header, ret, &no_form, t);
    auth_secret_free(header);
    return r;
}

/* The form of OAuth: with an identity token, or with a password for one. */
static int auth_post(struct errand *e, struct registry_host *h, const char *scopes, bool login,
                     struct token **ret, bool *ret_no_form, struct trouble *t)
{
    struct buf form = BUF_INIT(FORM_MAX);
    struct call c = {.method = "POST",
                     .body_fd = FD_NONE,
                     .headers = {"Content-Type: application/x-www-form-urlencoded"},
                     .answer_max = TOKEN_ANSWER_MAX,
                     .secret = true};
    struct url realm;
    int r = auth_parse_realm(h, &realm, t);

    if (r < 0)
        return r;
    r = form_add(&form, "grant_type", login ? "password" : "refresh_token");
    if (r == 0 && login)
        r = form_add(&form, "username", h->credential->username);
    if (r == 0)
        r = form_add(&form, login ? "password" : "refresh_token",
                     login ? h->credential->password : h->credential->identity);
    if (r == 0)
        r = form_add(&form, "service", h->challenge.service);
    if (r == 0 && scopes[0] != '\0')
        r = form_add(&form, "scope", scopes);
    if (r == 0)
        r = form_add(&form, "client_id", "rind");
    if (r == 0)
        r = form_add(&form, "access_type", "offline");
    c.bytes = form.data;
    c.bytes_len = form.len;
    r = r < 0 ? auth_no_memory(t) : auth_exchange(e, h, &c, &realm, NULL, ret, ret_no_form, t);
    if (form.data != NULL)
        explicit_bzero(form.data, form.len);
    buf_done(&form);
    return r;
}

/* ---- tokens that are kept ---- */

static struct host_token *host_find_token(struct registry_host *h, const char *scopes)
{
    for (size_t i = 0; i < REMOTE_TOKENS_MAX; i++)
        if (h->tokens[i].scope != NULL && strcmp(h->tokens[i].scope, scopes) == 0)
            return &h->tokens[i];
    return NULL;
}

static int host_keep_token(struct registry_host *h, const char *scopes, struct token *token,
                           struct host_token **ret)
{
    struct host_token *place = host_find_token(h, scopes);

    for (size_t i = 0; place == NULL && i < REMOTE_TOKENS_MAX; i++)
        if (h->tokens[i].scope == NULL)
            place = &h->tokens[i];
    if (place == NULL)
        place = &h->tokens[h->token_number % REMOTE_TOKENS_MAX];
    free(place->scope);
    auth_secret_free(place->text);
    place->scope = strdup(scopes);
    place->text = take(token->text);
    place->until = clock_mono_ms() + token->lifetime * 1000;
    place->number = ++h->token_number;
    *ret = place;
    return place->scope != NULL ? 0 : -ENOMEM;
}

static int auth_get_token(struct errand *e, struct registry_host *h, const char *scopes,
                          uint64_t stale, struct host_token **ret, struct trouble *t)
{
    auto_ptr(token_free) struct token *token = NULL;
    struct host_token *kept = host_find_token(h, scopes);
    bool no_form = true;
    int r = 0;

    if (kept != NULL && kept->number != stale && kept->until - EARLY_MS > clock_mono_ms()) {
        *ret = kept;
        return 0;
    }
    if (h->credential->identity != NULL && h->credential->identity[0] != '\0') {
        no_form = false;
        r = auth_post(e, h, scopes, false, &token, &no_form, t);
        if (r < 0 && !no_form)
            return r;
    }
    if (no_form)
        r = auth_get(e, h, scopes, &token, t);
    if (r < 0)
        return r;
    return host_keep_token(h, scopes, token, ret) < 0 ? auth_no_memory(t) : 0;
}

int auth_make_header(struct errand *e, struct registry_host *h, const char *mount_from,
                     uint64_t stale, char **ret, uint64_t *ret_number, bool *ret_fresh,
                     struct trouble *t)
{
    const struct job_credential *c = h->credential;
    char scopes[REMOTE_SCOPE_MAX];
    struct host_token *token = NULL;
    char *header = NULL;
    uint64_t before;
    int r = 0;

    *ret = NULL;
    *ret_number = 0;
    *ret_fresh = false;
    (void)pthread_mutex_lock(&h->lock);
    if (c->bearer != NULL && c->bearer[0] != '\0') {
        header = header_of("Bearer", c->bearer);
        r = header == NULL ? auth_no_memory(t) : 0;
    } else if (h->challenge.scheme == CHALLENGE_BASIC && has_password(c)) {
        header = header_of_password(c);
        r = header == NULL ? auth_no_memory(t) : 0;
    } else if (h->challenge.scheme == CHALLENGE_BEARER) {
        auth_format_scope(e, h, mount_from, scopes, sizeof(scopes));
        before = h->token_number;
        r = auth_get_token(e, h, scopes, stale, &token, t);
        if (r == 0) {
            *ret_fresh = h->token_number != before;
            header = header_of("Bearer", token->text);
            *ret_number = token->number;
            r = header == NULL ? auth_no_memory(t) : 0;
        }
    }
    (void)pthread_mutex_unlock(&h->lock);
    *ret = header;
    return r;
}

void auth_challenge(struct registry_host *h, const struct challenge *c)
{
    (void)pthread_mutex_lock(&h->lock);
    if (c->scheme != CHALLENGE_NONE)
        h->challenge = *c;
    (void)pthread_mutex_unlock(&h->lock);
}

bool auth_has_answer(struct registry_host *h, bool was_sent)
{
    bool has;

    (void)pthread_mutex_lock(&h->lock);
    has = h->credential->bearer == NULL &&
          (h->challenge.scheme == CHALLENGE_BEARER ||
           (h->challenge.scheme == CHALLENGE_BASIC && has_password(h->credential) && !was_sent));
    (void)pthread_mutex_unlock(&h->lock);
    return has;
}

int auth_login(struct errand *e, struct registry_host *h, char **ret, struct trouble *t)
{
    auto_ptr(token_free) struct token *token = NULL;
    bool no_form = false;
    int r = 0;

    *ret = NULL;
    (void)pthread_mutex_lock(&h->lock);
    if (h->challenge.scheme == CHALLENGE_BEARER && has_password(h->credential)) {
        r = auth_post(e, h, h->challenge.scope, true, &token, &no_form, t);
        if (r == 0 && token != NULL)
            *ret = take(token->refresh);
        /* No such form, or none for this user: the ordinary one decides. */
        if (r < 0 && t->fault != REGISTRY_CANCELED)
            r = 0;
    }
    (void)pthread_mutex_unlock(&h->lock);
    return r;
}
