// Keeps a copy of a ConfigMap's or Secret's data under the name of a Mirror.
//
// A plugin is three pure functions: what it is, what a primary depends on, and what should be true. It never reads and never
// writes by itself.

import { writeLine } from "patchbay:plugin/log@0.1.0";
import { apply, failedWrite, find, may, named, withFailures } from "./patchbay.mjs";

const API_VERSION = "examples.patchbay.dev/v1alpha1";
// The sources that other namespaces may read name them here.
const MIRROR_TO = "examples.patchbay.dev/mirror-to";

export const reconciler = withFailures({
  // Called once, when the plugin is loaded. What it asks for here, an administrator grants.
  describe() {
    const own = { matchLabels: [["examples.patchbay.dev/language", "javascript"]], matchExpressions: [] };
    return {
      name: "mirror-javascript",
      version: "0.1.0",
      primaries: [{ kind: { apiVersion: API_VERSION, kind: "Mirror" }, selector: own }],
      watches: [],
      requests: [
        may({ read: true, apply: true }, "", "ConfigMap", "copies ConfigMaps"),
        may({ read: true, apply: true }, "", "Secret", "copies Secrets"),
      ],
    };
  },

  // What the Mirror depends on. A change of it, and of nothing else, makes the Mirror run again.
  references(primary) {
    const { own, from, keys } = parse(primary);
    const data = keys?.flatMap((key) => [`data['${key}']`, `binaryData['${key}']`]) ?? ["data", "binaryData"];
    const fields = ["type", `metadata.annotations['${MIRROR_TO}']`, ...data];
    const queries = [
      named("source", "v1", from.kind, from.namespace, from.name, fields),
      // Nobody reads this answer. It is asked for so that the Mirror runs when somebody deletes or edits the copy.
      named("copy", "v1", from.kind, own.namespace, own.name, data),
    ];
    return { queries, joinKeys: [], complete: true };
  },

  // What should be true. The host compares it with what is there, and writes the difference.
  reconcile(primary, answers) {
    const { own, from, keys } = parse(primary);
    const label = `${from.kind} ${from.namespace}/${from.name}`;

    // A failure is thrown as a plain object. It is tried again, less and less often; its status is written all the same.
    const failed = failedWrite(primary);
    if (failed) {
      const status = ready(own, "False", "WriteFailed", failed.message);
      throw { reason: "WriteFailed", message: failed.message, permanent: false, status };
    }
    // These only wait: the Mirror runs again as soon as one of its queries finds something else.
    const waits = (reason, message) => outcome([], ready(own, "False", reason, message));
    if (from.namespace === own.namespace && from.name === own.name) {
      return waits("SourceIsCopy", `${label} would be its own copy`);
    }
    const finding = find(answers, "source");
    if (finding.tag === "failed") return waits("SourceUnknown", finding.val.message);
    if (finding.tag === "missing") return waits("SourceMissing", `${label} does not exist`);
    const source = JSON.parse(finding.val.json);
    // The host may read all namespaces, so it is up to the plugin that nobody reads a foreign Secret through it.
    const to = source.metadata?.annotations?.[MIRROR_TO];
    if (from.namespace !== own.namespace && to !== own.namespace && to !== "*") {
      return waits("NotAllowed", `${label} has no annotation ${MIRROR_TO} for ${own.namespace}`);
    }
    for (const key of keys ?? []) {
      if (!Object.hasOwn(source.data ?? {}, key) && !Object.hasOwn(source.binaryData ?? {}, key)) {
        return waits("KeyMissing", `${label} has no key ${key}`);
      }
    }

    // The answer holds the fields that `references` declares, so all of it is to be copied. JSON leaves out what is undefined.
    const { type, data, binaryData } = source;
    const copy = {
      apiVersion: "v1",
      kind: from.kind,
      metadata: {
        name: own.name,
        namespace: own.namespace,
        // So that Kubernetes deletes the copy with the Mirror.
        ownerReferences: [{ apiVersion: API_VERSION, kind: "Mirror", name: own.name, uid: own.uid, controller: true }],
      },
      type,
      data,
      binaryData,
    };
    const message = `copied from ${label}`;
    writeLine("debug", message);
    // The status is written last, and only if the copy was: it never says more than is true.
    return outcome([apply(copy)], ready(own, "True", "Copied", message));
  },

  // Not called, since `describe` names no finalizer.
  finalize() {
    return { outcome: outcome([]), done: true };
  },

  // Not called, since `describe` declares no watches.
  dependents() {
    return [];
  },
});

// What this plugin reads of a Mirror.
function parse(primary) {
  const { metadata, spec } = JSON.parse(primary.object.json);
  return { own: metadata, from: { namespace: metadata.namespace, ...spec.from }, keys: spec.keys };
}

// The Mirror's status. The host fills in lastTransitionTime.
function ready(own, status, reason, message) {
  const condition = { type: "Ready", status, reason, message, observedGeneration: own.generation };
  return JSON.stringify({ conditions: [condition] });
}

// Fields that are options in the contract may be left out; lists may not.
function outcome(writes, status) {
  return { writes, status, events: [], protect: [], controllers: [], againIfWritten: false };
}
