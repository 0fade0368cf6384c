#include "spec/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "spec/parse.h"
#include "spec/spec.h"

/*
 * Where a name stands in spec.env. Names come from clients, 65536 of them at most, so a plain
 * search would be quadratic. Open addressing; slots hold position + 1, 0 is free.
 */
struct env_index {
    uint32_t *slots;   /* owned */
    size_t slot_count; /* a power of two, at most half full */
    size_t count, bytes;
    size_t capacity; /* of spec.env, its NULL included */
    uint64_t seed;
};

enum { ENV_SLOTS_FIRST = 64 };

void env_index_free(struct env_index *index)
{
    if (index != NULL)
        free(index->slots);
    free(index);
}

/* FNV-1a, from a seed that a client cannot know: chosen names must not collide on purpose. */
static uint64_t hash_name(uint64_t h, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    return h ^ h >> 29;
}

static bool entry_is(const char *entry, const char *name, size_t len)
{
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* The slot of a name: the one that holds it, or the free one where it belongs. */
static uint32_t *find_slot(const struct env_index *x, char *const *env, const char *name,
                           size_t len)
{
    size_t at = (size_t)hash_name(x->seed, name, len) & (x->slot_count - 1);

    while (x->slots[at] != 0 && !entry_is(env[x->slots[at] - 1], name, len))
        at = (at + 1) & (x->slot_count - 1);
    return &x->slots[at];
}

static int grow_slots(struct env_index *x, char *const *env)
{
    size_t slot_count = x->slot_count > 0 ? x->slot_count * 2 : ENV_SLOTS_FIRST;
    uint32_t *slots = calloc(slot_count, sizeof(*slots));

    if (slots == NULL)
        return -ENOMEM;
    free(x->slots);
    x->slots = slots;
    x->slot_count = slot_count;
    for (size_t i = 0; i < x->count; i++)
        *find_slot(x, env, env[i], strcspn(env[i], "=")) = (uint32_t)i + 1;
    return 0;
}

/* Room for one more entry in the index and in the array. */
static int env_reserve(struct spec *s)
{
    struct env_index *x = s->env_index;

    if (x == NULL) {
        x = calloc(1, sizeof(*x));
        if (x == NULL)
            return -ENOMEM;
        x->seed = (uint64_t)(uintptr_t)x * UINT64_C(0x9e3779b97f4a7c15); /* ASLR is the secret */
        s->env_index = x;
    }
    if (x->count + 1 >= x->capacity) {
        size_t capacity = x->capacity > 0 ? x->capacity * 2 : ENV_SLOTS_FIRST;
        char **env = reallocarray(s->env, capacity, sizeof(*env));

        if (env == NULL)
            return -ENOMEM;
        if (x->count == 0)
            env[0] = NULL;
        s->env = env;
        x->capacity = capacity;
    }
    return x->count * 2 >= x->slot_count ? grow_slots(x, s->env) : 0;
}

int env_put(struct spec *s, const char *name, size_t name_len, const char *value, struct err *err)
{
    size_t value_len = strlen(value), size = name_len + 1 + value_len + 1, old = 0;
    auto_free char *entry = NULL;
    struct env_index *x;
    uint32_t *slot;
    int r;

    /* Values are secrets: a message names the variable alone. */
    if (size - 1 > SPEC_STRING_MAX)
        return err_set(err, -E2BIG, "environment variable \"%.*s\": longer than %d bytes",
                       (int)(name_len < QUOTE_MAX ? name_len : QUOTE_MAX), name, SPEC_STRING_MAX);
    r = env_reserve(s);
    entry = r == 0 ? malloc(size) : NULL;
    if (entry == NULL)
        return err_errno(err, -ENOMEM, "environment");
    x = s->env_index;
    slot = find_slot(x, s->env, name, name_len);
    if (*slot != 0)
        old = strlen(s->env[*slot - 1]) + 1;
    else if (x->count == SPEC_ARGS_MAX)
        return err_set(err, -E2BIG, "environment: more than %d variables", SPEC_ARGS_MAX);
    if (x->bytes - old + size > SPEC_STRINGS_MAX)
        return err_set(err, -E2BIG, "environment: more than %d bytes", SPEC_STRINGS_MAX);

    (void)memcpy(entry, name, name_len);
    entry[name_len] = '=';
    (void)memcpy(entry + name_len + 1, value, value_len + 1);
    x->bytes = x->bytes - old + size;
    if (*slot != 0) {
        free(s->env[*slot - 1]);
        s->env[*slot - 1] = take(entry);
        return 0;
    }
    s->env[x->count] = take(entry);
    s->env[++x->count] = NULL;
    *slot = (uint32_t)x->count;
    return 0;
}

/* Length of the name at the front of "K=V" or "K"; 0 when it is none. */
static size_t name_length(const char *text)
{
    size_t len = strcspn(text, "=");

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return 0;
    return len;
}

int spec_add_env(struct spec *s, const char *text, struct err *err)
{
    size_t len = name_length(text);
    const char *value;

    if (len == 0)
        return err_set(err, -EINVAL,
                       "environment variable \"%.*s\": must be NAME=VALUE or NAME, and NAME must "
                       "not be empty or hold white space",
                       (int)(strcspn(text, "=") < QUOTE_MAX ? strcspn(text, "=") : QUOTE_MAX),
                       text);
    if (text[len] == '=')
        return env_put(s, text, len, text + len + 1, err);

    value = getenv(text);
    if (value == NULL)
        return 0; /* as Docker: what we do not have is not passed on */
    return env_put(s, text, len, value, err);
}

/* One line without its newline. */
static int add_line(struct spec *s, char *line, struct err *err)
{
    size_t len = strlen(line);

    if (len > 0 && line[len - 1] == '\r')
        line[--len] = '\0';
    line += strspn(line, " \t");
    if (*line == '\0' || *line == '#')
        return 0;
    return spec_add_env(s, line, err);
}

static int add_lines(struct spec *s, char *text, const char *path, struct err *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    int r, number = 0;

    if (strncmp(text, bom, strlen(bom)) == 0)
        text += strlen(bom);
    while (text != NULL) {
        char *line = strsep(&text, "\n");

        number++;
        r = add_line(s, line, err);
        if (r < 0)
            return err_wrap(err, r, "%.*s: line %d", QUOTE_MAX, path, number);
    }
    return 0;
}

int spec_add_env_file(struct spec *s, const char *path, struct err *err)
{
    auto_close int fd = FD_NONE;
    auto_free char *text = NULL;
    size_t len;
    int r;

    /* The client's own file, opened with its rights: links and pipes are fine. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_errno(err, -errno, "env file \"%.*s\"", QUOTE_MAX, path);
    r = file_read_fd(fd, SPEC_STRINGS_MAX, &text, &len, err);
    if (r < 0)
        return err_wrap(err, r, "env file \"%.*s\"", QUOTE_MAX, path);
    if (memchr(text, '\0', len) != NULL)
        return err_set(err, -EINVAL, "env file \"%.*s\": holds a NUL byte", QUOTE_MAX, path);
    r = add_lines(s, text, path, err);
    return r < 0 ? err_wrap(err, r, "env file") : 0;
}
