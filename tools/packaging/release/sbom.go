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

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"ropeway/tools/packaging/licence"
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
		version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), "-X:") // settings of the build follow
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
	var files []*spdx.File
	for _, name := range slices.Sorted(slices.Values(r.made)) {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		files = append(files, &spdx.File{FileSPDXIdentifier: spdxID("File", name), FileName: "./" + name,
			Checksums: []common.Checksum{{Algorithm: common.SHA256,
				Value: fmt.Sprintf("%x", sha256.Sum256(content))}},
			LicenseConcluded: "Apache-2.0", FileCopyrightText: noAssertion})
	}
	content, err := sbom(r.version, r.commit, r.date, r.bundled, files)
	if err != nil {
		return err
	}
	return r.write("ropeway-"+r.version+".spdx.json", content)
}

// sbom returns the document. Its namespace is made from its content.
func sbom(version, commit string, date time.Time, all []bundled, files []*spdx.File) ([]byte, error) {
	d := spdx.Document{SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "ropeway-" + version, Files: files, CreationInfo: &spdx.CreationInfo{
			Created:  date.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "ropeway-packaging-release"}}}}
	relate := func(a, b common.ElementID, how string) {
		d.Relationships = append(d.Relationships, &spdx.Relationship{RefA: common.MakeDocElementID("", string(a)),
			RefB: common.MakeDocElementID("", string(b)), Relationship: how})
	}
	const itself = "ropeway"
	d.Packages = []*spdx.Package{{PackageSPDXIdentifier: itself, PackageName: "ropeway", PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: "Apache-2.0",
		PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: noAssertion,
		PackageSourceInfo: "built from commit " + commit}}
	relate(d.SPDXIdentifier, itself, common.TypeRelationshipDescribe)
	for _, b := range all {
		id := spdxID("Package", b.url)
		d.Packages = append(d.Packages, &spdx.Package{PackageSPDXIdentifier: id, PackageName: b.name,
			PackageVersion: b.version, PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion,
			PackageLicenseDeclared: b.licence, PackageCopyrightText: noAssertion,
			PackageExternalReferences: []*spdx.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: b.url}}})
		relate(itself, id, common.TypeRelationshipContains)
	}
	for _, f := range files {
		relate(f.FileSPDXIdentifier, itself, common.TypeRelationshipGeneratedFrom)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b.Bytes())
	d.DocumentNamespace = fmt.Sprintf("https://spdx.org/spdxdocs/ropeway-%s-%.16x", version, sum)
	b.Reset()
	err := e.Encode(d)
	return b.Bytes(), err
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdxID is a name as SPDX allows it.
func spdxID(kind, name string) common.ElementID {
	return common.ElementID(kind + "-" + notInID.ReplaceAllString(strings.TrimPrefix(name, "pkg:"), "-"))
}
