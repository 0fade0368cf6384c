/* Makes an ext4 in a sparse file with libext2fs, without running a program. Ranges of zeros stay
 * holes, and the kernel is told so (INODE_ZEROED, a lazy journal). This writes some tens of KiB, in
 * about 1.5 ms for 10 GiB. Runs in the launcher. */
#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "launch/sandbox.h"

enum {
    BLOCK_LOG = 12, /* 4 KiB */
    INODE_BYTES = 256,
    /* one inode per four blocks, as mke2fs does, but no fewer than the next */
    BYTES_PER_INODE = 16384,
    INODES_MIN = 1024,
    JOURNAL_BLOCKS_MIN = 1024, /* the minimum of ext4 */
    JOURNAL_BLOCKS_MAX = 16384,
    JOURNAL_SHARE = 64, /* fraction of the disk */
};

/* libext2fs returns errnos, or codes of its own table. */
static int disk_error(errcode_t code, const char *what, struct err *err)
{
    int e = code > 0 && code < 4096 ? -(int)code : -EIO;

    return e != -EIO ? err_errno(err, e, "disk: %s", what)
                     : err_set(err, e, "disk: %s: libext2fs says %ld", what, (long)code);
}

static void disk_set_super(struct ext2_super_block *sb, uint64_t bytes)
{
    uint64_t inodes = bytes / BYTES_PER_INODE;

    (void)memset(sb, 0, sizeof(*sb));
    ext2fs_blocks_count_set(sb, bytes >> BLOCK_LOG);
    sb->s_rev_level = EXT2_DYNAMIC_REV;
    sb->s_log_block_size = sb->s_log_cluster_size = BLOCK_LOG - EXT2_MIN_BLOCK_LOG_SIZE;
    sb->s_inode_size = INODE_BYTES;
    sb->s_min_extra_isize = sb->s_want_extra_isize = 32;
    sb->s_inodes_count = (__u32)(inodes > INODES_MIN ? inodes : INODES_MIN);
    sb->s_log_groups_per_flex = 4;
    sb->s_feature_compat = EXT2_FEATURE_COMPAT_DIR_INDEX | EXT2_FEATURE_COMPAT_EXT_ATTR;
    sb->s_feature_incompat = EXT2_FEATURE_INCOMPAT_FILETYPE | EXT3_FEATURE_INCOMPAT_EXTENTS |
                             EXT4_FEATURE_INCOMPAT_FLEX_BG | EXT4_FEATURE_INCOMPAT_64BIT;
    sb->s_feature_ro_compat =
        EXT2_FEATURE_RO_COMPAT_SPARSE_SUPER | EXT2_FEATURE_RO_COMPAT_LARGE_FILE |
        EXT4_FEATURE_RO_COMPAT_HUGE_FILE | EXT4_FEATURE_RO_COMPAT_EXTRA_ISIZE |
        EXT4_FEATURE_RO_COMPAT_DIR_NLINK | EXT4_FEATURE_RO_COMPAT_METADATA_CSUM;
}

static int disk_set_uuid(ext2_filsys fs, struct err *err)
{
    struct ext2_super_block *sb = fs->super;

    if (getrandom(sb->s_uuid, sizeof(sb->s_uuid), 0) != (ssize_t)sizeof(sb->s_uuid) ||
        getrandom(sb->s_hash_seed, sizeof(sb->s_hash_seed), 0) != (ssize_t)sizeof(sb->s_hash_seed))
        return err_set(err, -EIO, "disk: no random numbers");
    sb->s_checksum_type = EXT2_CRC32C_CHKSUM;
    sb->s_def_hash_version = EXT2_HASH_HALF_MD4;
    sb->s_max_mnt_count = -1;
    sb->s_errors = EXT2_ERRORS_RO;
    ext2fs_init_csum_seed(fs);
    return 0;
}

/* Writes the tables, the root directory and the reserved inodes. */
static int disk_populate(ext2_filsys fs, struct err *err)
{
    errcode_t e = ext2fs_allocate_tables(fs);

    if (e != 0)
        return disk_error(e, "tables", err);
    for (dgrp_t i = 0; i < fs->group_desc_count; i++) {
        /* the table is a hole, so it reads as zeros */
        ext2fs_bg_flags_set(fs, i, EXT2_BG_INODE_ZEROED);
        ext2fs_group_desc_csum_set(fs, i);
    }
    e = ext2fs_mkdir(fs, EXT2_ROOT_INO, EXT2_ROOT_INO, NULL);
    if (e != 0)
        return disk_error(e, "root directory", err);
    ext2fs_inode_alloc_stats(fs, EXT2_BAD_INO, 1);
    for (ext2_ino_t i = EXT2_ROOT_INO + 1; i < EXT2_FIRST_INODE(fs->super); i++)
        ext2fs_inode_alloc_stats(fs, i, 1);
    ext2fs_mark_ib_dirty(fs);
    return 0;
}

static int disk_add_journal(ext2_filsys fs, struct err *err)
{
    blk64_t blocks = ext2fs_blocks_count(fs->super) / JOURNAL_SHARE;
    errcode_t e;

    if (blocks < JOURNAL_BLOCKS_MIN)
        blocks = JOURNAL_BLOCKS_MIN;
    if (blocks > JOURNAL_BLOCKS_MAX)
        blocks = JOURNAL_BLOCKS_MAX;
    e = ext2fs_add_journal_inode(fs, (blk_t)blocks, EXT2_MKJOURNAL_LAZYINIT);
    return e != 0 ? disk_error(e, "journal", err) : 0;
}

int disk_format(int fd, uint64_t bytes, bool journal, struct err *err)
{
    struct ext2_super_block sb;
    ext2_filsys fs = NULL;
    char path[32];
    errcode_t e;
    int r;

    disk_set_super(&sb, bytes);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    e = ext2fs_initialize(path, EXT2_FLAG_64BITS, &sb, unix_io_manager, &fs);
    if (e != 0)
        return disk_error(e, "make the file system", err);
    r = disk_set_uuid(fs, err);
    if (r == 0)
        r = disk_populate(fs, err);
    if (r == 0 && journal)
        r = disk_add_journal(fs, err);
    if (r < 0) {
        ext2fs_free(fs);
        return r;
    }
    ext2fs_mark_super_dirty(fs);
    e = ext2fs_close_free(&fs);
    if (e != 0 && fs != NULL)
        ext2fs_free(fs);
    return e != 0 ? disk_error(e, "write the file system", err) : 0;
}
