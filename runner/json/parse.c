#include "json/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"

/* Refuses deep nesting before the recursive parser runs. Only brackets outside strings count.
 * Invalid JSON may be miscounted, but then the parser refuses it. */
static int check_depth(const char *text, size_t len, struct err *err)
{
    bool in_string = false;
    size_t depth = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_DEPTH_MAX)
                return err_set(err, -EINVAL, "nested more than %d deep", JSON_DEPTH_MAX);
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return 0;
}

int json_parse(const char *text, size_t len, size_t max, json_t **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    json_error_t why;
    int r;

    if (len > max)
        return err_set(err, -EFBIG, "longer than %zu bytes", max);
    if (memchr(text, '\0', len) != NULL)
        return err_set(err, -EINVAL, "holds a NUL byte");
    r = check_depth(text, len, err);
    if (r < 0)
        return r;

    /* Without JSON_ALLOW_NUL an escaped NUL in a string is refused as well. */
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        if (json_error_code(&why) == json_error_out_of_memory)
            return err_errno(err, -ENOMEM, "parse JSON");
        return err_set(err, -EINVAL, "line %d, column %d: %s", why.line, why.column, why.text);
    }
    if (!json_is_object(root))
        return err_set(err, -EINVAL, "must be a JSON object");

    *ret = take(root);
    return 0;
}
