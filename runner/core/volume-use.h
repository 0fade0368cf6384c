#pragma once

/*
 * The named volumes of sandboxes: names, access rights, preparation. Runs in the supervisor's event
 * loop.
 */

struct err;
struct sandbox;
struct spec;
struct supervisor;
struct volume_creator;

/* Gives every volume of the spec without a source a random name. */
int volumes_name_anonymous(struct spec *spec, struct err *err);
/* Checks that the creator may use the existing volumes that the spec names: 0 or -EPERM. */
int volumes_check_spec(struct supervisor *sup, const struct spec *spec,
                       const struct volume_creator *creator, struct err *err);

/*
 * Creates and fills the volumes of a new sandbox before it is started. 1: nothing to do. 0: cb is
 * called once, unless the supervisor stops. Until then the client's connection is s->waiting_fd.
 */
typedef void (*volumes_ready_cb)(struct sandbox *s, int r, const struct err *err);
int volumes_prepare(struct sandbox *s, volumes_ready_cb cb, struct err *err);

/*
 * Cancels a preparation, because the sandbox is being removed. If it waits for a volume to be
 * created (the disk may hang), cb is called with -ECANCELED inside this call.
 */
void volumes_prepare_cancel(struct sandbox *s);

/* Removes the anonymous volumes of a sandbox that has been removed. */
void volumes_sandbox_gone(struct supervisor *sup, const char *id);
