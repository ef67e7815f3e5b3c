// Helpers that any plugin in JavaScript can copy: they make the contract's records with the usual choices.

// Asks for verbs on a kind. The group is empty for the core group.
export function may(verbs, group, kind, reason) {
  return { tag: "objects", val: { group, kind, verbs, reason } };
}

// Asks for one object in the primary's cluster. The plugin runs even if that fails, so that it can say so.
export function named(id, apiVersion, kind, namespace, name, paths) {
  const object = { cluster: { tag: "primary-cluster" }, kind: { apiVersion, kind }, namespace, name };
  return { id, target: { tag: "named", val: { object, fields: { tag: "paths", val: paths } } }, tolerate: true };
}

// What the query with this id found.
export function find(answers, id) {
  return answers.find((answer) => answer.id === id).finding;
}

// Creates or updates an object in the primary's cluster, without taking fields over from others.
export function apply(object) {
  const cluster = { tag: "primary-cluster" };
  return { tag: "apply", val: { cluster, object: JSON.stringify(object), mode: { tag: "upsert" }, force: false } };
}

// The write of the last run that failed, if one did. The status is sent again by itself.
export function failedWrite(primary) {
  const failed = primary.lastWrites.find(({ action, state }) => action !== "status" && state.tag === "failed");
  return failed?.state.val;
}

// Makes a failure of each exception. The generated code takes whatever is thrown for a failure record, and would end the run
// with a complaint about the fields that an Error has not.
export function withFailures(functions) {
  const wrap = (run) => (...given) => {
    try {
      return run(...given);
    } catch (error) {
      throw error instanceof Error ? { reason: "Exception", message: `${error}`, permanent: false } : error;
    }
  };
  return Object.fromEntries(Object.entries(functions).map(([name, run]) => [name, wrap(run)]));
}
