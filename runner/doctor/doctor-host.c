/*
 * The checks of what weakens the host around sandboxes: kernel settings, processors, locks that the
 * kernel offers. None of them keeps a sandbox from starting. Called by doctor.c, in its process.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/file.h"
#include "doctor/doctor-internal.h"
#include "proto/landlock.h"

#define CPU_DIR "/sys/devices/system/cpu/"

enum { HOST_TEXT_MAX = 4096 };

/* Reads a small file of the kernel's, without the newline at its end. */
static int host_read(const char *path, char ret[HOST_TEXT_MAX])
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, HOST_TEXT_MAX - 1);

    if (n < 0)
        return -errno;
    while (n > 0 && ret[n - 1] == '\n')
        n--;
    ret[n] = '\0';
    return 0;
}

static void host_unreadable(int code, struct check_result *r)
{
    r->state = CHECK_UNKNOWN;
    (void)snprintf(r->found, sizeof(r->found), "cannot be read: %s", strerror(-code));
}

/* text: a file of /proc or /sys with a number; number: the least that protects. */
void ask_host_setting(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char text[HOST_TEXT_MAX];
    int code = host_read(c->text, text);

    (void)d;
    if (code == -ENOENT) {
        r->state = CHECK_OK;
        (void)snprintf(r->found, sizeof(r->found), "this kernel has no such setting");
    } else if (code < 0) {
        host_unreadable(code, r);
    } else {
        r->state = strtol(text, NULL, 10) >= c->number ? CHECK_OK : CHECK_LIMITED;
        (void)snprintf(r->found, sizeof(r->found), "set to %.32s", text);
    }
}

/* The same, for settings that protect with any value but one. */
void ask_host_setting_not(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char text[HOST_TEXT_MAX];
    int code = host_read(c->text, text);

    ask_host_setting(d, c, r);
    if (code == 0)
        r->state = strtol(text, NULL, 10) == c->number ? CHECK_LIMITED : CHECK_OK;
}

void ask_core_pattern(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char text[HOST_TEXT_MAX];
    int code = host_read(c->text, text);

    (void)d;
    if (code < 0) {
        host_unreadable(code, r);
        return;
    }
    r->state = text[0] == '|' ? CHECK_LIMITED : CHECK_OK;
    (void)snprintf(r->found, sizeof(r->found), "%s%.120s",
                   text[0] == '|' ? "piped to a program: " : "written to files: ", text);
}

void ask_tiocsti(const struct doctor *d, const struct check *c, struct check_result *r)
{
    ask_host_setting_not(d, c, r);
    if (access(c->text, F_OK) == 0 || errno != ENOENT)
        return;
    r->state = CHECK_LIMITED;
    (void)snprintf(r->found, sizeof(r->found), "this kernel always takes them");
    (void)snprintf(r->fix, sizeof(r->fix), "boot a kernel of 6.2 or newer");
}

void ask_protected_links(const struct doctor *d, const struct check *c, struct check_result *r)
{
    struct check_result hard = *r;
    struct check hardlinks = *c;

    hardlinks.text = "/proc/sys/fs/protected_hardlinks";
    ask_host_setting(d, c, r);
    ask_host_setting(d, &hardlinks, &hard);
    if (r->state == CHECK_OK && hard.state != CHECK_OK)
        *r = hard;
}

/* ---- processors ---- */

struct weak_list {
    char *text;
    size_t size;
    unsigned count;
};

static void weak_add(struct weak_list *w, const char *name)
{
    size_t len = strlen(w->text);

    w->count++;
    (void)snprintf(w->text + len, w->size - len, "%s%.32s", len > 0 ? ", " : "", name);
}

static int mitigations_read(const char *dir, struct weak_list *w)
{
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_ptr(dir_close) DIR *list = fd < 0 ? NULL : dir_open(fd, ".");
    const struct dirent *e;

    if (list == NULL)
        return -errno;
    while ((e = dir_next(list)) != NULL) {
        auto_free char *text = NULL;
        size_t len = 0;

        if (file_read_at(fd, e->d_name, HOST_TEXT_MAX, &text, &len, NULL) == 0 &&
            strncmp(text, "Vulnerable", strlen("Vulnerable")) == 0)
            weak_add(w, e->d_name);
    }
    return 0;
}

/* True if the kernel's command line has this word. */
static bool booted_with(const char *word)
{
    char text[HOST_TEXT_MAX], *rest = NULL;

    if (host_read("/proc/cmdline", text) < 0)
        return false;
    for (char *at = strtok_r(text, " \n", &rest); at != NULL; at = strtok_r(NULL, " \n", &rest))
        if (strcmp(at, word) == 0)
            return true;
    return false;
}

void ask_mitigations(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char names[DOCTOR_FOUND_MAX - 32] = "";
    struct weak_list weak = {.text = names, .size = sizeof(names)};
    int code = mitigations_read(c->text, &weak);

    (void)d;
    if (booted_with("mitigations=off")) {
        r->state = CHECK_LIMITED;
        (void)snprintf(r->found, sizeof(r->found),
                       "off: the kernel was booted with mitigations=off");
    } else if (code < 0) {
        host_unreadable(code, r);
    } else if (weak.count > 0) {
        r->state = CHECK_LIMITED;
        (void)snprintf(r->found, sizeof(r->found), "vulnerable: %s", names);
        (void)snprintf(r->fix, sizeof(r->fix),
                       "update the kernel and the processor's microcode; cat " CPU_DIR
                       "vulnerabilities/* has the reasons");
    } else {
        r->state = CHECK_OK;
        (void)snprintf(r->found, sizeof(r->found), "on, or not needed");
    }
}

void ask_smt(const struct doctor *d, const struct check *c, struct check_result *r)
{
    char text[HOST_TEXT_MAX];
    int code = host_read(c->text, text);

    (void)d;
    if (code < 0 && code != -ENOENT) {
        host_unreadable(code, r);
        return;
    }
    r->state = code == 0 && strcmp(text, "1") == 0 ? CHECK_LIMITED : CHECK_OK;
    (void)snprintf(r->found, sizeof(r->found), "%s",
                   r->state == CHECK_OK ? "a core runs one thread at a time"
                                        : "a core runs threads of different sandboxes at a time");
}

/* ---- locks of rind's own processes ---- */

void ask_landlock(const struct doctor *d, const struct check *c, struct check_result *r)
{
    int abi = landlock_abi();

    (void)d;
    (void)c;
    r->state = abi >= LOCK_ABI_REFER ? CHECK_OK : CHECK_LIMITED;
    if (abi > 0)
        (void)snprintf(r->found, sizeof(r->found), "version %d of its interface", abi);
    else
        (void)snprintf(r->found, sizeof(r->found), "%s",
                       abi == -EOPNOTSUPP ? "switched off at boot" : "the kernel does not have it");
}
