/* Compares platforms such as "linux/amd64", "linux/arm64/v8", "arm64" with an image's. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/docker/images.h"
#include "base/auto.h"
#include "images/images.h"
#include "json/parse.h"

enum { PART_MAX = 32, JSON_MAX = 1024 };

/* Returns the spelling of image configurations. */
static const char *arch_usual_name(const char *architecture)
{
    static const struct {
        const char *other, *usual;
    } rows[] = {{"x86_64", "amd64"}, {"x86-64", "amd64"}, {"aarch64", "arm64"}, {"i386", "386"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcasecmp(architecture, rows[i].other) == 0)
            return rows[i].usual;
    return architecture;
}

/* Consumes the text before the next '/'. False: nothing is left, or it is too long. */
static bool platform_take_part(const char **at, char ret[PART_MAX])
{
    size_t n = strcspn(*at, "/");

    if (n == 0 || n >= PART_MAX)
        return false;
    (void)snprintf(ret, PART_MAX, "%.*s", (int)n, *at);
    *at += n + ((*at)[n] == '/');
    return true;
}

/* True if the platform names this architecture of Linux, as image configurations spell it. variant:
 * NULL = none. */
static bool is_platform(const char *platform, const char *architecture, const char *variant)
{
    char first[PART_MAX], second[PART_MAX], third[PART_MAX];
    const char *arch = second;

    if (platform == NULL || platform[0] == '\0')
        return true;
    if (!platform_take_part(&platform, first))
        return false;
    if (!platform_take_part(&platform, second)) /* one word: an OS or an architecture */
        return *platform == '\0' && (strcasecmp(first, "linux") == 0 ||
                                     strcasecmp(arch_usual_name(first), architecture) == 0);
    if (strcasecmp(first, "linux") != 0 || strcasecmp(arch_usual_name(arch), architecture) != 0)
        return false;
    if (!platform_take_part(&platform, third))
        return *platform == '\0';
    if (variant == NULL) /* arm64 without variant is v8 */
        return strcmp(architecture, "arm64") == 0 && strcmp(third, "v8") == 0;
    return strcasecmp(third, variant) == 0;
}

/* Converts {"os":"linux","architecture":"arm64","variant":"v8"}, as newer clients send it, to
 * the form above. Other text is returned unchanged, and matches no image. */
static const char *platform_from_json(const char *text, char *ret, size_t size)
{
    auto_ptr(json_decref) json_t *root = NULL;
    const char *os = NULL, *arch = NULL, *variant = NULL;

    if (json_parse(text, strlen(text), JSON_MAX, &root, NULL) < 0 ||
        json_unpack(root, "{s?s, s?s, s?s}", "os", &os, "architecture", &arch, "variant",
                    &variant) < 0)
        return text;
    (void)snprintf(ret, size, "%s/%s%s%s", os != NULL ? os : "linux", arch != NULL ? arch : "",
                   variant != NULL ? "/" : "", variant != NULL ? variant : "");
    return ret;
}

bool docker_is_image_platform(const char *platform, const struct image *image)
{
    const struct image_config *c = image->config;
    char text[3 * PART_MAX];

    if (platform != NULL && platform[0] == '{')
        platform = platform_from_json(platform, text, sizeof(text));
    return c->architecture == NULL || is_platform(platform, c->architecture, c->variant);
}
