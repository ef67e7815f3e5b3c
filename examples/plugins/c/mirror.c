// Keeps a copy of a ConfigMap's or Secret's data under the name of a Mirror.
//
// A plugin is three pure functions: what it is, what a primary depends on, and what should be true. It never reads and never
// writes by itself. plugin.h and plugin.c are generated from the contract.

#include "patchbay.h"

#include <stdlib.h>

#define API_VERSION "examples.patchbay.dev/v1alpha1"
// The sources that other namespaces may read name them here.
#define MIRROR_TO "examples.patchbay.dev/mirror-to"

// What this plugin reads of a Mirror: parts of its JSON text, so they live as long as that.
typedef struct {
    text name, namespace, uid, generation;
    text from_kind, from_name, from_namespace;
    text keys; // A JSON list, or empty.
} mirror;

static mirror parse(TYPE(primary) *primary) {
    text metadata = json_get(primary->object.json, "metadata"), spec = json_get(primary->object.json, "spec");
    text from = json_get(spec, "from");
    mirror m = {
        .name = json_string(json_get(metadata, "name")),
        .namespace = json_string(json_get(metadata, "namespace")),
        .uid = json_string(json_get(metadata, "uid")),
        .generation = json_get(metadata, "generation"),
        .from_kind = json_string(json_get(from, "kind")),
        .from_name = json_string(json_get(from, "name")),
        .from_namespace = json_string(json_get(from, "namespace")),
        .keys = json_get(spec, "keys"),
    };
    if (m.from_namespace.len == 0) m.from_namespace = m.namespace;
    return m;
}

// Called once, when the plugin is loaded. What it asks for here, an administrator grants.
void exports_patchbay_plugin_reconciler_describe(TYPE(description) *ret) {
    TYPE(primary_kind) *primary = calloc(1, sizeof *primary);
    plugin_tuple2_string_string_t *label = calloc(1, sizeof *label);
    TYPE(request) *requests = calloc(2, sizeof *requests);
    if (primary == NULL || label == NULL || requests == NULL) abort();
    TYPE(verbs) verbs = PATCHBAY_PLUGIN_TYPES_VERBS_READ | PATCHBAY_PLUGIN_TYPES_VERBS_APPLY;
    *label = (plugin_tuple2_string_string_t){format("examples.patchbay.dev/language"), format("c")};
    primary->kind = (TYPE(object_kind)){format(API_VERSION), format("Mirror")};
    primary->selector.match_labels = (plugin_list_tuple2_string_string_t){label, 1};
    requests[0] = may(verbs, "", "ConfigMap", "copies ConfigMaps");
    requests[1] = may(verbs, "", "Secret", "copies Secrets");
    *ret = (TYPE(description)){
        .name = format("mirror-c"),
        .version = format("0.1.0"),
        .primaries = {primary, 1},
        .requests = {requests, 2},
    };
}

// The fields that are copied.
static void push_data(plugin_list_string_t *paths, mirror *m) {
    text keys = m->keys, key;
    if (keys.len == 0) {
        push(paths, format("data"));
        push(paths, format("binaryData"));
    }
    while (json_each(&keys, NULL, &key)) {
        push(paths, format("data['%']", json_string(key)));
        push(paths, format("binaryData['%']", json_string(key)));
    }
}

// What the Mirror depends on. A change of it, and of nothing else, makes the Mirror run again.
bool exports_patchbay_plugin_reconciler_references(
    TYPE(primary) *primary, exports_patchbay_plugin_reconciler_list_answer_t *answers,
    TYPE(reference_set) *ret, TYPE(failure) *err
) {
    mirror m = parse(primary);
    plugin_list_string_t fields = {0}, data = {0};
    push(&fields, format("type"));
    push(&fields, format("metadata.annotations['" MIRROR_TO "']"));
    push_data(&fields, &m);
    push_data(&data, &m);
    TYPE(query) *queries = calloc(2, sizeof *queries);
    if (queries == NULL) abort();
    queries[0] = named("source", "v1", m.from_kind, m.from_namespace, m.from_name, fields);
    // Nobody reads this answer. It is asked for so that the Mirror runs when somebody deletes or edits the copy.
    queries[1] = named("copy", "v1", m.from_kind, m.namespace, m.name, data);
    *ret = (TYPE(reference_set)){.queries = {queries, 2}, .complete = true};

    exports_patchbay_plugin_reconciler_primary_free(primary);
    exports_patchbay_plugin_reconciler_list_answer_free(answers);
    return true;
}

// The Mirror's status. The host fills in lastTransitionTime.
static TYPE(option_json) ready(mirror *m, const char *status, const char *reason, text message) {
    return (TYPE(option_json)){
        true,
        format(
            "{`conditions`:[{`type`:`Ready`,`status`:#,`reason`:#,`message`:#,`observedGeneration`:%}]}",
            literal(status), literal(reason), message, m->generation
        ),
    };
}

// An outcome that only waits: the Mirror runs again as soon as one of its queries finds something else.
static TYPE(outcome) waits(mirror *m, const char *reason, text owned_message) {
    TYPE(outcome) outcome = {.status = ready(m, "False", reason, owned_message)};
    plugin_string_free(&owned_message);
    return outcome;
}

// What should be true of a Mirror whose source is called `label`.
static TYPE(outcome) outcome(mirror *m, TYPE(finding) *finding, text label) {
    bool is_own = same(m->from_namespace, m->namespace);
    if (is_own && same(m->from_name, m->name)) {
        return waits(m, "SourceIsCopy", format("% would be its own copy", label));
    }
    if (finding->tag == PATCHBAY_PLUGIN_TYPES_FINDING_FAILED) {
        return waits(m, "SourceUnknown", format("%", finding->val.failed.message));
    }
    if (finding->tag != PATCHBAY_PLUGIN_TYPES_FINDING_FOUND) {
        return waits(m, "SourceMissing", format("% does not exist", label));
    }
    text source = finding->val.found.json;
    // The host may read all namespaces, so it is up to the plugin that nobody reads a foreign Secret through it.
    text to = json_string(json_get(json_get(json_get(source, "metadata"), "annotations"), MIRROR_TO));
    if (!is_own && !same(to, m->namespace) && !same(to, literal("*"))) {
        return waits(m, "NotAllowed", format("% has no annotation " MIRROR_TO " for %", label, m->namespace));
    }
    text keys = m->keys, element;
    while (json_each(&keys, NULL, &element)) {
        text key = json_string(element);
        if (json_find(json_get(source, "data"), key).len == 0 && json_find(json_get(source, "binaryData"), key).len == 0) {
            return waits(m, "KeyMissing", format("% has no key %", label, key));
        }
    }

    // The answer holds the fields that `references` declares, so all of it is to be copied, as it stands.
    text content = {0};
    const char *fields[] = {"type", "data", "binaryData"};
    for (int i = 0; i < 3; i++) {
        text value = json_get(source, fields[i]);
        if (value.len == 0) continue;
        text longer = format("%,#:%", content, literal(fields[i]), value);
        plugin_string_free(&content);
        content = longer;
    }
    text message = format("copied from %", label);
    patchbay_plugin_log_write_line(PATCHBAY_PLUGIN_LOG_LEVEL_DEBUG, &message);
    // The status is written last, and only if the copy was: it never says more than is true.
    TYPE(outcome) outcome = {.status = ready(m, "True", "Copied", message)};
    // The owner is there so that Kubernetes deletes the copy with the Mirror.
    apply(&outcome, format(
        "{`apiVersion`:`v1`,`kind`:#,`metadata`:{`name`:#,`namespace`:#,`ownerReferences`:[{`apiVersion`:`" API_VERSION
        "`,`kind`:`Mirror`,`name`:#,`uid`:#,`controller`:true}]}%}",
        m->from_kind, m->name, m->namespace, m->name, m->uid, content
    ));
    plugin_string_free(&content);
    plugin_string_free(&message);
    return outcome;
}

// What should be true. The host compares it with what is there, and writes the difference.
bool exports_patchbay_plugin_reconciler_reconcile(
    TYPE(primary) *primary, exports_patchbay_plugin_reconciler_list_answer_t *answers,
    TYPE(outcome) *ret, TYPE(failure) *err
) {
    mirror m = parse(primary);
    TYPE(write_failure) *failed = failed_write(primary);
    if (failed != NULL) {
        // A failure is tried again, less and less often. Its status is written all the same.
        *err = (TYPE(failure)){
            .reason = format("WriteFailed"),
            .message = format("%", failed->message),
            .status = ready(&m, "False", "WriteFailed", failed->message),
        };
    } else {
        text label = format("% %/%", m.from_kind, m.from_namespace, m.from_name);
        *ret = outcome(&m, find(answers, "source"), label);
        plugin_string_free(&label);
    }
    bool succeeded = failed == NULL;
    exports_patchbay_plugin_reconciler_primary_free(primary);
    exports_patchbay_plugin_reconciler_list_answer_free(answers);
    return succeeded;
}

// Not called, since `describe` names no finalizer.
bool exports_patchbay_plugin_reconciler_finalize(
    TYPE(primary) *primary, exports_patchbay_plugin_reconciler_list_answer_t *answers,
    TYPE(finalization) *ret, TYPE(failure) *err
) {
    *ret = (TYPE(finalization)){.done = true};
    exports_patchbay_plugin_reconciler_primary_free(primary);
    exports_patchbay_plugin_reconciler_list_answer_free(answers);
    return true;
}

// Not called, since `describe` declares no watches.
bool exports_patchbay_plugin_reconciler_dependents(
    text *watch_id, TYPE(change) *change, exports_patchbay_plugin_reconciler_list_dependent_t *ret, TYPE(failure) *err
) {
    *ret = (exports_patchbay_plugin_reconciler_list_dependent_t){0};
    plugin_string_free(watch_id);
    exports_patchbay_plugin_reconciler_change_free(change);
    return true;
}
