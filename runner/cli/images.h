#pragma once

/* Shared by the files of rind images. */

#include <jansson.h>

#include "cli/remote.h"
#include "daemon/alone.h"

struct err;

enum { CHANGES_MAX = 32 };

struct images_args {
    struct remote remote; /* first */
    bool alone, quiet, all, force;
    const char *output, *message, *tag;
    const char *changes[CHANGES_MAX];
    size_t change_count;
};

/* Connection to a daemon, or without one to private service processes. */
struct images_client {
    struct client *client; /* owned */
    struct alone alone;    /* pid 0: a daemon serves */
};
int images_open(const struct images_args *args, struct images_client *ret, struct err *err);
void images_close_client(struct images_client *c);
#define auto_images __attribute__((cleanup(images_close_client)))

/* images-bytes.c: all return 0 or a negative errno. */
/* source: a file, a directory with an OCI layout, or "-". */
int images_load_from(const struct images_args *args, const char *source, struct err *err);
int images_import_from(const struct images_args *args, const char *source, const char *name,
                       struct err *err);
int images_save_to(const struct images_args *args, char **names, struct err *err);
int images_export_to(const struct images_args *args, const char *name, struct err *err);
