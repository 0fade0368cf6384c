#pragma once

/* Named volumes, as sandboxes use them. */

struct caller;
struct err;
struct sandbox;
struct spec;
struct supervisor;

/* Gives the volumes of a new sandbox that have no source a name each. */
int volumes_name_anonymous(struct spec *spec, struct err *err);
/* Whether its creator may use the volumes that exist already: -EPERM. */
int volumes_check_spec(struct supervisor *sup, const struct spec *spec,
                       const struct caller *creator, struct err *err);

/*
 * Makes and fills what a new sandbox is to have, before it is started: a step of its start
 * (part_step). sandbox_part_done does not follow if the supervisor stops. The client's connection
 * is s->waiting_fd until then.
 */
int volumes_prepare(struct sandbox *s, struct err *err);

/* It is to go: where it waits for a volume to be made, on a disk that may not answer, the step ends
 * at once, from within this call, with -ECANCELED. */
void volumes_prepare_cancel(struct sandbox *s);

/* The sandbox has been removed: so are its anonymous volumes. */
void volumes_sandbox_gone(struct sandbox *s);
