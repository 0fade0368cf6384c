#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/native/files.h"
#include "base/auto.h"
#include "http/error.h"
#include "proto/file-msg.h"
#include "proto/utf8.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static bool char_is_unreserved(unsigned char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~/", c) != NULL);
}

char *file_percent_encode(const char *name, size_t len)
{
    static const char hex[] = "0123456789ABCDEF";
    char *text = malloc(3 * len + 1), *p = text;

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];

        if (char_is_unreserved(c)) {
            *p++ = (char)c;
            continue;
        }
        *p++ = '%';
        *p++ = hex[c >> 4];
        *p++ = hex[c & 15];
    }
    *p = '\0';
    return text;
}

/* Returns the length of the first UTF-8 character; 0 if invalid. */
static size_t utf8_character(const char *name, size_t len)
{
    for (size_t n = 1; n <= 4 && n <= len; n++)
        if (utf8_valid(name, n))
            return n;
    return 0;
}

static char *name_to_utf8(const char *name, size_t len)
{
    char *text = malloc(3 * len + 1), *p = text;

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < len;) {
        size_t n = utf8_character(name + i, len - i);

        if (n > 0) {
            (void)memcpy(p, name + i, n);
            p += n;
            i += n;
        } else {
            (void)memcpy(p, replacement, 3);
            p += 3;
            i++;
        }
    }
    *p = '\0';
    return text;
}

int file_set_name(json_t *root, const char *key, const char *name, size_t len)
{
    auto_free char *lossy = NULL, *encoded = NULL;
    char encoded_key[FILE_TEXT_MAX];

    if (utf8_valid(name, len))
        return json_object_set_new(root, key, json_stringn(name, len)) < 0 ? -ENOMEM : 0;
    lossy = name_to_utf8(name, len);
    encoded = file_percent_encode(name, len);
    (void)snprintf(encoded_key, sizeof(encoded_key), "%sEncoded", key);
    if (lossy == NULL || encoded == NULL ||
        json_object_set_new(root, key, json_string(lossy)) < 0 ||
        json_object_set_new(root, encoded_key, json_string(encoded)) < 0)
        return -ENOMEM;
    return 0;
}

/* Rounds down to milliseconds; clamps absurd times of a hostile file system. */
static json_int_t time_to_ms(int64_t seconds, uint32_t ns)
{
    const int64_t most = INT64_MAX / 1000 - 1;

    if (seconds > most)
        seconds = most;
    if (seconds < -most)
        seconds = -most;
    return (json_int_t)seconds * 1000 + ns / 1000000;
}

static const char *frame_type_name(enum frame_type type)
{
    static const char *const names[] = {
        [FRAME_TYPE_FILE] = "file",       [FRAME_TYPE_DIR] = "directory",
        [FRAME_TYPE_SYMLINK] = "symlink", [FRAME_TYPE_BLOCK] = "block",
        [FRAME_TYPE_CHAR] = "character",  [FRAME_TYPE_FIFO] = "fifo",
        [FRAME_TYPE_SOCKET] = "socket",
    };

    return names[type];
}

static int json_set_device(json_t *root, const struct file_record *r)
{
    if (r->type != FRAME_TYPE_CHAR && r->type != FRAME_TYPE_BLOCK)
        return 0;
    return json_object_set_new(
        root, "device", json_pack("[I, I]", (json_int_t)r->rdev_major, (json_int_t)r->rdev_minor));
}

static int json_set_facts(json_t *root, const struct file_record *r)
{
    char mode[8];
    json_t *info;
    int bad;

    (void)snprintf(mode, sizeof(mode), "%04o", r->mode & 07777);
    info = json_pack(
        "{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "type", frame_type_name(r->type),
        "size", (json_int_t)(r->size <= INT64_MAX ? r->size : INT64_MAX), "mode", mode, "uid",
        (json_int_t)r->uid, "gid", (json_int_t)r->gid, "links", (json_int_t)r->nlink, "inode",
        (json_int_t)(r->ino <= INT64_MAX ? r->ino : INT64_MAX), "atimeMs",
        time_to_ms(r->atime, r->atime_ns), "mtimeMs", time_to_ms(r->mtime, r->mtime_ns), "ctimeMs",
        time_to_ms(r->ctime, r->ctime_ns));
    bad = json_object_update(root, info);
    json_decref(info);
    if (r->type == FRAME_TYPE_SYMLINK)
        bad |= file_set_name(root, "target", r->target, r->target_len);
    return bad | json_set_device(root, r);
}

json_t *file_encode(const struct file_record *r)
{
    json_t *root = json_object();
    int bad = root == NULL ? -ENOMEM : 0;

    if (r->name_len > 0)
        bad |= file_set_name(root, "name", r->name, r->name_len);
    if (r->mode != 0) /* otherwise stat failed and only the name is known */
        bad |= json_set_facts(root, r);
    if (r->flags & FILE_NOT_ENTERED)
        bad |= json_object_set_new(root, "entered", json_false());
    if (r->flags & FILE_FAILED)
        bad |= json_object_set_new(root, "error", json_string(error_name(r->error)));
    if (bad == 0)
        return root;
    json_decref(root);
    return NULL;
}

const char *file_event_name(const struct file_event *e)
{
    static const char *const names[FILE_EVENT_MAX] = {
        [FILE_EVENT_INVALID] = "",         [FILE_EVENT_READY] = "ready",
        [FILE_EVENT_CREATE] = "create",    [FILE_EVENT_MODIFY] = "modify",
        [FILE_EVENT_CLOSE] = "close",      [FILE_EVENT_ATTRIBUTES] = "attributes",
        [FILE_EVENT_DELETE] = "delete",    [FILE_EVENT_MOVED_FROM] = "movedFrom",
        [FILE_EVENT_MOVED_TO] = "movedTo", [FILE_EVENT_OVERFLOW] = "overflow",
        [FILE_EVENT_GONE] = "gone",
    };

    return names[e->kind];
}

json_t *file_encode_event(const struct file_event *e)
{
    json_t *root = json_pack("{s:b}", "directory", (int)e->directory);

    if (root == NULL)
        return NULL;
    if (file_set_name(root, "name", e->name, e->name_len) < 0 ||
        (e->cookie != 0 &&
         json_object_set_new(root, "cookie", json_integer((json_int_t)e->cookie)) < 0)) {
        json_decref(root);
        return NULL;
    }
    return root;
}
