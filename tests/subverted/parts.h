#pragma once

/* What tests and the subverted program agree about. */
enum {
    /* START's `entries` says which part an archive has taken over; else, and with a part before it,
     * it is the unpacker. */
    SUBVERT_CODEC = 7001,
    SUBVERT_SPLITTER = 7002,
    SUBVERT_PACKER = 7003,
    SUBVERT_FLOOD = 7004, /* the unpacker, which writes as much as it can */
    FLOOD_FILE = 1 << 20, /* bytes of each file */
    FLOOD_FILES = 3000,   /* and no more of them, should nobody stop it */
};
