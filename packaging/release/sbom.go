package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"ropeway/packaging/licence"
)

// bundled is something that others wrote and that is compiled in.
type bundled struct {
	name, version string
	url           string // as package managers write it (purl)
	licence       string // its SPDX identifier
}

// bundledIn adds the Go modules that the programs of a toolkit say they were built from, and Go itself.
func (r *release) bundledIn(kit string) error {
	for _, name := range []string{"bin/ropeway", "lib64/libropeway_core.so"} {
		info, err := buildinfo.ReadFile(filepath.Join(kit, name))
		if err != nil {
			return err
		}
		version := strings.TrimPrefix(info.GoVersion, "go")
		r.addBundled(bundled{"go", version, "pkg:golang/std@" + version, "BSD-3-Clause"})
		for _, m := range info.Deps {
			licence, err := moduleLicence(m.Path, m.Version)
			if err != nil {
				return err
			}
			r.addBundled(bundled{m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version, licence})
		}
	}
	return nil
}

func (r *release) addBundled(b bundled) {
	if !slices.Contains(r.bundled, b) {
		r.bundled = append(r.bundled, b)
	}
}

// moduleLicence reads the licence of a module from where the go command has it.
func moduleLicence(module, version string) (string, error) {
	out, err := exec.Command(or("GO", "go"), "mod", "download", "-json", module+"@"+version).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s@%s: %w", module, version, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", err
	}
	files, err := licence.Files(found.Dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", module, err)
	}
	id, err := licence.Identify(files)
	if err != nil {
		return "", fmt.Errorf("%s: %w", module, err)
	}
	return id, nil
}

// bundledScripts are the JavaScript packages in the report page.
func bundledScripts(lock []byte) (all []bundled, err error) {
	scripts, err := licence.Scripts(lock)
	for _, s := range scripts {
		url := "pkg:npm/" + strings.Replace(s.Name, "@", "%40", 1) + "@" + s.Version
		all = append(all, bundled{s.Name, s.Version, url, s.License})
	}
	return all, err
}

// The parts of an SPDX document that are used here.
type (
	spdxDocument struct {
		Version       string         `json:"spdxVersion"`
		Licence       string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      spdxCreation   `json:"creationInfo"`
		Packages      []spdxPackage  `json:"packages"`
		Files         []spdxFile     `json:"files"`
		Relationships []spdxRelation `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"name"`
		Version   string         `json:"versionInfo"`
		Download  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Concluded string         `json:"licenseConcluded"`
		Declared  string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Source    string         `json:"sourceInfo,omitempty"`
		External  []spdxExternal `json:"externalRefs,omitempty"`
	}
	spdxExternal struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxFile struct {
		ID        string         `json:"SPDXID"`
		Name      string         `json:"fileName"`
		Sums      []spdxChecksum `json:"checksums"`
		Concluded string         `json:"licenseConcluded"`
		Copyright string         `json:"copyrightText"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRelation struct {
		Element string `json:"spdxElementId"`
		Related string `json:"relatedSpdxElement"`
		Type    string `json:"relationshipType"`
	}
)

const noAssertion = "NOASSERTION"

// writeSBOM writes what is in the release, as SPDX 2.3.
func (r *release) writeSBOM() error {
	lock, err := os.ReadFile(licence.Lock)
	if err != nil {
		return err
	}
	scripts, err := bundledScripts(lock)
	if err != nil {
		return err
	}
	for _, s := range scripts {
		r.addBundled(s)
	}
	slices.SortFunc(r.bundled, func(a, b bundled) int { return strings.Compare(a.url, b.url) })
	var files []spdxFile
	for _, name := range slices.Sorted(slices.Values(r.made)) {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		files = append(files, spdxFile{spdxID("File", name), "./" + name,
			[]spdxChecksum{{"SHA256", fmt.Sprintf("%x", sha256.Sum256(content))}}, "Apache-2.0", noAssertion})
	}
	content, err := sbom(r.version, r.commit, r.date, r.bundled, files)
	if err != nil {
		return err
	}
	return r.write("ropeway-"+r.version+".spdx.json", content)
}

// sbom is the document. Its name in the world is made from its content.
func sbom(version, commit string, date time.Time, all []bundled, files []spdxFile) ([]byte, error) {
	const itself = "SPDXRef-ropeway"
	d := spdxDocument{Version: "SPDX-2.3", Licence: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "ropeway-" + version,
		Creation: spdxCreation{date.Format(time.RFC3339), []string{"Tool: ropeway-packaging-release"}}, Files: files}
	source := ""
	if commit != "" {
		source = "built from commit " + commit
	}
	d.Packages = []spdxPackage{{ID: itself, Name: "ropeway", Version: version, Download: noAssertion,
		Concluded: "Apache-2.0",
		Declared:  "Apache-2.0", Copyright: noAssertion, Source: source}}
	d.Relationships = []spdxRelation{{d.ID, itself, "DESCRIBES"}}
	for _, b := range all {
		id := spdxID("Package", b.url)
		d.Packages = append(d.Packages, spdxPackage{ID: id, Name: b.name, Version: b.version, Download: noAssertion,
			Concluded: noAssertion, Declared: b.licence, Copyright: noAssertion,
			External: []spdxExternal{{"PACKAGE-MANAGER", "purl", b.url}}})
		d.Relationships = append(d.Relationships, spdxRelation{itself, id, "CONTAINS"})
	}
	for _, f := range files {
		d.Relationships = append(d.Relationships, spdxRelation{f.ID, itself, "GENERATED_FROM"})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, err
	}
	d.Namespace = fmt.Sprintf("https://spdx.org/spdxdocs/ropeway-%s-%.16x", version, sha256.Sum256(b.Bytes()))
	b.Reset()
	err := e.Encode(d)
	return b.Bytes(), err
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdxID is a name as SPDX allows it.
func spdxID(kind, name string) string {
	return "SPDXRef-" + kind + "-" + notInID.ReplaceAllString(strings.TrimPrefix(name, "pkg:"), "-")
}
