/* The hosts files of a named network's members, when there are more of them than a file holds. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "launch/network.h"
#include "launch/sandbox.h"
#include "tap.h"

enum { GROUP = 7, NAME_BYTES = 63, WATCHED = 3, TEXT_MAX = ETC_TEXT_MAX + 1 };

static const char warning[] = "find no room in the 64 KiB of /etc/hosts";

/* The i'th of the network; the first few have a hosts file. */
static struct launch_sandbox *member(struct launcher *l, unsigned i)
{
    char id[LAUNCH_ID_MAX + 1];
    struct launch_sandbox *s;

    (void)snprintf(id, sizeof(id), "%016u", i);
    s = sandbox_new(id);
    if (s == NULL || (s->net = calloc(1, sizeof(*s->net))) == NULL)
        exit(1);
    (void)snprintf(s->net_owner, sizeof(s->net_owner), "%s", id);
    (void)snprintf(s->hostname, sizeof(s->hostname), "%0*u", NAME_BYTES, i);
    s->net->group = GROUP;
    s->net->slot = i;
    s->net->sandbox4.family = 4;
    if (i < WATCHED)
        s->hosts_fd = memfd_create("hosts", MFD_CLOEXEC);
    launcher_add(l, s);
    return s;
}

static void text_of(const struct launch_sandbox *s, char ret[TEXT_MAX])
{
    ssize_t n = pread(s->hosts_fd, ret, TEXT_MAX - 1, 0);

    ret[n > 0 ? n : 0] = '\0';
}

/* Tells the members, and returns how often the log said that some have no room. */
static unsigned told(struct launcher *l)
{
    auto_close int log = memfd_create("log", MFD_CLOEXEC);
    const int stderr_fd = dup(STDERR_FILENO);
    static char text[1 << 16];
    unsigned count = 0;
    ssize_t n;

    (void)dup2(log, STDERR_FILENO);
    network_tell_all(l, &(struct net_setup){.group = GROUP});
    (void)dup2(stderr_fd, STDERR_FILENO);
    (void)close(stderr_fd);
    n = pread(log, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    for (const char *p = text; (p = strstr(p, warning)) != NULL; p++)
        count++;
    return count;
}

static void drop_newest(struct launcher *l)
{
    struct launch_sandbox *s = l->sandboxes;

    launcher_drop(l, s);
    sandbox_free(s);
}

TEST(more_members_than_a_file_holds)
{
    static char text[TEXT_MAX], name[NAME_BYTES + 1];
    struct launcher *l = calloc(1, sizeof(*l));
    struct launch_sandbox *first = l != NULL ? member(l, 0) : NULL;
    unsigned count = 1;

    CHECK_INT(told(l), 0);
    for (; count < 800; count++)
        (void)member(l, count);
    CHECK_INT(told(l), 0); /* all of them fit */
    text_of(first, text);
    (void)snprintf(name, sizeof(name), "%0*u", NAME_BYTES, 1);
    CHECK(strstr(text, name) != NULL);

    for (; count < 1000; count++)
        (void)member(l, count);
    CHECK_INT(told(l), 1); /* of all files together */
    CHECK_INT(told(l), 0); /* and once */
    text_of(first, text);
    CHECK(strlen(text) > ETC_TEXT_MAX - 2 * NAME_BYTES && strlen(text) <= ETC_TEXT_MAX);
    CHECK(text[strlen(text) - 1] == '\n');
    CHECK(strstr(text, name) == NULL); /* the oldest of the others */
    (void)snprintf(name, sizeof(name), "%0*u", NAME_BYTES, count - 1);
    CHECK(strstr(text, name) != NULL);

    for (; count > 800; count--)
        drop_newest(l);
    CHECK_INT(told(l), 0); /* they fit again */
    for (; count < 1000; count++)
        (void)member(l, count);
    CHECK_INT(told(l), 1);
    while (l->sandboxes != NULL)
        drop_newest(l);
    free(l);
}

/* A member of two networks shows its names to each only as far as they share it. */
TEST(names_of_the_networks_of_both)
{
    static char text[TEXT_MAX];
    struct launcher *l = calloc(1, sizeof(*l));
    struct launch_sandbox *in_both = member(l, 0), *in_one = member(l, 1), *in_other = member(l, 2);

    in_one->net->group = GROUP + 1;
    in_both->net->more_count = 1;
    in_both->net->more[0] = GROUP + 1;
    in_both->more_aliases = calloc(NET_MORE_MAX, sizeof(*in_both->more_aliases));
    (void)snprintf(in_both->aliases, sizeof(in_both->aliases), "own first");
    (void)snprintf(in_both->more_aliases[0], sizeof(in_both->more_aliases[0]), "own second");
    network_tell_all(l, in_both->net);

    text_of(in_one, text);
    CHECK(strstr(text, "\town second 0") != NULL); /* its name goes first: for reverse look-ups */
    CHECK(strstr(text, "first") == NULL);
    text_of(in_other, text);
    CHECK(strstr(text, "\town first 0") != NULL && strstr(text, "second") == NULL);
    CHECK(strstr(text, in_one->hostname) == NULL); /* they share none */
    text_of(in_both, text);
    CHECK(strstr(text, in_one->hostname) != NULL && strstr(text, in_other->hostname) != NULL);
    CHECK(strstr(text, " own first own second\n") != NULL); /* behind its host name */
    while (l->sandboxes != NULL)
        drop_newest(l);
    free(l);
}

TAP_MAIN
