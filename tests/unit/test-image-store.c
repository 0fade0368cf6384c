/* The store of images: blobs whole or not at all, names, removal, what nothing names, and two that
 * work on it at the same time. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "image/manifest.h"
#include "image/store.h"
#include "tap.h"

struct lab {
    char dir[64];
    int fd;
    struct image_store *store;
};

static struct lab lab_open(void)
{
    struct lab lab = {.dir = "/tmp/rind-store-XXXXXX"};
    struct err err = ERR_NONE;

    if (mkdtemp(lab.dir) == NULL)
        abort();
    lab.fd = open(lab.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (image_store_open(lab.fd, &lab.store, &err) < 0)
        tap_fail("open: %s", err.msg);
    return lab;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void lab_close(struct lab *lab)
{
    image_store_close(lab->store);
    (void)close(lab->fd);
    (void)nftw(lab->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* An image with one layer of these bytes, in the store with these names. Returns its id. */
static int put_for(struct image_store *s, const struct image_view *view, const char *layer,
                   const char *arch, char *const *names, char ret_id[DIGEST_LEN + 1],
                   struct err *err)
{
    char blob[DIGEST_LEN + 1], config[512], manifest[1024];
    struct image *i = calloc(1, sizeof(*i));
    struct manifest *m = NULL;
    auto_close int use = image_store_use(s, err);
    int r = blob_put(s, layer, strlen(layer), blob, err);

    (void)snprintf(config, sizeof(config),
                   "{\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[\"%s\"]}}", arch, blob);
    if (r == 0)
        r = blob_put(s, config, strlen(config), ret_id, err);
    (void)snprintf(manifest, sizeof(manifest),
                   "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"application/"
                   "vnd.oci.image.config.v1+json\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{"
                   "\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"%s\","
                   "\"size\":%zu}]}",
                   ret_id, strlen(config), blob, strlen(layer));
    if (r == 0)
        r = blob_put(s, manifest, strlen(manifest), i->manifest, err);
    if (r == 0)
        r = image_config_parse(config, strlen(config), &i->config, err);
    if (r == 0)
        r = manifest_parse(manifest, strlen(manifest), &m, err);
    (void)strcpy(i->media_type, "application/vnd.oci.image.manifest.v1+json");
    i->manifest_bytes = (int64_t)strlen(manifest);
    if (r == 0)
        r = image_assemble(i, m, err);
    if (r == 0)
        r = image_store_add(s, view, i, names, 100, NULL, err);
    manifest_free(m);
    image_free(i);
    return r;
}

static int put(struct image_store *s, const char *layer, const char *arch, char *const *names,
               char ret_id[DIGEST_LEN + 1], struct err *err)
{
    return put_for(s, &IMAGE_VIEW_ALL, layer, arch, names, ret_id, err);
}

static char one[] = "docker.io/library/one:1", two[] = "docker.io/library/two:2";

static bool nobody(void *data, const char *id)
{
    (void)data;
    (void)id;
    return false;
}

static bool this_one(void *data, const char *id)
{
    return strcmp(data, id) == 0;
}

TEST(an_image_is_found_by_all_its_names)
{
    struct lab lab = lab_open();
    char id[DIGEST_LEN + 1] = "", prefix[12];
    char *const names[] = {one, two, NULL};
    const char *const good[] = {"one:1", one, "two:2", id, id + 7, prefix};
    struct err err = ERR_NONE;

    CHECK_INT(put(lab.store, "layer", "amd64", names, id, &err), 0);
    (void)snprintf(prefix, sizeof(prefix), "%.6s", id + 7);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct image *image = NULL;

        CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, good[i], &image, &err), 0);
        if (image == NULL) {
            tap_fail("%s: %s", good[i], err.msg);
            continue;
        }
        CHECK_STR(image->id, id);
        CHECK_STR(image->names[0], one);
        CHECK_STR(image->names[1], two);
        CHECK_INT(image->layer_count, 1);
        image_free(image);
    }
    CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, "one", &(struct image *){NULL}, &err),
              -ENOENT);
    CHECK_STR(err.msg, "no such image: one");
    CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, "../one", &(struct image *){NULL}, &err),
              -EINVAL);
    lab_close(&lab);
}

TEST(damage_is_noticed_and_named)
{
    struct lab lab = lab_open();
    char id[DIGEST_LEN + 1] = "", path[256];
    char *const names[] = {one, NULL};
    struct image *image = NULL, **list = NULL;
    struct err err = ERR_NONE;
    size_t count = 0;
    int fd;

    CHECK_INT(put(lab.store, "layer", "amd64", names, id, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/images/blobs/sha256/%s", lab.dir, id + 7);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "X", 1) == 1);
    (void)close(fd);
    CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, "one:1", &image, &err), -EBADMSG);
    CHECK(strstr(err.msg, id) != NULL && strstr(err.msg, "is damaged") != NULL);
    CHECK_INT(image_store_list(lab.store, &IMAGE_VIEW_ALL, &list, &count, &err), 0);
    CHECK_INT(count, 1);
    CHECK(count == 1 && list[0]->config == NULL);
    image_list_free(list, count);
    lab_close(&lab);
}

static int find_as(struct lab *lab, const struct image_view *view, const char *name,
                   const char *want_id)
{
    struct image *image = NULL;
    struct err err = ERR_NONE;
    int r = image_store_find(lab->store, view, name, &image, &err);

    if (r == 0)
        CHECK_STR(image->id, want_id);
    image_free(image);
    return r;
}

TEST(each_user_has_names_of_its_own)
{
    const struct image_view mine = {.uid = 7}, theirs = {.uid = 8};
    const struct image_view hidden = {.all = true, .uid = -1, .private = true};
    struct lab lab = lab_open();
    char a[DIGEST_LEN + 1], b[DIGEST_LEN + 1], c[DIGEST_LEN + 1], id[DIGEST_LEN + 1];
    char by_digest[REFERENCE_MAX + 1], *const first[] = {one, NULL}, *const second[] = {two, NULL};
    struct store_removal done = {.untagged = NULL};
    struct image *image = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(put(lab.store, "a", "amd64", first, a, &err), 0);
    CHECK_INT(put_for(lab.store, &mine, "b", "amd64", first, b, &err), 0);
    CHECK_INT(put_for(lab.store, &hidden, "c", "amd64", second, c, &err), 0);
    /* The same name: one's own, else the daemon's. */
    CHECK_INT(find_as(&lab, &mine, "one:1", b), 0);
    CHECK_INT(find_as(&lab, &theirs, "one:1", a), 0);
    CHECK_INT(find_as(&lab, &IMAGE_VIEW_ALL, "one:1", a), 0);
    /* By no name, id, part of an id or digest of a manifest of another user's. */
    CHECK_INT(image_store_find(lab.store, &mine, b, &image, &err), 0);
    (void)snprintf(by_digest, sizeof(by_digest), "one@%s", image != NULL ? image->manifest : "");
    image_free(image);
    CHECK_INT(find_as(&lab, &mine, by_digest, b), 0);
    CHECK_INT(find_as(&lab, &theirs, by_digest, b), -ENOENT);
    CHECK_INT(find_as(&lab, &theirs, b, b), -ENOENT);
    CHECK_INT(find_as(&lab, &theirs, b + 7, b), -ENOENT);
    CHECK_INT(find_as(&lab, &IMAGE_VIEW_ALL, b, b), 0);
    CHECK_INT(find_as(&lab, &theirs, "two:2", c), -ENOENT); /* a snapshot of root's */
    CHECK_INT(find_as(&lab, &IMAGE_VIEW_ALL, "two:2", c), 0);
    CHECK_INT(image_store_tag(lab.store, &theirs, b, two, id, &err), -ENOENT);
    /* A name for what is common is the caller's; root's own for what is not stays so. */
    CHECK_INT(image_store_tag(lab.store, &theirs, "one:1", two, id, &err), 0);
    CHECK_INT(find_as(&lab, &theirs, "two:2", a), 0);
    CHECK_INT(find_as(&lab, &mine, "two:2", a), -ENOENT);
    CHECK_INT(image_store_tag(lab.store, &IMAGE_VIEW_ALL, b, "docker.io/library/three:3", id, &err),
              0);
    CHECK_INT(find_as(&lab, &theirs, "three:3", b), -ENOENT);
    /* Removing: what is common is not a user's to remove, and what is its own leaves others'. */
    CHECK_INT(image_store_remove(lab.store, &theirs, "one:1", true, nobody, NULL, &done, &err),
              -EPERM);
    CHECK_INT(image_store_remove(lab.store, &mine, "one:1", false, this_one, b, &done, &err), 0);
    CHECK(done.deleted != NULL && strcmp(done.deleted[0], b) == 0);
    store_removal_done(&done);
    CHECK_INT(find_as(&lab, &mine, b, b), -ENOENT);
    CHECK_INT(find_as(&lab, &IMAGE_VIEW_ALL, b, b), 0); /* root has named it */
    CHECK_INT(image_store_prune(lab.store, &theirs, true, NULL, nobody, NULL, &done, &err), 0);
    CHECK(done.untagged != NULL && strcmp(done.untagged[0], two) == 0 && done.untagged[1] == NULL);
    CHECK(done.deleted == NULL); /* it is still there to see: the daemon's */
    store_removal_done(&done);
    CHECK_INT(find_as(&lab, &theirs, "one:1", a), 0);
    /* Loaded once more by root it is common. */
    CHECK_INT(put(lab.store, "c", "amd64", second, c, &err), 0);
    CHECK_INT(find_as(&lab, &theirs, "two:2", c), 0);
    lab_close(&lab);
}

TEST(names_move_and_images_stay)
{
    struct lab lab = lab_open();
    char a[DIGEST_LEN + 1], b[DIGEST_LEN + 1], id[DIGEST_LEN + 1];
    char *const first[] = {one, NULL}, *const second[] = {two, NULL};
    struct store_removal done = {.untagged = NULL};
    struct image *image = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(put(lab.store, "a", "amd64", first, a, &err), 0);
    CHECK_INT(put(lab.store, "b", "amd64", second, b, &err), 0);
    CHECK_INT(image_store_tag(lab.store, &IMAGE_VIEW_ALL, "two:2", one, id, &err), 0);
    CHECK_STR(id, b);
    CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, "one:1", &image, &err), 0);
    CHECK_STR(image != NULL ? image->id : "", b);
    image_free(image);
    CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, a, &image, &err),
              0); /* without a name now */
    CHECK(image != NULL && image->names[0] == NULL);
    image_free(image);

    CHECK_INT(image_store_remove(lab.store, &IMAGE_VIEW_ALL, b, false, nobody, NULL, &done, &err),
              -EBUSY);
    CHECK(strstr(err.msg, "has 2 names") != NULL);
    CHECK_INT(
        image_store_remove(lab.store, &IMAGE_VIEW_ALL, "one:1", false, nobody, NULL, &done, &err),
        0);
    CHECK(done.untagged != NULL && strcmp(done.untagged[0], one) == 0 && done.deleted == NULL);
    store_removal_done(&done);
    CHECK_INT(
        image_store_remove(lab.store, &IMAGE_VIEW_ALL, "two:2", false, this_one, b, &done, &err),
        -EBUSY);
    CHECK_INT(
        image_store_remove(lab.store, &IMAGE_VIEW_ALL, "two:2", true, this_one, b, &done, &err), 0);
    CHECK(done.deleted != NULL && strcmp(done.deleted[0], b) == 0);
    store_removal_done(&done);
    CHECK_INT(image_store_prune(lab.store, &IMAGE_VIEW_ALL, false, NULL, nobody, NULL, &done, &err),
              0);
    CHECK(done.deleted != NULL && strcmp(done.deleted[0], a) == 0);
    store_removal_done(&done);
    lab_close(&lab);
}

/* An image is its configuration: compressed otherwise, it is the same. */
TEST(two_manifests_of_one_image)
{
    struct lab lab = lab_open();
    char *const names[] = {one, NULL};
    char id[DIGEST_LEN + 1];
    struct image **list = NULL;
    struct err err = ERR_NONE;
    size_t count = 0;

    CHECK_INT(put(lab.store, "a", "amd64", names, id, &err), 0);
    CHECK_INT(put(lab.store, "a", "amd64", names, id, &err), 0);
    CHECK_INT(image_store_list(lab.store, &IMAGE_VIEW_ALL, &list, &count, &err), 0);
    CHECK_INT(count, 1);
    image_list_free(list, count);
    lab_close(&lab);
}

static size_t count_blobs(const struct lab *lab)
{
    int64_t bytes = 0;
    uint64_t images = 0;

    (void)image_store_usage(lab->store, &IMAGE_VIEW_ALL, &bytes, &images, NULL);
    return (size_t)(bytes / 4096);
}

TEST(what_nothing_names_is_removed_unless_somebody_works)
{
    struct lab lab = lab_open();
    char *const names[] = {one, NULL};
    char id[DIGEST_LEN + 1], stray[DIGEST_LEN + 1];
    struct blob_file f = BLOB_FILE_NONE;
    struct err err = ERR_NONE;
    char **layers = NULL;
    int64_t bytes = 0;
    int use, alone;

    CHECK_INT(put(lab.store, "a", "amd64", names, id, &err), 0);
    CHECK_INT(blob_put(lab.store, "stray", 5, stray, &err), 0);
    use = image_store_use(lab.store, &err);
    CHECK_INT(blob_begin(lab.store, &f, &err), 0);
    CHECK_INT(image_store_collect(lab.store, &layers, &bytes, &err), FD_NONE);
    CHECK(blob_there(lab.store, stray));
    (void)close(use);
    (void)close(f.fd); /* who made it has died */
    alone = image_store_collect(lab.store, &layers, &bytes, &err);
    CHECK(alone >= 0);
    CHECK(!blob_there(lab.store, stray) && blob_there(lab.store, id));
    CHECK(layers != NULL && layers[0] != NULL && layers[1] == NULL);
    CHECK(bytes > 0);
    CHECK(blob_reopen(lab.store, &f, NULL) < 0);
    (void)close(alone);
    for (char **l = layers; l != NULL && *l != NULL; l++)
        free(*l);
    free(layers);
    lab_close(&lab);
}

/* A writer is killed at any instant: each blob that is there has the digest that is its name. */
TEST(killed_while_writing)
{
    struct lab lab = lab_open();
    char big[1 << 16], digest[DIGEST_LEN + 1], is[DIGEST_LEN + 1];
    struct err err = ERR_NONE;
    int whole = 0, missing = 0;

    (void)memset(big, 'x', sizeof(big));
    for (int i = 0; i < 40; i++) {
        pid_t pid;

        (void)snprintf(big, sizeof(big), "%d", i);
        digest_of(big, sizeof(big), digest);
        pid = fork();
        if (pid == 0) {
            (void)blob_put(lab.store, big, sizeof(big), is, NULL);
            _exit(0);
        }
        (void)usleep((useconds_t)(i * 37));
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        if (blob_there(lab.store, digest)) {
            int64_t size = 0;
            int fd = blob_open(lab.store, digest, &size, &err);

            CHECK_INT(digest_of_file(fd, is, &size), 0);
            CHECK_STR(is, digest);
            (void)close(fd);
            whole++;
        } else {
            missing++;
        }
    }
    printf("# %d whole, %d not there\n", whole, missing);
    CHECK_INT(whole + missing, 40);
    CHECK(count_blobs(&lab) > 0 || whole == 0);
    lab_close(&lab);
}

/* Two processes give names at the same time: none is lost. */
TEST(concurrent_writers)
{
    struct lab lab = lab_open();
    char *const names[] = {one, NULL};
    char id[DIGEST_LEN + 1], other[DIGEST_LEN + 1];
    struct image *image = NULL;
    struct err err = ERR_NONE;
    size_t n = 0;

    CHECK_INT(put(lab.store, "a", "amd64", names, id, &err), 0);
    for (int p = 0; p < 4; p++)
        if (fork() == 0) {
            for (int i = 0; i < 20; i++) {
                char name[64];

                (void)snprintf(name, sizeof(name), "docker.io/library/n%d:%d", p, i);
                if (image_store_tag(lab.store, &IMAGE_VIEW_ALL, id, name, other, NULL) < 0)
                    _exit(1);
            }
            _exit(0);
        }
    for (int p = 0; p < 4; p++) {
        int status = 1;

        (void)wait(&status);
        CHECK_INT(status, 0);
    }
    CHECK_INT(image_store_find(lab.store, &IMAGE_VIEW_ALL, id, &image, &err), 0);
    while (image != NULL && image->names[n] != NULL)
        n++;
    CHECK_INT(n, 81);
    image_free(image);
    lab_close(&lab);
}

TAP_MAIN
