package finding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// object lists the properties that the standard requires and allows in an object, by the objects they hold. "" is a
// plain value, "[]" before a name a list of these, "{}" an object with any names.
type object struct{ must, may map[string]string }

// standard is the part of SARIF 2.1.0 that reports use. Reports must not have other properties.
var standard = map[string]object{
	"sarifLog": {must: map[string]string{"version": "", "runs": "[]run"},
		may: map[string]string{"$schema": ""}},
	"run": {must: map[string]string{"tool": "tool"},
		may: map[string]string{"invocations": "[]invocation", "originalUriBaseIds": "{}artifactLocation",
			"results": "[]result"}},
	"tool": {must: map[string]string{"driver": "toolComponent"}},
	"toolComponent": {must: map[string]string{"name": ""}, may: map[string]string{"version": "",
		"semanticVersion": "", "rules": "[]reportingDescriptor"}},
	"reportingDescriptor": {must: map[string]string{"id": ""}, may: map[string]string{"shortDescription": "message",
		"fullDescription": "message", "help": "message", "helpUri": "", "defaultConfiguration": "configuration"}},
	"configuration": {may: map[string]string{"level": ""}},
	"invocation": {must: map[string]string{"executionSuccessful": ""}, may: map[string]string{"commandLine": "",
		"startTimeUtc": "", "exitCode": "", "toolExecutionNotifications": "[]notification"}},
	"notification": {must: map[string]string{"message": "message"}, may: map[string]string{"level": ""}},
	"result": {must: map[string]string{"message": "message"}, may: map[string]string{"ruleId": "", "ruleIndex": "",
		"level": "", "locations": "[]location", "relatedLocations": "[]location",
		"stacks": "[]stack", "codeFlows": "[]codeFlow", "partialFingerprints": "{}", "occurrenceCount": "",
		"suppressions": "[]suppression", "properties": "{}"}},
	"suppression": {must: map[string]string{"kind": ""}, may: map[string]string{"justification": ""}},
	"message":     {must: map[string]string{"text": ""}},
	"location": {may: map[string]string{"id": "", "physicalLocation": "physicalLocation",
		"logicalLocations": "[]logicalLocation", "message": "message"}},
	"physicalLocation": {must: map[string]string{"artifactLocation": "artifactLocation"},
		may: map[string]string{"region": "region"}},
	"artifactLocation": {must: map[string]string{"uri": ""}, may: map[string]string{"uriBaseId": ""}},
	"region":           {must: map[string]string{"startLine": ""}},
	"logicalLocation":  {may: map[string]string{"fullyQualifiedName": "", "kind": ""}},
	"stack": {must: map[string]string{"frames": "[]stackFrame"},
		may: map[string]string{"message": "message"}},
	"stackFrame":         {may: map[string]string{"location": "location", "module": "", "threadId": ""}},
	"codeFlow":           {must: map[string]string{"threadFlows": "[]threadFlow"}},
	"threadFlow":         {must: map[string]string{"locations": "[]threadFlowLocation"}},
	"threadFlowLocation": {may: map[string]string{"location": "location", "importance": ""}},
}

// values that the standard limits.
var limited = map[string][]any{
	"sarifLog.version":              {"2.1.0"},
	"configuration.level":           {"none", "note", "warning", "error"},
	"notification.level":            {"none", "note", "warning", "error"},
	"result.level":                  {"none", "note", "warning", "error"},
	"suppression.kind":              {"inSource", "external"},
	"threadFlowLocation.importance": {"important", "essential", "unimportant"},
}

// different has the lists whose items must differ, notEmpty those that need an item.
var (
	different = []string{"toolComponent.rules", "result.relatedLocations", "result.stacks", "result.suppressions",
		"invocation.toolExecutionNotifications"}
	notEmpty = []string{"codeFlow.threadFlows", "threadFlow.locations"}
)

// conforms checks that a value is an object of a kind in the standard.
func conforms(t *testing.T, path, kind string, v any) {
	t.Helper()
	fields, ok := v.(map[string]any)
	if !ok {
		t.Errorf("%s is no object", path)
		return
	}
	for name := range standard[kind].must {
		if _, there := fields[name]; !there {
			t.Errorf("%s: a %s must have %s", path, kind, name)
		}
	}
	for name, value := range fields {
		of, known := standard[kind].must[name]
		if !known {
			of, known = standard[kind].may[name]
		}
		at, qualified := path+"."+name, kind+"."+name
		if !known {
			t.Errorf("%s: a %s has no such thing", at, kind)
			continue
		}
		if allowed := limited[qualified]; allowed != nil && !slices.Contains(allowed, value) {
			t.Errorf("%s is %v", at, value)
		}
		switch {
		case strings.HasPrefix(of, "[]"):
			list, _ := value.([]any)
			if list == nil || len(list) == 0 && slices.Contains(notEmpty, qualified) {
				t.Errorf("%s: empty", at)
			}
			for i, item := range list {
				conforms(t, fmt.Sprintf("%s[%d]", at, i), of[2:], item)
				for _, other := range list[:i] {
					if slices.Contains(different, qualified) && reflect.DeepEqual(item, other) {
						t.Errorf("%s[%d] is there twice", at, i)
					}
				}
			}
		case of == "{}":
		case strings.HasPrefix(of, "{}"):
			for name, item := range value.(map[string]any) {
				conforms(t, at+"."+name, of[2:], item)
			}
		case of != "":
			conforms(t, at, of, value)
		default:
			plainValue(t, at, qualified, value)
		}
	}
}

func plainValue(t *testing.T, at, name string, value any) {
	t.Helper()
	switch value := value.(type) {
	case string:
		if value == "" {
			t.Errorf("%s is empty", at)
		}
		if name == "artifactLocation.uri" {
			if _, err := url.Parse(value); err != nil || strings.ContainsAny(value, " <>\\\"") {
				t.Errorf("%s: %q is no URI", at, value)
			}
		}
	case float64:
		if least := map[string]float64{"region.startLine": 1, "result.occurrenceCount": 1,
			"result.ruleIndex": -1}[name]; value < least {
			t.Errorf("%s is %v", at, value)
		}
	case bool:
	default:
		t.Errorf("%s is %T", at, value)
	}
}

func sarif(t *testing.T, r *Report, dir string) (text string, log map[string]any) {
	t.Helper()
	var b bytes.Buffer
	testenv.OK(t, r.WriteSARIF(&b, dir))
	testenv.OK(t, json.Unmarshal(b.Bytes(), &log))
	conforms(t, "log", "sarifLog", log)
	return b.String(), log
}

// TestSARIF proves that reports conform to the standard, and that their references are valid.
func TestSARIF(t *testing.T) {
	text, log := sarif(t, sample(), "/src/app")
	golden(t, "report.sarif", text)
	run := log["runs"].([]any)[0].(map[string]any)
	rules := run["tool"].(map[string]any)["driver"].(map[string]any)["rules"].([]any)
	for i, result := range run["results"].([]any) {
		r := result.(map[string]any)
		if rule := rules[int(r["ruleIndex"].(float64))].(map[string]any); rule["id"] != r["ruleId"] {
			t.Errorf("result %d: rule %v is not at its index", i, r["ruleId"])
		}
	}
	var typed sarifLog
	testenv.OK(t, json.Unmarshal([]byte(text), &typed))
	for _, tt := range []struct{ got, want string }{
		{typed.Runs[0].Bases[sourceRoot].URI, "file:///src/app/"},
		{typed.Runs[0].Tool.Driver.Semantic, "1.2.3"},
		{typed.Runs[0].Results[0].Locations[0].Physical.Artifact.URI, "ring.h"},
		{typed.Runs[0].Results[0].Related[0].Physical.Artifact.URI, "load%20file.cc"},
		{typed.Runs[0].Results[0].Related[0].Physical.Artifact.Base, sourceRoot},
		{typed.Runs[0].Results[1].Locations[0].Physical.Artifact.URI, "file:///usr/lib/python3/model%20%3Ca&b%3E.py"},
		{typed.Runs[0].Results[1].Locations[0].Physical.Artifact.Base, ""},
		{typed.Runs[0].Results[2].Suppressions[0].Justification, "we know"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
	var order []string
	for _, step := range typed.Runs[0].Results[0].CodeFlows[0].Threads[0].Locations {
		order = append(order, strings.Split(step.Location.Message.Text, ":")[0])
	}
	if want := []string{"allocated", "submitted", "read"}; !slices.Equal(order, want) {
		t.Errorf("the flow is %v", order)
	}
}

// TestSARIFOfLittle proves that empty reports, and findings with few fields, are valid too.
func TestSARIFOfLittle(t *testing.T) {
	r := &Report{Version: "development", Command: []string{"x"}, Findings: []*Entry{}}
	sarif(t, r, "")
	var fold Fold
	same := Site{Role: "submitted", Stack: []Frame{{Function: "f"}}}
	fold.Add(&Finding{Rule: "newer", Summary: "s", Offence: same, Others: []Site{same, same}}, 1)
	fold.Add(&Finding{Rule: "leak", Offence: Site{Role: "ended", Stack: []Frame{{Address: 1, Module: "x.so"},
		{File: "rel/a:b.c"}}}}, 1)
	r.Findings = fold.Entries
	text, _ := sarif(t, r, "")
	if !strings.Contains(text, `"uri": "rel/a:b.c"`) || strings.Contains(text, sourceRoot) {
		t.Error(text)
	}
}
