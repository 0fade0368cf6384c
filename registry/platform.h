#pragma once

/* Platforms of images: which of an index a machine runs, and which is best. Pure, except
 * platform_of_machine. */

struct err;

struct platform {
    char os[32], architecture[32], variant[32]; /* "" = not given */
    /* amd64 without a variant: the highest of v1 to v4 that the machine's processor has */
    int level;
};

/* The platform of this machine, by asking its processor. */
void platform_of_machine(struct platform *ret);
/* How well an image fits: 0 best, larger is worse, -1 not at all. */
int platform_rank(const struct platform *want, const struct platform *image);
/* "linux/arm/v7" */
void platform_format(const struct platform *p, char *ret, unsigned long size);
