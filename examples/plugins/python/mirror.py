"""Keeps a copy of a ConfigMap's or Secret's data under the name of a Mirror.

A plugin is three pure functions: what it is, what a primary depends on, and what should be true. It never reads and never
writes by itself. The package wit_world is generated from the contract.
"""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import log
from wit_world.imports.types import (
    Description, Failure, Finalization, Finding_Failed, Finding_Found, LabelSelector, ObjectKind, PrimaryKind,
    ReferenceSet, Verbs,
)

from patchbay import apply, failed_write, find, may, named, outcome

API_VERSION = "examples.patchbay.dev/v1alpha1"
# The sources that other namespaces may read name them here.
MIRROR_TO = "examples.patchbay.dev/mirror-to"


class Mirror:
    """What this plugin reads of a Mirror."""

    def __init__(self, primary):
        mirror = json.loads(primary.object.json)
        self.name = mirror["metadata"]["name"]
        self.namespace = mirror["metadata"]["namespace"]
        self.uid = mirror["metadata"]["uid"]
        self.generation = mirror["metadata"]["generation"]
        self.kind = mirror["spec"]["from"]["kind"]
        self.from_name = mirror["spec"]["from"]["name"]
        self.from_namespace = mirror["spec"]["from"].get("namespace", self.namespace)
        self.keys = mirror["spec"].get("keys")

    def ready(self, status, reason, message):
        """The Mirror's status. The host fills in lastTransitionTime."""
        return json.dumps({"conditions": [{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "observedGeneration": self.generation,
        }]})

    def waits(self, reason, message):
        """Nothing to do for now. The Mirror runs again as soon as one of its queries finds something else."""
        return outcome(status=self.ready("False", reason, message))


class Reconciler(exports.Reconciler):
    def describe(self):
        """Called once, when the plugin is loaded. What it asks for here, an administrator grants."""
        own = LabelSelector([("examples.patchbay.dev/language", "python")], [])
        return Description(
            name="mirror-python",
            version="0.1.0",
            primaries=[PrimaryKind(ObjectKind(API_VERSION, "Mirror"), own)],
            finalizer=None,
            watches=[],
            requests=[
                may(Verbs.READ | Verbs.APPLY, "", "ConfigMap", "copies ConfigMaps"),
                may(Verbs.READ | Verbs.APPLY, "", "Secret", "copies Secrets"),
            ],
            config_schema=None,
        )

    def references(self, primary, answers):
        """What the Mirror depends on. A change of it, and of nothing else, makes the Mirror run again."""
        mirror = Mirror(primary)
        data = ["data", "binaryData"]
        if mirror.keys is not None:
            data = [f"{field}['{key}']" for key in mirror.keys for field in data]
        fields = ["type", f"metadata.annotations['{MIRROR_TO}']"] + data
        queries = [
            named("source", "v1", mirror.kind, mirror.from_namespace, mirror.from_name, fields),
            # Nobody reads this answer. It is asked for so that the Mirror runs when somebody deletes or edits the copy.
            named("copy", "v1", mirror.kind, mirror.namespace, mirror.name, data),
        ]
        return ReferenceSet(queries, join_keys=[], complete=True)

    def reconcile(self, primary, answers):
        """What should be true. The host compares it with what is there, and writes the difference."""
        mirror = Mirror(primary)
        own = mirror.namespace
        label = f"{mirror.kind} {mirror.from_namespace}/{mirror.from_name}"

        # A failure is tried again, less and less often. Its status is written all the same.
        if failed := failed_write(primary):
            status = mirror.ready("False", "WriteFailed", failed.message)
            raise Err(Failure("WriteFailed", failed.message, permanent=False, status=status))
        if (mirror.from_namespace, mirror.from_name) == (own, mirror.name):
            return mirror.waits("SourceIsCopy", f"{label} would be its own copy")
        finding = find(answers, "source")
        if isinstance(finding, Finding_Failed):
            return mirror.waits("SourceUnknown", finding.value.message)
        if not isinstance(finding, Finding_Found):
            return mirror.waits("SourceMissing", f"{label} does not exist")
        source = json.loads(finding.value.json)
        # The host may read all namespaces, so it is up to the plugin that nobody reads a foreign Secret through it.
        to = source.get("metadata", {}).get("annotations", {}).get(MIRROR_TO)
        if mirror.from_namespace != own and to not in (own, "*"):
            return mirror.waits("NotAllowed", f"{label} has no annotation {MIRROR_TO} for {own}")
        for key in mirror.keys or []:
            if key not in source.get("data", {}) and key not in source.get("binaryData", {}):
                return mirror.waits("KeyMissing", f"{label} has no key {key}")

        copy = {
            "apiVersion": "v1",
            "kind": mirror.kind,
            "metadata": {
                "name": mirror.name,
                "namespace": own,
                # So that Kubernetes deletes the copy with the Mirror.
                "ownerReferences": [{
                    "apiVersion": API_VERSION, "kind": "Mirror", "name": mirror.name, "uid": mirror.uid,
                    "controller": True,
                }],
            },
        }
        # The answer holds the fields that `references` declares, so all of it is to be copied.
        copy |= {field: source[field] for field in ("type", "data", "binaryData") if field in source}
        message = f"copied from {label}"
        log.write_line(log.Level.DEBUG, message)
        # The status is written last, and only if the copy was: it never says more than is true.
        return outcome(apply(copy), status=mirror.ready("True", "Copied", message))

    def finalize(self, primary, answers):
        """Not called, since `describe` names no finalizer."""
        return Finalization(outcome(), done=True)

    def dependents(self, watch_id, change):
        """Not called, since `describe` declares no watches."""
        return []
