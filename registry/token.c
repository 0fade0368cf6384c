/*
 * The parser behind token.h. Runs in rind-registry. Pure.
 */
#include "token.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/rfc3339.h"
#include "json/parse.h"

/* Copies a token. -EINVAL: bytes that a header cannot have. */
static int token_copy(json_t *value, char **ret, struct err *err)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    if (len > TOKEN_MAX)
        return err_set(err, -EFBIG, "a token of more than %d bytes", TOKEN_MAX);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= 0x20 || (unsigned char)text[i] >= 0x7f)
            return err_set(err, -EINVAL, "a token with bytes that no header may have");
    *ret = strdup(text);
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "token");
}

static json_t *token_get_string(json_t *root, const char *key)
{
    json_t *value = json_object_get(root, key);

    return json_is_string(value) && json_string_length(value) > 0 ? value : NULL;
}

/* Of a token that was issued in the past a part of the lifetime is over. */
static int64_t token_get_lifetime(json_t *root, int64_t now)
{
    json_t *expires = json_object_get(root, "expires_in"),
           *issued = token_get_string(root, "issued_at");
    int64_t lifetime = TOKEN_LIFETIME;
    struct timespec at;

    if (json_is_integer(expires) && json_integer_value(expires) > lifetime)
        lifetime = json_integer_value(expires);
    if (lifetime > TOKEN_LIFETIME_MAX)
        lifetime = TOKEN_LIFETIME_MAX;
    if (issued != NULL && rfc3339_parse(json_string_value(issued), &at) == 0 && at.tv_sec < now &&
        now - at.tv_sec < lifetime)
        lifetime -= now - at.tv_sec;
    return lifetime;
}

int token_parse(const char *text, size_t len, int64_t now, struct token **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(token_free) struct token *t = calloc(1, sizeof(*t));
    json_t *value, *refresh;
    int r;

    if (t == NULL)
        return err_errno(err, -ENOMEM, "token");
    r = json_parse(text, len, TOKEN_ANSWER_MAX, &root, err);
    if (r < 0)
        return r;
    value = token_get_string(root, "token");
    if (value == NULL)
        value = token_get_string(root, "access_token");
    if (value == NULL)
        return err_set(err, -EINVAL, "has no token");
    r = token_copy(value, &t->text, err);
    refresh = token_get_string(root, "refresh_token");
    if (r == 0 && refresh != NULL)
        r = token_copy(refresh, &t->refresh, err);
    if (r < 0)
        return r;
    t->lifetime = token_get_lifetime(root, now);
    *ret = take(t);
    return 0;
}

void token_free(struct token *t)
{
    if (t == NULL)
        return;
    if (t->text != NULL)
        explicit_bzero(t->text, strlen(t->text));
    if (t->refresh != NULL)
        explicit_bzero(t->refresh, strlen(t->refresh));
    free(t->text);
    free(t->refresh);
    free(t);
}
