#pragma once

/* The file of --cidfile: the id of a new sandbox, without a line end, as docker writes it. */

struct err;

struct cidfile {
    const char *path; /* borrowed; NULL: not asked for, and all calls do nothing */
    int fd;           /* FD_NONE: not open */
};

/* Makes the file. -EEXIST: it would name another sandbox. */
int cidfile_open(struct cidfile *f, struct err *err);
/* Writes the id and closes the file. */
int cidfile_write(struct cidfile *f, const char *id, struct err *err);
/* Removes a file without an id: there is no sandbox. Idempotent. */
void cidfile_done(struct cidfile *f);
