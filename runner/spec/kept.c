/* Options of sandboxes that the daemon keeps: labels, restarting, stopping. Pure. */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "spec/parse.h"
#include "spec/signals.h"
#include "spec/spec.h"

/* ---- labels ---- */

static bool is_key(const char *text, size_t len)
{
    if (len == 0 || len > SPEC_LABEL_KEY_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return true;
}

/* Appends an entry, which it takes on success. */
static int append_label(struct spec *s, size_t count, char *entry)
{
    char **more = reallocarray(s->labels, count + 2, sizeof(*more));

    if (more == NULL)
        return -ENOMEM;
    s->labels = more;
    more[count] = entry;
    more[count + 1] = NULL;
    return 0;
}

int spec_add_label(struct spec *s, const char *text, struct err *err)
{
    size_t key = strcspn(text, "="), size = strlen(text) + 1, bytes = size, count, at = SIZE_MAX;
    auto_free char *entry = NULL;

    if (!is_key(text, key))
        return err_set(err, -EINVAL,
                       "label \"%.*s\": must be KEY=VALUE or KEY, and KEY have 1 to %d bytes "
                       "without white space",
                       QUOTE_MAX, text, SPEC_LABEL_KEY_MAX);
    for (count = 0; s->labels[count] != NULL; count++) {
        if (strncmp(s->labels[count], text, key) == 0 && s->labels[count][key] == '=')
            at = count;
        else
            bytes += strlen(s->labels[count]) + 1;
    }
    if (at == SIZE_MAX && count == SPEC_LABELS_MAX)
        return err_set(err, -E2BIG, "label \"%.*s\": more than %d labels", QUOTE_MAX, text,
                       SPEC_LABELS_MAX);
    if (bytes > SPEC_LABELS_BYTES_MAX)
        return err_set(err, -E2BIG, "label \"%.*s\": more than %d bytes of labels", (int)key, text,
                       SPEC_LABELS_BYTES_MAX);

    entry = malloc(size + 1);
    if (entry == NULL)
        return err_errno(err, -ENOMEM, "label");
    (void)memcpy(entry, text, size);
    if (text[key] == '\0') {
        entry[key] = '=';
        entry[key + 1] = '\0';
    }
    if (at == SIZE_MAX) {
        if (append_label(s, count, entry) < 0)
            return err_errno(err, -ENOMEM, "label");
        (void)take(entry);
        return 0;
    }
    free(s->labels[at]);
    s->labels[at] = take(entry);
    return 0;
}

/* ---- restarting ---- */

static const struct strtab restart_names[] = {
    {"no", RESTART_NO},
    {"on-failure", RESTART_ON_FAILURE},
    {"always", RESTART_ALWAYS},
    {"unless-stopped", RESTART_UNLESS_STOPPED},
    {0},
};
_Static_assert(sizeof(restart_names) / sizeof(restart_names[0]) == RESTART_MAX + 1,
               "each restart policy has a name");

const char *spec_restart_name(enum restart_policy policy)
{
    return strtab_name(restart_names, (int)policy);
}

int spec_set_restart(struct spec *s, const char *text, struct err *err)
{
    static const char counted[] = "on-failure:";
    int64_t max = LIMIT_UNSET;
    int policy, r;

    policy = strtab_value(restart_names, text);
    if (policy < 0 && strncmp(text, counted, strlen(counted)) == 0) {
        r = parse_number("restart", text + strlen(counted), 1, SPEC_RESTARTS_MAX, &max, err);
        if (r < 0)
            return r;
        policy = RESTART_ON_FAILURE;
    }
    if (policy < 0)
        return err_set(err, -EINVAL,
                       "restart \"%.*s\": must be no, on-failure, on-failure:N, always or "
                       "unless-stopped",
                       QUOTE_MAX, text);
    s->restart = (enum restart_policy)policy;
    s->restart_max = max;
    return 0;
}

int spec_check_removal(const struct spec *s, struct err *err)
{
    if (!s->auto_remove || s->restart == RESTART_NO)
        return 0;
    return err_set(err, -EINVAL,
                   "autoRemove: not with restart \"%s\", which starts again what would be removed; "
                   "leave one of them out",
                   spec_restart_name(s->restart));
}

/* ---- stopping ---- */

int spec_set_stop_signal(struct spec *s, const char *text, struct err *err)
{
    int r = signal_parse("stop signal", text, &s->stop_signal, err);

    if (r == 0)
        s->has_stop_signal = true;
    return r;
}

int spec_set_stop_timeout(struct spec *s, const char *text, struct err *err)
{
    if (strcmp(text, "0") == 0) {
        s->stop_timeout_ms = 0; /* SIGKILL at once */
        return 0;
    }
    return parse_duration("stop timeout", text, &s->stop_timeout_ms, err);
}

int spec_set_inactivity(struct spec *s, const char *text, struct err *err)
{
    return parse_duration("inactivity timeout", text, &s->inactivity_ms, err);
}
