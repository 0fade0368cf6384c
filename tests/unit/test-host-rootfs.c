/* The list of what the root file system `host` shows: what is refused in the file, and what the
 * shipped one must never show. */

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "policy/host-rootfs.h"
#include "tap.h"

#define REST "\"hidden\":[],\"files\":[]"

/* clang-format off */
static const struct {
    const char *text;
    int code;
    const char *msg;
} refused[] = {
    {"[]", -EINVAL, "h.json: must be a JSON object"},
    {"{" REST "}", -EINVAL, "h.json: trees: missing"},
    {"{\"trees\":[],\"hidden\":[]}", -EINVAL, "h.json: files: missing"},
    {"{\"trees\":[],\"more\":1," REST "}", -EINVAL, "h.json: more: unknown key"},
    {"{\"trees\":\"/usr\"," REST "}", -EINVAL, "h.json: trees: must be an array of strings, not a string"},
    {"{\"trees\":[\"/\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/\": must be an absolute path below /"},
    {"{\"trees\":[\"usr\"]," REST "}", -EINVAL, "h.json: trees[0]: \"usr\": must be an absolute path below /"},
    {"{\"trees\":[\"/usr/\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/usr/\": must be without //, ., .. and / at the end"},
    {"{\"trees\":[\"/usr//x\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/usr//x\": must be without //, ., .. and / at the end"},
    {"{\"trees\":[\"/usr/../x\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/usr/../x\": must be without //, ., .. and / at the end"},
    {"{\"trees\":[\"/./usr\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/./usr\": must be without //, ., .. and / at the end"},
    {"{\"trees\":[\"/usr\",\"/proc\"]," REST "}", -EINVAL, "h.json: trees[1]: \"/proc\": is made by rind"},
    {"{\"trees\":[\"/sys/kernel\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/sys/kernel\": is made by rind"},
    {"{\"trees\":[\"/dev/shm\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/dev/shm\": is made by rind"},
    {"{\"trees\":[\"/usr*/x\"]," REST "}", -EINVAL, "h.json: trees[0]: \"/usr*/x\": a * may stand in the last name of a tree only"},
    {"{\"trees\":[],\"hidden\":[],\"files\":[\"/etc/x*\"]}", -EINVAL, "h.json: files[0]: \"/etc/x*\": a * may stand in the last name of a tree only"},
    {"{\"trees\":[\"/usr\"],\"hidden\":[\"/etc\"],\"files\":[]}", -EINVAL, "h.json: hidden[0]: \"/etc\": is below none of the trees"},
    {"{\"trees\":[\"/usr\"],\"hidden\":[\"/usr\"],\"files\":[]}", -EINVAL, "h.json: hidden[0]: \"/usr\": is below none of the trees"},
    {"{\"trees\":[\"/usr\"],\"hidden\":[\"/usrx/y\"],\"files\":[]}", -EINVAL, "h.json: hidden[0]: \"/usrx/y\": is below none of the trees"},
};
/* clang-format on */

TEST(refused_files)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct host_rootfs *h = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(host_rootfs_parse(refused[i].text, strlen(refused[i].text), "h.json", &h, &err),
                  refused[i].code);
        CHECK_STR(err.msg, refused[i].msg);
        CHECK(h == NULL);
    }
}

TEST(a_long_path_and_a_long_list)
{
    static char text[1 << 16];
    struct host_rootfs *h = NULL;
    struct err err = ERR_NONE;
    size_t at;

    (void)snprintf(text, sizeof(text), "{\"trees\":[\"/%01200d\"]," REST "}", 0);
    CHECK_INT(host_rootfs_parse(text, strlen(text), "h.json", &h, &err), -EINVAL);
    at = (size_t)snprintf(text, sizeof(text), "{\"trees\":[\"/a\"");
    for (int i = 0; i < HOST_ROOTFS_LIST_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, ",\"/a%d\"", i);
    (void)snprintf(text + at, sizeof(text) - at, "]," REST "}");
    CHECK(host_rootfs_parse(text, strlen(text), "h.json", &h, &err) < 0);
    CHECK(strstr(err.msg, "trees") != NULL);
}

static bool is_or_is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Nothing of these, neither as a tree nor as a file, and no tree that has one of them in it. */
TEST(the_shipped_one)
{
    static const char *const never[] = {"/home",
                                        "/root",
                                        "/var",
                                        "/run",
                                        "/srv",
                                        "/boot",
                                        "/tmp",
                                        "/mnt",
                                        "/media",
                                        "/etc/shadow",
                                        "/etc/passwd",
                                        "/etc/group",
                                        "/etc/gshadow",
                                        "/etc/sudoers",
                                        "/etc/ssh",
                                        "/etc/hosts",
                                        "/etc/hostname",
                                        "/etc/resolv.conf",
                                        "/etc/machine-id",
                                        "/etc/krb5.keytab",
                                        "/etc/environment",
                                        "/etc/fstab"};
    struct host_rootfs *h = NULL;
    struct err err = ERR_NONE;
    bool local = false;
    size_t len;
    const char *text = host_rootfs_builtin(&len);

    CHECK_INT(host_rootfs_parse(text, len, "host-rootfs.json", &h, &err), 0);
    CHECK_STR(err.msg, "");
    for (size_t i = 0; h != NULL && i < sizeof(never) / sizeof(never[0]); i++) {
        for (char **p = h->trees; *p != NULL; p++)
            if (is_or_is_below(*p, never[i]) || is_or_is_below(never[i], *p))
                tap_fail("tree %s shows %s", *p, never[i]);
        for (char **p = h->files; *p != NULL; p++)
            if (is_or_is_below(*p, never[i]))
                tap_fail("file %s", *p);
    }
    for (char **p = h != NULL ? h->hidden : NULL; p != NULL && *p != NULL; p++)
        local |= strcmp(*p, "/usr/local/etc") == 0;
    CHECK(local);
    host_rootfs_free(h);
}

TAP_MAIN
