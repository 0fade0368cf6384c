#include "api/native/exec-json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/base64.h"
#include "base/err.h"
#include "http/error.h"
#include "proto/utf8.h"
#include "sandbox/exec.h"
#include "spec/signals.h"

enum {
    CONTROL_FREE = 1024, /* control bytes that a text may always have */
    CONTROL_SHARE = 8,   /* otherwise at most one byte in eight */
};

/* True if most bytes would take six bytes in JSON: such data is no text, and encoding it would
 * take long (a tenth of a second for an output of the largest size). */
static bool bytes_are_mostly_control(const unsigned char *data, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += data[i] < 0x20 && data[i] != '\n' && data[i] != '\r' && data[i] != '\t';
    return n > CONTROL_FREE && n > len / CONTROL_SHARE;
}

json_t *exec_bytes(const void *data, size_t len, bool *ret_base64)
{
    auto_free char *text = NULL;

    *ret_base64 = !utf8_valid(data, len) || bytes_are_mostly_control(data, len);
    if (!*ret_base64)
        return json_stringn_nocheck(len > 0 ? data : "", len);
    text = malloc(base64_encoded_size(len) + 1);
    return text == NULL ? NULL : json_stringn_nocheck(text, base64_encode(text, data, len));
}

json_t *exec_chunk(const void *data, size_t len)
{
    bool base64 = false;
    json_t *text = exec_bytes(data, len, &base64);
    json_t *chunk = json_pack("{s:o}", "data", text);

    if (chunk != NULL && base64)
        (void)json_object_set_new(chunk, "encoding", json_string("base64"));
    return chunk;
}

/* Returns the length announced by a UTF-8 lead byte, 0 if it is none. */
static size_t utf8_length(unsigned char c)
{
    return c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
}

size_t exec_text_tail(const char *data, size_t len)
{
    for (size_t n = 1; n <= 3 && n <= len; n++) {
        unsigned char c = (unsigned char)data[len - n];

        if ((c & 0xc0) != 0x80)
            return utf8_length(c) > n ? n : 0;
    }
    return 0;
}

static json_t *signal_name(int signo)
{
    char text[SIGNAL_TEXT_MAX];

    if (signo == 0)
        return json_null();
    signal_format(signo, text);
    return json_string(text);
}

static json_t *exec_end_reason(const struct exec *e)
{
    if (exec_timed_out(e))
        return json_string("timeout");
    return exec_lost(e) ? json_string("sandboxEnded") : json_null();
}

json_t *exec_encode_end(const struct exec *e)
{
    return json_pack("{s:i, s:o, s:b, s:o}", "exitCode", exec_exit_code(e), "signal",
                     signal_name(exec_term_signal(e)), "timedOut", exec_timed_out(e), "reason",
                     exec_end_reason(e));
}

static const char *state_name(enum exec_state state)
{
    static const char *const names[EXEC_STATE_MAX] = {[EXEC_STARTING] = "starting",
                                                      [EXEC_RUNNING] = "running",
                                                      [EXEC_ENDED] = "ended",
                                                      [EXEC_FAILED] = "failed"};

    return state > EXEC_INVALID && state < EXEC_STATE_MAX ? names[state] : "invalid";
}

static json_t *command_name(const struct exec *e)
{
    const char *text = exec_command(e);

    return text[0] == '\0' || !utf8_valid(text, strlen(text)) ? json_null() : json_string(text);
}

json_t *exec_encode(const struct exec *e)
{
    char id[24];
    json_t *end = exec_get_state(e) == EXEC_ENDED ? exec_encode_end(e) : json_object();
    json_t *root;

    (void)snprintf(id, sizeof(id), "%" PRIu64, exec_id(e));
    root = json_pack("{s:s, s:s, s:o, s:i, s:b, s:b, s:b}", "execId", id, "state",
                     state_name(exec_get_state(e)), "command", command_name(e), "pid",
                     (int)exec_pid(e), "tty", exec_is_tty(e), "keep", exec_is_kept(e), "attached",
                     exec_is_attached(e));
    if (root != NULL && (end == NULL || json_object_update(root, end) < 0)) {
        json_decref(root);
        root = NULL;
    }
    json_decref(end);
    return root;
}

json_t *exec_encode_error(const struct err *err, int exit_code)
{
    int number = err->code < 0 ? -err->code : err->code;
    bool base64 = false; /* a message may quote a client's bytes; then base64 is as good */
    json_t *root = json_pack("{s:s, s:o, s:i}", "code", error_name(err->code), "message",
                             exec_bytes(err->msg, strlen(err->msg), &base64), "errno", number);

    if (root != NULL && (exit_code == STATUS_CANNOT_EXECUTE || exit_code == STATUS_NOT_FOUND))
        (void)json_object_set_new(root, "exitCode", json_integer(exit_code));
    return root;
}
