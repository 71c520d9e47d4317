package finding

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// The parts of SARIF 2.1.0 (an OASIS standard) that WriteSARIF writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool                        `json:"tool"`
		Invocations []sarifInvocation                `json:"invocations"`
		Bases       map[string]sarifArtifactLocation `json:"originalUriBaseIds,omitempty"`
		Results     []sarifResult                    `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name     string      `json:"name"`
		Version  string      `json:"version,omitempty"`
		Semantic string      `json:"semanticVersion,omitempty"`
		Rules    []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Short   sarifMessage `json:"shortDescription"`
		Full    sarifMessage `json:"fullDescription"`
		Help    sarifMessage `json:"help"`
		HelpURI string       `json:"helpUri"`
		Default sarifConfig  `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level Severity `json:"level"`
	}
	sarifInvocation struct {
		CommandLine   string              `json:"commandLine"`
		Started       string              `json:"startTimeUtc"`
		Successful    bool                `json:"executionSuccessful"`
		ExitCode      int                 `json:"exitCode"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string       `json:"level"`
		Message sarifMessage `json:"message"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"` // -1: none
		Level        Severity           `json:"level"`
		Message      sarifMessage       `json:"message"`
		Locations    []sarifLocation    `json:"locations,omitempty"`
		Related      []sarifLocation    `json:"relatedLocations,omitempty"`
		Stacks       []sarifStack       `json:"stacks,omitempty"`
		CodeFlows    []sarifCodeFlow    `json:"codeFlows,omitempty"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Count        int                `json:"occurrenceCount"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
		Properties   map[string]any     `json:"properties,omitempty"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		ID       int            `json:"id,omitempty"`
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
		Message  *sarifMessage  `json:"message,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifactLocation `json:"artifactLocation"`
		Region   *sarifRegion          `json:"region,omitempty"`
	}
	sarifArtifactLocation struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
	sarifStack struct {
		Message sarifMessage `json:"message"`
		Frames  []sarifFrame `json:"frames"`
	}
	sarifFrame struct {
		Location sarifLocation `json:"location"`
		Module   string        `json:"module,omitempty"`
		Thread   uint32        `json:"threadId,omitempty"`
	}
	sarifCodeFlow struct {
		Threads []sarifThreadFlow `json:"threadFlows"`
	}
	sarifThreadFlow struct {
		Locations []sarifStep `json:"locations"`
	}
	sarifStep struct {
		Location   sarifLocation `json:"location"`
		Importance string        `json:"importance"`
	}
)

const (
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	sourceRoot  = "%SRCROOT%" // viewers replace it by the root of the checkout
)

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$`)

// WriteSARIF writes the report as SARIF. Files below dir are written relative to it.
func (r *Report) WriteSARIF(w io.Writer, dir string) error {
	driver := sarifDriver{Name: "ropeway", Version: r.Version, Rules: []sarifRule{}}
	if v := strings.TrimPrefix(r.Version, "v"); semver.MatchString(v) {
		driver.Semantic = v
	}
	index := map[string]int{}
	for i, rule := range Rules {
		index[rule.Name] = i
		driver.Rules = append(driver.Rules, sarifRule{ID: rule.Name, Short: sarifMessage{rule.Catches},
			Full: sarifMessage{sentence(rule.Catches)}, Help: sarifMessage{rule.Advice + " See: " + rule.Explain()},
			HelpURI: rule.Page(), Default: sarifConfig{rule.Severity}})
	}
	run := sarifRun{Tool: sarifTool{driver}, Results: []sarifResult{}}
	if dir != "" {
		root := url.URL{Scheme: "file", Path: strings.TrimSuffix(dir, "/") + "/"}
		run.Bases = map[string]sarifArtifactLocation{sourceRoot: {URI: root.String()}}
	}
	call := sarifInvocation{CommandLine: strings.Join(r.Command, " "),
		Started: r.Started.UTC().Format("2006-01-02T15:04:05.000Z"), Successful: true, ExitCode: r.ExitCode}
	for _, n := range r.Notes {
		call.Notifications = append(call.Notifications, sarifNotification{"note", sarifMessage{n.Text}})
	}
	run.Invocations = []sarifInvocation{call}
	for _, e := range r.Findings {
		at, known := index[e.Rule]
		if !known {
			at = -1
		}
		run.Results = append(run.Results, e.sarif(at, dir))
	}
	return writeJSON(w, sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
}

// sentence returns the description of a rule as a sentence.
func sentence(catches string) string { return strings.ToUpper(catches[:1]) + catches[1:] + "." }

func (e *Entry) sarif(rule int, dir string) sarifResult {
	s := sarifResult{RuleID: e.Rule, RuleIndex: rule, Level: e.Severity, Count: e.Count,
		Message:      sarifMessage{strings.TrimSpace(e.Summary + "\n" + e.Advice)},
		Fingerprints: map[string]string{"ropewayFinding/v1": e.Fingerprint},
		Properties:   map[string]any{"seeds": e.Seeds}}
	if e.Bytes != nil {
		s.Properties["bytes"] = e.Bytes.String()
	}
	if e.Suppressed != "" {
		s.Suppressions = []sarifSuppression{{"external", e.Suppressed}}
	}
	if place, ok := e.Offence.location(dir, ""); ok {
		s.Locations = []sarifLocation{place}
	}
	// The steps in order of time: others come before the offence, the latest first.
	var steps []sarifStep
	for i := len(e.Others) - 1; i >= 0; i-- {
		steps = append(steps, e.Others[i].step(dir, "important")...)
	}
	steps = append(steps, e.Offence.step(dir, "essential")...)
	if len(steps) > 0 {
		s.CodeFlows = []sarifCodeFlow{{[]sarifThreadFlow{{steps}}}}
	}
	s.Stacks = append(s.Stacks, e.Offence.stack(dir, 0)...)
	for i := range e.Others {
		if place, ok := e.Others[i].location(dir, e.Others[i].title()); ok {
			place.ID = i + 1
			s.Related = append(s.Related, place)
		}
		s.Stacks = append(s.Stacks, e.Others[i].stack(dir, i+1)...)
	}
	return s
}

// title returns the role and the call of a site.
func (s *Site) title() string {
	if s.Call == "" {
		return s.happened()
	}
	return s.happened() + ": " + s.Call
}

func (s *Site) location(dir, message string) (sarifLocation, bool) {
	found := s.innermost()
	if found == nil {
		return sarifLocation{}, false
	}
	place := found.location(dir)
	if message != "" {
		place.Message = &sarifMessage{message}
	}
	return place, true
}

func (s *Site) step(dir, importance string) []sarifStep {
	place, ok := s.location(dir, s.title())
	if !ok {
		return nil
	}
	return []sarifStep{{place, importance}}
}

// stack returns one stack or none; number distinguishes stacks of equal sites, which the standard requires to differ.
func (s *Site) stack(dir string, number int) []sarifStack {
	if len(s.Stack) == 0 {
		return nil
	}
	title := s.title()
	if number > 0 {
		title = fmt.Sprintf("%d. %s", number, title)
	}
	out := sarifStack{Message: sarifMessage{title}}
	for _, f := range s.Stack {
		module := ""
		if f.Module != "" {
			module = filepath.Base(f.Module)
		}
		out.Frames = append(out.Frames, sarifFrame{f.location(dir), module, s.Thread})
	}
	return []sarifStack{out}
}

func (f *Frame) location(dir string) (l sarifLocation) {
	if f.Function != "" {
		l.Logical = []sarifLogical{{f.Function, "function"}}
	}
	if f.File == "" {
		return l
	}
	l.Physical = &sarifPhysical{Artifact: artifact(f.File, dir)}
	if f.Line > 0 {
		l.Physical.Region = &sarifRegion{f.Line}
	}
	return l
}

// artifact returns the address of a file, relative if it is below dir.
func artifact(file, dir string) sarifArtifactLocation {
	if rel := Below(dir, file); !filepath.IsAbs(rel) {
		base := sourceRoot
		if dir == "" {
			base = ""
		}
		return sarifArtifactLocation{(&url.URL{Path: filepath.ToSlash(rel)}).String(), base}
	}
	return sarifArtifactLocation{URI: (&url.URL{Scheme: "file", Path: file}).String()}
}
