// Keeps a copy of a ConfigMap's or Secret's data under the name of a Mirror.
//
// A plugin is three pure functions: what it is, what a primary depends on, and what should be true. It never reads and never
// writes by itself. The package's name is that of the exported interface; all that it imports as wit_component/… is generated.
package export_patchbay_plugin_reconciler

import (
	"encoding/json"
	"fmt"

	. "go.bytecodealliance.org/pkg/wit/types"
	log "wit_component/patchbay_plugin_log"
	. "wit_component/patchbay_plugin_types"
)

const (
	apiVersion = "examples.patchbay.dev/v1alpha1"
	// The sources that other namespaces may read name them here.
	mirrorTo = "examples.patchbay.dev/mirror-to"
)

// What this plugin reads of a Mirror.
type mirror struct {
	Metadata metadata
	Spec     struct {
		From struct{ Kind, Name, Namespace string }
		Keys []string
	}
}

type metadata struct {
	Name, Namespace, UID string
	Generation           int64
	Annotations          map[string]string
}

// A source, and a copy. Values stay as they are: texts, whether of a ConfigMap or in base64 of a Secret.
type object struct {
	Metadata         metadata
	Type             string
	Data, BinaryData map[string]string
}

// Describe is called once, when the plugin is loaded. What it asks for here, an administrator grants.
func Describe() Description {
	own := LabelSelector{MatchLabels: []Tuple2[string, string]{{F0: "examples.patchbay.dev/language", F1: "go"}}}
	return Description{
		Name:      "mirror-go",
		Version:   "0.1.0",
		Primaries: []PrimaryKind{{Kind: ObjectKind{ApiVersion: apiVersion, Kind: "Mirror"}, Selector: own}},
		Requests: []Request{
			may(VerbsRead|VerbsApply, "", "ConfigMap", "copies ConfigMaps"),
			may(VerbsRead|VerbsApply, "", "Secret", "copies Secrets"),
		},
	}
}

// References tells what the Mirror depends on. A change of it, and of nothing else, makes the Mirror run again.
func References(primary Primary, _ []Answer) Result[ReferenceSet, Failure] {
	m, err := parse(primary)
	if err != nil {
		return Err[ReferenceSet](*err)
	}
	data := []string{"data", "binaryData"}
	if m.Spec.Keys != nil {
		data = nil
		for _, key := range m.Spec.Keys {
			data = append(data, fmt.Sprintf("data['%s']", key), fmt.Sprintf("binaryData['%s']", key))
		}
	}
	fields := append([]string{"type", "metadata.annotations['" + mirrorTo + "']"}, data...)
	from, own := m.Spec.From, m.Metadata
	return Ok[ReferenceSet, Failure](ReferenceSet{
		Queries: []Query{
			named("source", "v1", from.Kind, from.Namespace, from.Name, fields),
			// Nobody reads this answer. It is asked for so that the Mirror runs when somebody deletes or edits the copy.
			named("copy", "v1", from.Kind, own.Namespace, own.Name, data),
		},
		Complete: true,
	})
}

// Reconcile tells what should be true. The host compares it with what is there, and writes the difference.
func Reconcile(primary Primary, answers []Answer) Result[Outcome, Failure] {
	m, err := parse(primary)
	if err != nil {
		return Err[Outcome](*err)
	}
	from, own := m.Spec.From, m.Metadata
	label := fmt.Sprintf("%s %s/%s", from.Kind, from.Namespace, from.Name)

	// A failure is tried again, less and less often. Its status is written all the same.
	if failed := failedWrite(primary); failed != nil {
		status := Some(own.ready("False", "WriteFailed", failed.Message))
		return Err[Outcome](Failure{Reason: "WriteFailed", Message: failed.Message, Status: status})
	}
	// These only wait: the Mirror runs again as soon as one of its queries finds something else.
	waits := func(reason, message string) Result[Outcome, Failure] {
		return Ok[Outcome, Failure](Outcome{Status: Some(own.ready("False", reason, message))})
	}
	if from.Namespace == own.Namespace && from.Name == own.Name {
		return waits("SourceIsCopy", label+" would be its own copy")
	}
	finding := find(answers, "source")
	switch finding.Tag() {
	case FindingFailed:
		return waits("SourceUnknown", finding.Failed().Message)
	case FindingMissing:
		return waits("SourceMissing", label+" does not exist")
	}
	var source object
	if err := json.Unmarshal([]byte(finding.Found().Json), &source); err != nil {
		return Err[Outcome](Failure{Reason: "InvalidObject", Message: err.Error(), Permanent: true})
	}
	// The host may read all namespaces, so it is up to the plugin that nobody reads a foreign Secret through it.
	to := source.Metadata.Annotations[mirrorTo]
	if from.Namespace != own.Namespace && to != own.Namespace && to != "*" {
		return waits("NotAllowed", fmt.Sprintf("%s has no annotation %s for %s", label, mirrorTo, own.Namespace))
	}
	for _, key := range m.Spec.Keys {
		_, isText := source.Data[key]
		_, isBinary := source.BinaryData[key]
		if !isText && !isBinary {
			return waits("KeyMissing", label+" has no key "+key)
		}
	}

	message := "copied from " + label
	log.WriteLine(log.LevelDebug, message)
	// The status is written last, and only if the copy was: it never says more than is true.
	return Ok[Outcome, Failure](Outcome{
		Writes: []Write{apply(map[string]any{
			"apiVersion": "v1",
			"kind":       from.Kind,
			"metadata": map[string]any{
				"name":      own.Name,
				"namespace": own.Namespace,
				// So that Kubernetes deletes the copy with the Mirror.
				"ownerReferences": []any{map[string]any{
					"apiVersion": apiVersion, "kind": "Mirror", "name": own.Name, "uid": own.UID, "controller": true,
				}},
			},
		}, source.content())},
		Status: Some(own.ready("True", "Copied", message)),
	})
}

// Finalize is not called, since Describe names no finalizer.
func Finalize(Primary, []Answer) Result[Finalization, Failure] {
	return Ok[Finalization, Failure](Finalization{Done: true})
}

// Dependents is not called, since Describe declares no watches.
func Dependents(string, Change) Result[[]Dependent, Failure] {
	return Ok[[]Dependent, Failure](nil)
}

func parse(primary Primary) (*mirror, *Failure) {
	m := &mirror{}
	if err := json.Unmarshal([]byte(primary.Object.Json), m); err != nil {
		return nil, &Failure{Reason: "InvalidObject", Message: err.Error(), Permanent: true}
	}
	if m.Spec.From.Namespace == "" {
		m.Spec.From.Namespace = m.Metadata.Namespace
	}
	return m, nil
}

// What is copied. The answer holds the fields that References declares, so all of it is.
func (o object) content() map[string]any {
	content := map[string]any{}
	if o.Type != "" {
		content["type"] = o.Type
	}
	if o.Data != nil {
		content["data"] = o.Data
	}
	if o.BinaryData != nil {
		content["binaryData"] = o.BinaryData
	}
	return content
}

// The Mirror's status. The host fills in lastTransitionTime.
func (m metadata) ready(status, reason, message string) string {
	return toJSON(map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": m.Generation,
	}}})
}
