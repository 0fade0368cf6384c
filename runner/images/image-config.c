/*
 * Fills what a spec leaves unset from the image's configuration, by the rules of docker run. Called
 * when a sandbox is created, by the API and by `rind run`.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/manifest.h"
#include "images/images.h"
#include "json/decode.h"
#include "spec/health.h"
#include "spec/spec.h"

static int check_platform(const struct image_config *c, struct err *err)
{
    if ((c->os != NULL && strcmp(c->os, "linux") != 0) ||
        (c->architecture != NULL && strcmp(c->architecture, image_architecture()) != 0))
        return err_set(err, -EOPNOTSUPP, "it is for %s/%s, this machine is linux/%s",
                       c->os != NULL ? c->os : "linux",
                       c->architecture != NULL ? c->architecture : "?", image_architecture());
    return 0;
}

/* If the spec names an entry point, the image's arguments do not apply, as in docker run. */
static int merge_command(const struct image_config *c, struct spec *s, struct err *err)
{
    char *const *entrypoint = s->entrypoint != NULL ? s->entrypoint : c->entrypoint;
    char *const *command = s->argv[0] != NULL ? s->argv : s->entrypoint != NULL ? NULL : c->cmd;
    char **own_entrypoint = take(s->entrypoint), **own_command = NULL;
    int r;

    /* command may be s->argv itself, which spec_join_command replaces. */
    if (command == s->argv) {
        own_command = take(s->argv);
        s->argv = calloc(1, sizeof(char *));
        if (s->argv == NULL) {
            s->argv = own_command;
            json_strings_free(own_entrypoint);
            return err_errno(err, -ENOMEM, "command");
        }
    }
    r = spec_join_command(s, entrypoint, command, err);
    json_strings_free(own_entrypoint);
    json_strings_free(own_command);
    return r;
}

/*
 * Normalizes an absolute path: "a/../../b/" becomes "/b"; ".." stops at the root. Caller frees;
 * NULL = out of memory.
 */
static char *clean_path(const char *text)
{
    char *out = malloc(strlen(text) + 2);
    size_t len = 0;

    if (out == NULL)
        return NULL;
    while (*text != '\0') {
        size_t part = strcspn(text, "/");

        if (part == 2 && text[0] == '.' && text[1] == '.') {
            while (len > 0 && out[--len] != '/')
                ;
        } else if (part > 0 && !(part == 1 && text[0] == '.')) {
            out[len++] = '/';
            (void)memcpy(out + len, text, part);
            len += part;
        }
        text += part;
        text += *text == '/';
    }
    if (len == 0)
        out[len++] = '/';
    out[len] = '\0';
    return out;
}

static int merge_cwd(const struct image_config *c, struct spec *s, struct err *err)
{
    auto_free char *path = NULL;

    if (s->cwd != NULL || c->cwd == NULL)
        return 0;
    path = clean_path(c->cwd);
    if (path == NULL)
        return err_errno(err, -ENOMEM, "WorkingDir");
    if (strcmp(path, "/") == 0)
        return 0;
    return spec_set_workdir(s, path, err);
}

static void merge_milliseconds(int64_t *mine, int64_t image)
{
    if (*mine == LIMIT_UNSET && image > 0)
        *mine = image < SPEC_TIME_MAX_MS ? image : SPEC_TIME_MAX_MS;
}

static int merge_health(const struct image_config *c, struct spec *s, struct err *err)
{
    struct health_check *h = &s->health;
    char **shell = c->shell;
    int r = 0;

    if (h->none)
        return 0;
    if (h->test == NULL && c->health.test != NULL && c->health.test[0] != NULL) {
        r = spec_health_set_test(h, c->health.test);
        if (r < 0)
            return err_set(err, r,
                           "Healthcheck: must be [\"NONE\"], [\"CMD\", ...], or [\"CMD-SHELL\", "
                           "TEXT]; another one, or none, can be said");
    }
    if (h->test == NULL)
        return 0;
    merge_milliseconds(&h->interval_ms, c->health.interval_ms);
    merge_milliseconds(&h->timeout_ms, c->health.timeout_ms);
    merge_milliseconds(&h->start_period_ms, c->health.start_period_ms);
    merge_milliseconds(&h->start_interval_ms, c->health.start_interval_ms);
    if (h->retries == LIMIT_UNSET && c->health.retries > 0)
        h->retries = c->health.retries < SPEC_HEALTH_RETRIES_MAX ? c->health.retries
                                                                 : SPEC_HEALTH_RETRIES_MAX;
    /* A shell-form test from the image runs in the shell that the image names. */
    if (h->shell && shell != NULL && shell[0] != NULL) {
        char *words[64];
        size_t n = 0;
        char **text = h->test;

        words[n++] = (char[]){"CMD"};
        for (; *shell != NULL && n < 62; shell++)
            words[n++] = *shell;
        words[n++] = text[0];
        words[n] = NULL;
        r = spec_health_set_test(h, words);
    }
    return r < 0 ? err_errno(err, r, "Healthcheck") : 0;
}

static bool has_target(const struct spec *s, const char *target)
{
    for (size_t i = 0; i < s->volume_count; i++)
        if (strcmp(s->volumes[i].target, target) == 0)
            return true;
    for (size_t i = 0; i < s->tmpfs_count; i++)
        if (strcmp(s->tmpfs[i].target, target) == 0)
            return true;
    return false;
}

/* A volume path with no other mount on it gets an anonymous volume, removed with the sandbox. */
static int merge_volumes(const struct image_config *c, struct spec *s, struct err *err)
{
    int r = 0;

    for (char **v = c->volumes; r == 0 && v != NULL && *v != NULL; v++) {
        auto_free char *path = clean_path(*v);

        if (path == NULL)
            return err_errno(err, -ENOMEM, "Volumes");
        if (strcmp(path, "/") != 0 && !has_target(s, path))
            r = spec_put_named_volume(s, NULL, path, false, false, err);
    }
    return r < 0 ? err_wrap(err, r, "Volumes") : 0;
}

static int merge_layers(const struct image *image, struct spec *s, struct err *err)
{
    char *names[IMAGE_LAYERS_MAX + 1];
    size_t n = 0;

    for (size_t i = image->layer_count; i > 0; i--) {
        const char *name = image_layer_name(&image->layers[i - 1]);

        (void)memcpy(&names[n++], &name, sizeof(name)); /* spec_set_image_layers copies the names */
    }
    names[n] = NULL;
    return spec_set_image_layers(s, image->id, names, err);
}

int image_merge(const struct image *image, struct spec *s, struct err *err)
{
    const struct image_config *c = image->config;
    char name[REFERENCE_MAX + 1];
    int r;

    r = check_platform(c, err);
    if (r == 0)
        r = merge_command(c, s, err);
    if (r == 0)
        r = spec_env_beneath(s, c->env, err);
    if (r == 0)
        r = merge_cwd(c, s, err);
    if (r == 0 && s->user == NULL && c->user != NULL)
        r = spec_set_user(s, c->user, err);
    if (r == 0 && !s->has_stop_signal && c->stop_signal != NULL) {
        r = spec_set_stop_signal(s, c->stop_signal, err);
        s->has_stop_signal = false;
    }
    if (r == 0)
        r = merge_volumes(c, s, err);
    if (r == 0)
        r = merge_health(c, s, err);
    if (r == 0)
        r = merge_layers(image, s, err);
    if (r < 0) {
        reference_shorten(s->image != NULL ? s->image : image->id, name);
        return err_wrap(err, r, "image %.128s", name);
    }
    spec_labels_beneath(s, c->labels);
    return 0;
}
