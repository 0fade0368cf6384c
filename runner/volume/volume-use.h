#pragma once

/*
 * The named volumes of sandboxes: names, access rights, preparation. Runs in the supervisor's event
 * loop.
 */

struct caller;
struct err;
struct sandbox;
struct spec;
struct supervisor;

/* Gives every volume of the spec without a source a random name. */
int volumes_name_anonymous(struct spec *spec, struct err *err);
/* Checks that the creator may use the existing volumes that the spec names: 0, or
 * -EEXIST for another user's, which has the name. */
int volumes_check_spec(struct supervisor *sup, const struct spec *spec,
                       const struct caller *creator, struct err *err);

/*
 * Creates and fills the volumes of a new sandbox before it is started, as a step of the start
 * (part_step). sandbox_part_done is called once, unless the supervisor stops. Until then
 * start.waiting_fd is the client's connection.
 */
int volumes_prepare(struct sandbox *s, struct err *err);

/*
 * Cancels a preparation, because the sandbox is being removed. If it waits for a volume to be
 * created (the disk may hang), sandbox_part_done is called with -ECANCELED inside this call.
 */
void volumes_prepare_cancel(struct sandbox *s);

/* Removes the anonymous volumes of a sandbox that has been removed. */
void volumes_sandbox_gone(struct sandbox *s);
