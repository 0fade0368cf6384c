#pragma once

/* Writes changes in the syntax that image_config_change reads (image/config.h). Pure. The caller
 * frees *ret. 0, -ENOMEM, -EILSEQ, -E2BIG. */

#include <jansson.h>

/* An instruction with one word, quoted: ENV "A=b c". */
int image_change_word(const char *instruction, const char *word, char **ret);
/* An instruction with a list of strings: CMD ["a","b"]. */
int image_change_list(const char *instruction, const json_t *list, char **ret);
