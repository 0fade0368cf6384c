#pragma once

/* Writes one line per message to stderr: `level component id=… msg`. Callers quote foreign
 * strings; control bytes are escaped here. Lower layers never log: they return a struct err, and
 * the layer that decides logs once. Environment values are never logged. */

enum log_level { LOG_LEVEL_ERROR = 0, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Messages above this level are dropped; LOG_LEVEL_WARN at start. */
void log_set_level(enum log_level level);
void log_msg(enum log_level level, const char *component, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(component, ...) log_msg(LOG_LEVEL_ERROR, component, __VA_ARGS__)
#define log_warn(component, ...)  log_msg(LOG_LEVEL_WARN, component, __VA_ARGS__)
#define log_info(component, ...)  log_msg(LOG_LEVEL_INFO, component, __VA_ARGS__)
#define log_debug(component, ...) log_msg(LOG_LEVEL_DEBUG, component, __VA_ARGS__)
