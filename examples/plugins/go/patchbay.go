package export_patchbay_plugin_reconciler

// Helpers that any plugin in Go can copy: they make the contract's records with the usual choices.

import (
	"encoding/json"
	"maps"

	. "go.bytecodealliance.org/pkg/wit/types"
	. "wit_component/patchbay_plugin_types"
)

// may asks for verbs on a kind. The group is empty for the core group.
func may(verbs Verbs, group, kind, reason string) Request {
	return MakeRequestObjects(ObjectPermission{Group: group, Kind: kind, Verbs: verbs, Reason: reason})
}

// named asks for one object in the primary's cluster. The plugin runs even if that fails, so that it can say so.
func named(id, apiVersion, kind, namespace, name string, fields []string) Query {
	return Query{
		Id:       id,
		Tolerate: true,
		Target: MakeQueryTargetNamed(NamedQuery{
			Object: ObjectReference{
				Cluster:   MakeClusterPrimaryCluster(),
				Kind:      ObjectKind{ApiVersion: apiVersion, Kind: kind},
				Namespace: Some(namespace),
				Name:      name,
			},
			Fields: MakeFieldsPaths(fields),
		}),
	}
}

// find gives what the query with this id found.
func find(answers []Answer, id string) Finding {
	for _, answer := range answers {
		if answer.Id == id {
			return answer.Finding
		}
	}
	return MakeFindingMissing()
}

// apply creates or updates an object, given in parts, in the primary's cluster. The zero value of an ApplyMode would be
// to create only.
func apply(parts ...map[string]any) Write {
	object := map[string]any{}
	for _, part := range parts {
		maps.Copy(object, part)
	}
	return MakeWriteApply(Apply{
		Cluster: MakeClusterPrimaryCluster(),
		Object:  toJSON(object),
		Mode:    MakeApplyModeUpsert(),
	})
}

// failedWrite gives the write of the last run that failed, if one did. The status is sent again by itself.
func failedWrite(primary Primary) *WriteFailure {
	for _, write := range primary.LastWrites {
		if write.Action != WriteActionStatus && write.State.Tag() == WriteStateFailed {
			failed := write.State.Failed()
			return &failed
		}
	}
	return nil
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // Maps, lists and texts always have a JSON text.
	}
	return string(text)
}
