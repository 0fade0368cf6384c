#pragma once

struct err;

/*
 * Removes name (one component) beneath dirfd with everything in it: 0 also when it is not there.
 * Follows no link, crosses no mount (-EXDEV), needs a bounded number of fds however deep the tree
 * is, and may be called again after a failure. Nobody else may be writing to the tree.
 */
int rmtree_at(int dirfd, const char *name, struct err *err);
