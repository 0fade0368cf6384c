/* Lines of Ryuk's protocol: what is read, what matches, and which one shows that a client knows the
 * session. */

#include <errno.h>

#include "api/docker/reaper-filter.h"
#include "api/docker/reaper.h"
#include "base/err.h"
#include "tap.h"

TEST(lines)
{
    static const struct {
        const char *line, *first, *second;
        int code;
    } rows[] = {
        {"label=a=b", "a=b", NULL, 0},
        {"label=a=b&label=c", "a=b", "c", 0},
        {"&label=a%3Db%20c+d%2b&", "a=b c d+", NULL, 0},
        {"label=a%3D%c3%A9", "a=\xc3\xa9", NULL, 0},
        {"", NULL, NULL, -EINVAL},
        {"&&", NULL, NULL, -EINVAL},
        {"label=", NULL, NULL, -EINVAL},
        {"label", NULL, NULL, -EINVAL},
        {"label=a&name=b", NULL, NULL, -EINVAL},
        {"labels=a", NULL, NULL, -EINVAL},
        {"label=%", NULL, NULL, -EINVAL},
        {"label=a%4", NULL, NULL, -EINVAL},
        {"label=a%4g", NULL, NULL, -EINVAL},
        {"label=a%00b", NULL, NULL, -EINVAL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reaper_filter *f = NULL;
        struct err err = ERR_NONE;
        int r = reaper_filter_parse(rows[i].line, strlen(rows[i].line), &f, &err);

        if (r != rows[i].code || (r < 0) != (f == NULL) || (r < 0) != (err.msg[0] != '\0'))
            tap_fail("\"%s\": %d %s", rows[i].line, r, err.msg);
        if (f != NULL) {
            CHECK_STR(f->labels[0], rows[i].first);
            CHECK((f->labels[1] == NULL) == (rows[i].second == NULL));
            if (rows[i].second != NULL)
                CHECK_STR(f->labels[1], rows[i].second);
        }
        reaper_filter_free(f);
    }
}

TEST(too_many_labels)
{
    char line[8 * (REAPER_LABELS_MAX + 1) + 1] = "";
    struct reaper_filter *f = NULL;

    for (int i = 0; i < REAPER_LABELS_MAX; i++)
        (void)strcat(line, "label=x&");
    CHECK_INT(reaper_filter_parse(line, strlen(line), &f, NULL), 0);
    reaper_filter_free(f);
    f = NULL;
    (void)strcat(line, "label=x");
    CHECK_INT(reaper_filter_parse(line, strlen(line), &f, NULL), -EINVAL);
    CHECK(f == NULL);
}

static struct reaper_filter *filter(const char *line)
{
    struct reaper_filter *f = NULL;

    CHECK_INT(reaper_filter_parse(line, strlen(line), &f, NULL), 0);
    return f;
}

TEST(matches)
{
    static char a[] = "a=1", b[] = "b=", c[] = "c";
    char *labels[] = {a, b, c, NULL};
    static const struct {
        const char *line;
        bool want;
    } rows[] = {{"label=a=1", true},
                {"label=a", true},
                {"label=a=", false},
                {"label=a=1&label=b", true},
                {"label=a=1&label=d", false},
                {"label=b=", true},
                {"label=c", true},
                {"label=a=11", false},
                {"label=", false}};

    for (size_t i = 0; i + 1 < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reaper_filter *f = filter(rows[i].line);

        if (reaper_filter_match(f, labels) != rows[i].want)
            tap_fail("%s", rows[i].line);
        CHECK(!reaper_filter_match(f, NULL));
        CHECK(reaper_filter_equal(f, f));
        reaper_filter_free(f);
    }
}

TEST(the_session)
{
    static char id[] = "org.testcontainers.sessionId=0123456789",
                version[] = "org.x.version=1.20.4-rc1", own[] = "rind.docker=sessions=x",
                lang[] = "session=short";
    char *labels[] = {version, id, own, lang, NULL};
    static const struct {
        const char *line, *name;
        bool want;
    } rows[] = {
        {"label=org.testcontainers=true&label=any=0123456789", "x", true},
        {"label=any=abcdefgh", "testcontainers-ryuk-abcdefgh", true},
        {"label=any=bcdefgh", "testcontainers-ryuk-abcdefgh", false}, /* too short */
        {"label=any=abcdefgh", "abcdefgh", false},                    /* the whole name */
        {"label=any=1.20.4-rc1", "x", false},                         /* no session's label */
        {"label=any=sessions=x", "x", false},                         /* rind's own label */
        {"label=any=short", "x", false},
        {"label=0123456789", "x", false},
        {"label=any=", "x", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct reaper_filter *f = filter(rows[i].line);

        if (reaper_filter_knows_session(f, rows[i].name, labels) != rows[i].want)
            tap_fail("%s", rows[i].line);
        reaper_filter_free(f);
    }
}

TEST(its_image)
{
    CHECK(docker_reaper_image(NULL, "testcontainers/ryuk:0.14.0"));
    CHECK(docker_reaper_image(NULL, "testcontainers/ryuk"));
    CHECK(docker_reaper_image(NULL, "mirror.example/hub/testcontainers/ryuk:0.9.0"));
    CHECK(!docker_reaper_image(NULL, "nottestcontainers/ryuk"));
    CHECK(!docker_reaper_image(NULL, "testcontainers/ryuk2"));
    CHECK(!docker_reaper_image(NULL, NULL));
    CHECK(docker_reaper_image("docker.io/team/reaper", "team/reaper:1"));
    CHECK(!docker_reaper_image("docker.io/team/reaper", "testcontainers/ryuk:1"));
}

TEST(its_body)
{
    json_t *body = json_pack("{s:s, s:{s:[s], s:b, s:b, s:[]}}", "image", "testcontainers/ryuk:1",
                             "hostConfig", "binds", "/var/run/docker.sock:/var/run/docker.sock",
                             "PRIVILEGED", 1, "AutoRemove", 1, "SecurityOpt");
    json_t *other = json_pack("{s:s, s:{s:b}}", "Image", "box:1", "HostConfig", "Privileged", 1);

    CHECK(docker_reaper_prepare(NULL, body));
    CHECK_INT(json_object_size(json_object_get(body, "hostConfig")), 1);
    CHECK(!docker_reaper_prepare(NULL, other));
    CHECK_INT(json_object_size(json_object_get(other, "HostConfig")), 1);
    json_decref(body);
    json_decref(other);
    body = json_integer(1);
    CHECK(!docker_reaper_prepare(NULL, body));
    json_decref(body);
}

TAP_MAIN
