/* The log segments of a process in the supervisor's tree: <name>.out.0, .out.1, .err.0, .err.1
 * (proto/init-msg.h says what is in them). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "core/sandbox_internal.h"
#include "core/store.h"
#include "core/supervisor_internal.h"

static void segment_name(char *text, size_t size, const char *name, int i)
{
    (void)snprintf(text, size, "%s.%s.%d", name, i < 2 ? "out" : "err", i % 2);
}

int logs_open(struct sandbox *s, const char *name, bool fresh, int fds[4], struct err *err)
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, err);
    char file[96];

    if (dir < 0)
        return dir;
    for (int i = 0; i < 4; i++) {
        segment_name(file, sizeof(file), name, i);
        fds[i] = openat(dir, file,
                        O_RDWR | O_CREAT | (fresh ? O_TRUNC : 0) | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fds[i] >= 0)
            continue;
        int r = err_errno(err, -errno, "log %s", file);

        while (i-- > 0)
            (void)close(fds[i]);
        return r;
    }
    return 0;
}

void logs_remove(struct sandbox *s, const char *name)
{
    auto_close int dir = store_logs_fd(s->sup->store, s->id, NULL);
    char file[96];

    for (int i = 0; dir >= 0 && i < 4; i++) {
        segment_name(file, sizeof(file), name, i);
        (void)unlinkat(dir, file, 0);
    }
}
