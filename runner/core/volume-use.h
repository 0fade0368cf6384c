#pragma once

/* Named volumes, as sandboxes use them. */

struct caller;
struct err;
struct sandbox;
struct spec;
struct supervisor;

/* Gives the volumes of a new sandbox that have no source a name each. */
int volumes_name_anonymous(struct spec *spec, struct err *err);
/* Whether who makes it may have those that there are: -EPERM. */
int volumes_check_spec(struct supervisor *sup, const struct spec *spec,
                       const struct caller *creator, struct err *err);

/*
 * Makes and fills what a new sandbox is to have, before it is started. 1: there is nothing to do.
 * 0: cb is called, once, unless the supervisor stops; the client's connection is s->waiting_fd
 * until then.
 */
typedef void (*volumes_ready_cb)(struct sandbox *s, int r, const struct err *err);
int volumes_prepare(struct sandbox *s, volumes_ready_cb cb, struct err *err);

/* It is to go: where it waits for a volume to be made, on a disk that may not answer, cb is called
 * at once, from within this call, with -ECANCELED. */
void volumes_prepare_cancel(struct sandbox *s);

/* The sandbox has been removed: so are its anonymous volumes. */
void volumes_sandbox_gone(struct supervisor *sup, const char *id);
