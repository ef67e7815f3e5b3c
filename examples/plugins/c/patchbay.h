// Helpers that any plugin in C can copy: texts, JSON, and the contract's records with the usual choices.
//
// Who owns what: the host hands over its arguments, and a function frees them when it is done. All that it returns is freed
// by the generated code, so every text and every list in it must come from the heap.
#pragma once

#include "plugin.h"

typedef plugin_string_t text;
#define TYPE(name) patchbay_plugin_types_##name##_t

// A text that nobody frees.
text literal(const char *chars);
bool same(text a, text b);
// A new text. In the pattern, % stands for the next text as it is, # for the next text as a JSON string, and ` for ".
text format(const char *pattern, ...);
// Appends a text, which the list then owns.
void push(plugin_list_string_t *list, text owned);

// The value of an object's field as it stands in the JSON text; empty if there is none.
text json_get(text object, const char *field);
text json_find(text object, text field);
// Goes through the elements of a list, or the members of an object if `key` is given: `rest` begins as the whole of it.
bool json_each(text *rest, text *key, text *value);
// What stands between the quotes of a JSON string. Escapes stay as they are; names and keys in Kubernetes have none.
text json_string(text value);

// Asks for verbs on a kind. The group is empty for the core group.
TYPE(request) may(TYPE(verbs) verbs, const char *group, const char *kind, const char *reason);
// Asks for one object in the primary's cluster. The plugin runs even if that fails, so that it can say so.
TYPE(query) named(const char *id, const char *api_version, text kind, text namespace, text name, plugin_list_string_t paths);
// What the query with this id found.
TYPE(finding) *find(exports_patchbay_plugin_reconciler_list_answer_t *answers, const char *id);
// Creates or updates an object in the primary's cluster, without taking fields over from others.
void apply(TYPE(outcome) *outcome, text owned_object);
// The write of the last run that failed, or NULL. The status is sent again by itself.
TYPE(write_failure) *failed_write(TYPE(primary) *primary);
