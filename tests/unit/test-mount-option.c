/* --mount as docker writes it: what each text becomes, and what each refusal says. */
#include <errno.h>

#include "base/err.h"
#include "cli/mount-option.h"
#include "spec/spec.h"
#include "tap.h"

enum kind { VOLUME, ANONYMOUS, BIND, TMPFS };

/* clang-format off */
static const struct {
    const char *text;
    enum kind kind;
    const char *source, *target;
    bool read_only, no_copy;
    long long bytes;
} good[] = {
    {"type=bind,source=/a,target=/b",             BIND,      "/a",   "/b", false, false, 0},
    {"target=/b,src=/a,type=bind,readonly",       BIND,      "/a",   "/b", true,  false, 0},
    {"type=bind,src=/a,dst=/b,ro=1",              BIND,      "/a",   "/b", true,  false, 0},
    {"type=bind,src=/a,dst=/b,readonly=false",    BIND,      "/a",   "/b", false, false, 0},
    {"type=bind,\"src=/a,b\",dst=/b",             BIND,      "/a,b", "/b", false, false, 0},
    {"type=bind,\"src=/a\"\"b\",dst=/b",          BIND,      "/a\"b", "/b", false, false, 0},
    {"type=bind,src=/a:b,dst=/b:c",               BIND,      "/a:b", "/b:c", false, false, 0},
    {"type=bind,src=/a,dst=/b,consistency=cached", BIND,     "/a",   "/b", false, false, 0},
    {"type=bind,src=/a,dst=/b,bind-propagation=rprivate", BIND, "/a", "/b", false, false, 0},
    {"source=cache,target=/b",                    VOLUME,    "cache", "/b", false, false, 0},
    {"type=volume,src=cache,dst=/b,volume-nocopy,ro", VOLUME, "cache", "/b", true, true, 0},
    {"destination=/b,volume-driver=local",        ANONYMOUS, NULL,   "/b", false, false, 0},
    {"type=tmpfs,dst=/b",                         TMPFS,     NULL,   "/b", false, false, 64 << 20},
    {"type=tmpfs,dst=/b,tmpfs-size=1m",           TMPFS,     NULL,   "/b", false, false, 1 << 20},
    {"type=tmpfs,dst=/b,tmpfs-size=65536",        TMPFS,     NULL,   "/b", false, false, 65536},
};

static const struct {
    const char *text, *message;
} bad[] = {
    {"",                                    "\"\" is no key; "},
    {"x",                                   "\"x\" is no key; there is type, source, target"},
    {"type=bind",                           "target: is missing; write target=DST"},
    {"type=bind,dst=/b",                    "source: is missing; "},
    {"type=bind,dst=",                      "dst: needs a value"},
    {"type",                                "type: needs a value"},
    {"type=image,dst=/b",                   "type: \"image\": must be bind, volume or tmpfs"},
    {"type=bind,src=/a,dst=/b,ro=maybe",    "ro: \"maybe\": must be true or false"},
    {"type=bind,src=/a,dst=/b,",            "\"\" is no key; "},
    {"type=bind,\"src=/a,dst=/b",           "\"type=bind,\"src=/a,dst=/b\": a quote without its end"},
    {"\"type=bind\"x,dst=/b",               "\"\"type=bind\"x,dst=/b\": a quote without its end"},
    {"type=bind,src=/a,dst=/b,bind-propagation=shared", "bind-propagation: \"shared\": mounts are never"},
    {"type=bind,src=/a,dst=/b,volume-nocopy", "volume-nocopy: not with type=bind"},
    {"dst=/b,tmpfs-size=1m",                "tmpfs-size: not with type=volume"},
    {"dst=/b,volume-driver=nfs",            "volume-driver: \"nfs\": there are no volume drivers"},
    {"dst=/b,volume-subpath=a",             "volume-subpath: a volume is shown whole"},
    {"type=tmpfs,dst=/b,src=/a",            "source: not with type=tmpfs"},
    {"type=tmpfs,dst=/b,ro",                "readonly: not with type=tmpfs"},
    {"type=tmpfs,dst=/b:c",                 "target: \"/b:c\": a tmpfs has no colon"},
    {"type=tmpfs,dst=/b,tmpfs-size=1",      "tmpfs-size: size \"1\": must be between"},
    {"type=tmpfs,dst=/b,tmpfs-mode=rwx",    "tmpfs-mode: \"rwx\": must be an octal number"},
};
/* clang-format on */

TEST(each_mount_is_what_docker_means)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct spec *s = spec_new();
        struct err err = ERR_NONE;
        const struct volume *v;

        CHECK_INT(spec_add_mount(s, good[i].text, &err), 0);
        CHECK_INT((long long)s->tmpfs_count, good[i].kind == TMPFS);
        CHECK_INT((long long)s->volume_count, good[i].kind != TMPFS);
        if (good[i].kind == TMPFS && s->tmpfs_count == 1) {
            CHECK_STR(s->tmpfs[0].target, good[i].target);
            CHECK_INT(s->tmpfs[0].bytes, good[i].bytes);
        }
        v = s->volume_count == 1 ? &s->volumes[0] : NULL;
        if (v != NULL) {
            CHECK_STR(v->target, good[i].target);
            CHECK_INT(v->named, good[i].kind != BIND);
            CHECK_INT(v->read_only, good[i].read_only);
            CHECK_INT(v->no_copy, good[i].no_copy);
            CHECK((v->source == NULL) == (good[i].source == NULL));
            if (v->source != NULL && good[i].source != NULL)
                CHECK_STR(v->source, good[i].source);
        }
        if (tap_failed)
            printf("# %s: %s\n", good[i].text, err.msg);
        spec_free(s);
    }
}

TEST(what_cannot_be_given_is_refused_by_its_key)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct spec *s = spec_new();
        struct err err = ERR_NONE;

        CHECK(spec_add_mount(s, bad[i].text, &err) < 0);
        if (strncmp(err.msg, bad[i].message, strlen(bad[i].message)) != 0)
            tap_fail("%s: %s", bad[i].text, err.msg);
        CHECK_INT((long long)(s->volume_count + s->tmpfs_count), 0);
        spec_free(s);
    }
}

TAP_MAIN
