/* The image of a spec, and the merging of its configuration below the spec's own settings. Pure. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "json/decode.h"
#include "spec/env-index.h"
#include "spec/env.h"
#include "spec/health.h"
#include "spec/parse.h"
#include "spec/spec.h"
#include "spec/strings.h"

static int copy_strings(char *const *from, char ***ret)
{
    char **copy = strings_new();
    int r = copy != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && from[i] != NULL; i++)
        r = strings_append(&copy, i, from[i]);
    if (r < 0) {
        json_strings_free(copy);
        return r;
    }
    *ret = copy;
    return 0;
}

int spec_set_image(struct spec *s, const char *text, struct err *err)
{
    size_t len = strlen(text);
    char *copy;

    /* Only checks for printable characters without blanks; the reference is parsed later. */
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f)
            len = 0;
    if (len == 0 || len > SPEC_IMAGE_MAX || text[0] == '-')
        return err_set(err, -EINVAL,
                       "image \"%.*s\": must be a name like alpine:3.20, or an id, of at most %d "
                       "bytes",
                       QUOTE_MAX, text, SPEC_IMAGE_MAX);
    copy = strdup(text);
    if (copy == NULL)
        return err_errno(err, -ENOMEM, "image");
    free(s->image);
    s->image = copy;
    return 0;
}

int spec_set_entrypoints(struct spec *s, char *const argv[], struct err *err)
{
    char **copy = NULL;
    size_t n = 0;
    int r;

    while (argv[n] != NULL) {
        if (strlen(argv[n]) > SPEC_STRING_MAX)
            return err_set(err, -E2BIG, "entry point: argument %zu is longer than %d bytes", n,
                           SPEC_STRING_MAX);
        n++;
    }
    if (n > SPEC_ARGS_MAX)
        return err_set(err, -E2BIG, "entry point: more than %d arguments", SPEC_ARGS_MAX);
    r = copy_strings(argv, &copy);
    if (r < 0)
        return err_errno(err, r, "entry point");
    json_strings_free(s->entrypoint);
    s->entrypoint = copy;
    return 0;
}

int spec_set_entrypoint(struct spec *s, const char *text, struct err *err)
{
    char *word = strdup(text);
    char *const argv[] = {text[0] != '\0' ? word : NULL, NULL};
    int r =
        word != NULL ? spec_set_entrypoints(s, argv, err) : err_errno(err, -ENOMEM, "entry point");

    free(word);
    return r;
}

int spec_set_health_cmd(struct spec *s, const char *text, struct err *err)
{
    static char none[] = "NONE", shell[] = "CMD-SHELL";
    auto_free char *word = strdup(text);
    char *const by_shell[] = {shell, word, NULL}, *const nothing[] = {none, NULL};
    int r;

    if (text[0] == '\0' || strlen(text) > SPEC_STRING_MAX)
        return err_set(err, -EINVAL, "health command: empty, or longer than %d bytes",
                       SPEC_STRING_MAX);
    if (word == NULL)
        return err_errno(err, -ENOMEM, "health command");
    r = spec_health_set_test(&s->health, strcmp(text, "none") == 0 ? nothing : by_shell);
    return r < 0 ? err_errno(err, r, "health command") : 0;
}

void spec_forget_image(struct spec *s)
{
    free(take(s->image_id));
    json_strings_free(take(s->image_layers));
}

int spec_join_command(struct spec *s, char *const *entrypoint, char *const *command,
                      struct err *err)
{
    auto_free char **argv = NULL;
    size_t n = 0, m = 0;

    while (entrypoint != NULL && entrypoint[n] != NULL)
        n++;
    while (command != NULL && command[m] != NULL)
        m++;
    argv = calloc(n + m + 1, sizeof(*argv));
    if (argv == NULL)
        return err_errno(err, -ENOMEM, "command");
    for (size_t i = 0; i < n; i++)
        argv[i] = entrypoint[i];
    for (size_t i = 0; i < m; i++)
        argv[n + i] = command[i];
    json_strings_free(take(s->entrypoint));
    if (n + m > 0)
        return spec_set_command(s, argv, err);
    json_strings_free(s->argv);
    s->argv = strings_new();
    return s->argv != NULL ? 0 : err_errno(err, -ENOMEM, "command");
}

int spec_env_beneath(struct spec *s, char *const *env, struct err *err)
{
    char **own = s->env;
    char *const *lists[] = {env, own, NULL};
    int r = 0;

    if (env == NULL)
        return 0;
    s->env = strings_new();
    if (s->env == NULL) {
        s->env = own;
        return err_errno(err, -ENOMEM, "environment");
    }
    env_index_free(take(s->env_index));
    s->env_count = s->env_capacity = s->env_bytes = 0;
    for (size_t k = 0; r == 0 && k < 2; k++)
        for (char *const *e = lists[k]; r == 0 && *e != NULL; e++) {
            const char *equals = strchr(*e, '=');

            if (equals != NULL && equals != *e)
                r = env_put(s, *e, (size_t)(equals - *e), equals + 1, err);
        }
    json_strings_free(own);
    return r;
}

static bool has_label(const struct spec *s, const char *text)
{
    size_t key = strcspn(text, "=");

    for (char **l = s->labels; *l != NULL; l++)
        if (strncmp(*l, text, key) == 0 && (*l)[key] == '=')
            return true;
    return false;
}

bool spec_label_is_own(const char *label)
{
    static const char own[] = SPEC_LABEL_OWN "=";

    return strncmp(label, own, sizeof(own) - 1) == 0;
}

bool spec_is_docker(const struct spec *s)
{
    for (char **l = s->labels; l != NULL && *l != NULL; l++)
        if (spec_label_is_own(*l))
            return true;
    return false;
}

void spec_labels_beneath(struct spec *s, char *const *labels)
{
    for (; labels != NULL && *labels != NULL; labels++)
        if (!has_label(s, *labels) && !spec_label_is_own(*labels))
            (void)spec_add_label(
                s, *labels,
                NULL); /* labels that do not fit are skipped, since they come from the image */
}

int spec_set_image_layers(struct spec *s, const char *id, char *const *layers, struct err *err)
{
    char **copy = NULL;
    char *own = strdup(id);
    int r = own != NULL ? copy_strings(layers, &copy) : -ENOMEM;

    if (r < 0) {
        free(own);
        return err_errno(err, r, "image");
    }
    spec_forget_image(s);
    s->image_id = own;
    s->image_layers = copy;
    return 0;
}

void health_check_done(struct health_check *h)
{
    json_strings_free(take(h->test));
}
