#include "patchbay.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(void *old, size_t size) {
    void *new = realloc(old, size);
    if (new == NULL) abort();
    return new;
}

text literal(const char *chars) {
    return (text){(uint8_t *)chars, strlen(chars)};
}

bool same(text a, text b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static void add(text *to, const void *bytes, size_t len) {
    if (len == 0) return;
    to->ptr = allocate(to->ptr, to->len + len);
    memcpy(to->ptr + to->len, bytes, len);
    to->len += len;
}

static void add_json(text *to, text from) {
    add(to, "\"", 1);
    for (size_t i = 0; i < from.len; i++) {
        uint8_t byte = from.ptr[i];
        if (byte < 0x20) {
            const char *digits = "0123456789abcdef";
            char escape[] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
            add(to, escape, sizeof escape);
        } else {
            if (byte == '"' || byte == '\\') add(to, "\\", 1);
            add(to, &byte, 1);
        }
    }
    add(to, "\"", 1);
}

text format(const char *pattern, ...) {
    text result = {0};
    va_list arguments;
    va_start(arguments, pattern);
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '%') {
            text argument = va_arg(arguments, text);
            add(&result, argument.ptr, argument.len);
        } else if (*pattern == '#') {
            add_json(&result, va_arg(arguments, text));
        } else {
            add(&result, *pattern == '`' ? "\"" : pattern, 1);
        }
    }
    va_end(arguments);
    return result;
}

void push(plugin_list_string_t *list, text owned) {
    list->ptr = allocate(list->ptr, (list->len + 1) * sizeof(text));
    list->ptr[list->len++] = owned;
}

// JSON from the host is valid; these only must not run over its end.

static uint8_t *skip_space(uint8_t *at, uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static uint8_t *skip_string(uint8_t *at, uint8_t *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

static uint8_t *skip_value(uint8_t *at, uint8_t *end) {
    int depth = 0;
    while (at < end && (depth > 0 || memchr(",}] \n\r\t", *at, 7) == NULL)) {
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        if (*at == '}' || *at == ']') depth--;
        at++;
        if (depth == 0 && (at[-1] == '}' || at[-1] == ']')) break;
    }
    return at;
}

bool json_each(text *rest, text *key, text *value) {
    uint8_t *at = rest->ptr, *end = rest->ptr + rest->len;
    // In front of each element stands the opening bracket or a comma.
    if (at == end || (*at != '{' && *at != '[' && *at != ',')) return false;
    at = skip_space(at + 1, end);
    if (at == end || *at == '}' || *at == ']') return false;
    if (key != NULL) {
        uint8_t *begin = at;
        at = skip_string(at, end);
        *key = json_string((text){begin, at - begin});
        at = skip_space(at, end);
        if (at < end) at = skip_space(at + 1, end);
    }
    *value = (text){at, 0};
    at = skip_value(at, end);
    value->len = at - value->ptr;
    at = skip_space(at, end);
    *rest = (text){at, end - at};
    return true;
}

text json_find(text object, text field) {
    text key, value;
    while (json_each(&object, &key, &value))
        if (same(key, field)) return value;
    return (text){0};
}

text json_get(text object, const char *field) {
    return json_find(object, literal(field));
}

text json_string(text value) {
    bool is_string = value.len >= 2 && value.ptr[0] == '"';
    return is_string ? (text){value.ptr + 1, value.len - 2} : (text){0};
}

TYPE(request) may(TYPE(verbs) verbs, const char *group, const char *kind, const char *reason) {
    return (TYPE(request)){
        .tag = PATCHBAY_PLUGIN_TYPES_REQUEST_OBJECTS,
        .val.objects = {format(group), format(kind), verbs, format(reason)},
    };
}

TYPE(query) named(const char *id, const char *api_version, text kind, text namespace, text name, plugin_list_string_t paths) {
    return (TYPE(query)){
        .id = format(id),
        .tolerate = true,
        .target = {
            .tag = PATCHBAY_PLUGIN_TYPES_QUERY_TARGET_NAMED,
            .val.named = {
                .object = {
                    .cluster.tag = PATCHBAY_PLUGIN_TYPES_CLUSTER_PRIMARY_CLUSTER,
                    .kind = {format(api_version), format("%", kind)},
                    .namespace_ = {true, format("%", namespace)},
                    .name = format("%", name),
                },
                .fields = {.tag = PATCHBAY_PLUGIN_TYPES_FIELDS_PATHS, .val.paths = paths},
            },
        },
    };
}

TYPE(finding) *find(exports_patchbay_plugin_reconciler_list_answer_t *answers, const char *id) {
    for (size_t i = 0; i < answers->len; i++)
        if (same(answers->ptr[i].id, literal(id))) return &answers->ptr[i].finding;
    abort(); // The host answers every query.
}

void apply(TYPE(outcome) *outcome, text owned_object) {
    TYPE(list_write) *writes = &outcome->writes;
    writes->ptr = allocate(writes->ptr, (writes->len + 1) * sizeof(TYPE(write)));
    writes->ptr[writes->len++] = (TYPE(write)){
        .tag = PATCHBAY_PLUGIN_TYPES_WRITE_APPLY,
        .val.apply = {
            .cluster.tag = PATCHBAY_PLUGIN_TYPES_CLUSTER_PRIMARY_CLUSTER,
            .object = owned_object,
            .mode.tag = PATCHBAY_PLUGIN_TYPES_APPLY_MODE_UPSERT,
        },
    };
}

TYPE(write_failure) *failed_write(TYPE(primary) *primary) {
    for (size_t i = 0; i < primary->last_writes.len; i++) {
        TYPE(write_result) *write = &primary->last_writes.ptr[i];
        bool failed = write->state.tag == PATCHBAY_PLUGIN_TYPES_WRITE_STATE_FAILED;
        if (failed && write->action != PATCHBAY_PLUGIN_TYPES_WRITE_ACTION_STATUS) return &write->state.val.failed;
    }
    return NULL;
}
