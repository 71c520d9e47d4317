package main

import (
	"archive/zip"
	"bytes"
	"crypto/md5" //nolint:gosec // dpkg's format
	"embed"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// debianRevision counts packages of the same version; 0 says that Debian has none.
const debianRevision = "0ropeway1"

// The control files of the packages, with what differs between processors left open.
//
//go:embed deb
var control embed.FS

// home is where the toolkit lies in Debian's packages.
const home = "usr/lib/ropeway"

// debian is a package while it is made.
type debian struct {
	name  string
	files tree // from the root of the system
}

// writePackages writes the Debian packages of one processor.
func (r *release) writePackages(p processor, kit tree, oldest string) error {
	docs, err := r.debianDocs()
	if err != nil {
		return err
	}
	metadata, err := r.wheelMetadata(p)
	if err != nil {
		return err
	}
	packages := []debian{{"ropeway", tree{}}, {"libascendcl-ropeway-dev", tree{}}, {"python3-acl-ropeway", tree{}}}
	command, dev, python := packages[0].files, packages[1].files, packages[2].files
	share(p, kit, command, dev, python)
	if err := r.addCommandDocs(kit, command); err != nil {
		return err
	}
	for name, content := range metadata {
		python["usr/lib/python3/dist-packages/"+name] = file{content: content}
	}
	values := map[string]string{"Version": r.version + "-" + debianRevision, "Arch": p.goarch, "Triplet": p.triplet,
		"Glibc": oldest, "Maintainer": maintainer()}
	for _, pkg := range packages {
		pkg.files.add("usr/share/doc/"+pkg.name, docs)
		content, err := r.debianPackage(pkg, values)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg.name, err)
		}
		if err := r.write(fmt.Sprintf("%s_%s_%s.deb", pkg.name, values["Version"], p.goarch), content); err != nil {
			return err
		}
	}
	return nil
}

// maintainer is who answers for the packages.
func maintainer() string {
	return or("MAINTAINER", "The ropeway developers <ropeway@packages.example.org>")
}

// share deals the files of a toolkit out to the three packages.
func share(p processor, kit, command, dev, python tree) {
	const packages, headers = "python/site-packages/", "usr/include/ascendcl-ropeway"
	forBuilds := []string{"lib64/pkgconfig", "lib64/cmake", "share/cmake", "lib64/stub", "devlib", p.vendor + "/devlib"}
	for name, f := range kit {
		f.program = f.program && path.Ext(name) != ".so" // as Debian has it
		switch {
		case strings.HasPrefix(name, packages):
			rest := strings.TrimPrefix(name, packages)
			python["usr/lib/python3/dist-packages/"+rest] = f
			top, _, _ := strings.Cut(rest, "/")
			python[path.Join(home, packages, top)] = file{target: "../../../python3/dist-packages/" + top}
		case strings.HasPrefix(name, "include/"):
			dev[path.Join(headers, strings.TrimPrefix(name, "include/"))] = f
		case strings.HasPrefix(name, "share/man/"): // addCommandDocs
		case name == "lib64/pkgconfig/ascendcl.pc":
			// An alternative leads here from where pkg-config looks, so where that file lies says nothing.
			f.content = bytes.ReplaceAll(f.content,
				[]byte("# Where this file lies says where the rest is: the toolkit may be moved.\n"), nil)
			f.content = bytes.ReplaceAll(f.content, []byte("prefix=${pcfiledir}/../.."), []byte("prefix=/"+home))
			f.content = bytes.ReplaceAll(f.content, []byte("includedir=${prefix}/include"),
				[]byte("includedir=/"+headers))
			dev[path.Join(home, name)] = f
		case path.Base(name) == "include" || slices.ContainsFunc(forBuilds, func(d string) bool {
			return name == d || strings.HasPrefix(name, d+"/")
		}):
			dev[path.Join(home, name)] = f
		default:
			command[path.Join(home, name)] = f
		}
	}
	dev[home+"/include"] = file{target: "../../include/ascendcl-ropeway"}
	dev["usr/lib/"+p.triplet+"/pkgconfig/ropeway.pc"] = file{target: "../../ropeway/lib64/pkgconfig/ropeway.pc"}
	dev["usr/lib/"+p.triplet+"/cmake"] = file{dir: true} // for an alternative
	dev["usr/include/ropeway"] = file{target: "ascendcl-ropeway/ropeway"}
	command["usr/bin/ropeway"] = file{target: "../lib/ropeway/bin/ropeway"}
}

// addCommandDocs adds the manual, completion and the examples.
func (r *release) addCommandDocs(kit, command tree) error {
	for name, f := range kit {
		if page, ok := strings.CutPrefix(name, "share/man/"); ok {
			content, err := zipped(f.content)
			if err != nil {
				return err
			}
			command["usr/share/man/"+page+".gz"] = file{content: content}
		}
	}
	examples, err := read("examples")
	if err != nil {
		return err
	}
	command.add("usr/share/doc/ropeway/examples", examples.below("c", "cpp", "cmake", "python"))
	for shell, place := range map[string]string{
		"bash": "usr/share/bash-completion/completions/ropeway",
		"zsh":  "usr/share/zsh/vendor-completions/_ropeway",
		"fish": "usr/share/fish/vendor_completions.d/ropeway.fish",
	} {
		cmd := exec.Command(or("GO", "go"), "run", "-trimpath", "./cmd/ropeway", "completion", shell)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		command[place] = file{content: out}
	}
	return nil
}

// debianDocs is what every package has in its directory of documentation.
func (r *release) debianDocs() (tree, error) {
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	entry := fmt.Sprintf("ropeway (%s-%s) unstable; urgency=medium\n\n"+
		"  * What is new is in changelog.gz.\n\n -- %s  %s\n",
		r.version, debianRevision, maintainer(), r.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	docs := tree{}
	for name, content := range map[string][]byte{"changelog.gz": changes, "changelog.Debian.gz": []byte(entry)} {
		content, err := zipped(content)
		if err != nil {
			return nil, err
		}
		docs[name] = file{content: content}
	}
	text, err := control.ReadFile("deb/copyright")
	if err != nil {
		return nil, err
	}
	docs["copyright"] = file{content: text}
	return docs, notice(docs, "NOTICE")
}

// wheelMetadata is what the wheel of the processor says about itself, so that Python finds the package by its name,
// and pytest the plugin.
func (r *release) wheelMetadata(p processor) (map[string][]byte, error) {
	cpu, _, _ := strings.Cut(p.triplet, "-")
	found, err := filepath.Glob(filepath.Join(r.out, "ropeway-*_"+cpu+".whl"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("there is not one wheel for %s: %v %w", cpu, found, err)
	}
	z, err := zip.OpenReader(found[0])
	if err != nil {
		return nil, err
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		if path.Base(f.Name) != "METADATA" && path.Base(f.Name) != "entry_points.txt" {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			return nil, err
		}
		files[f.Name] = content
	}
	return files, nil
}

// debianPackage is the bytes of a package: an archive of a version, the control files and the files.
func (r *release) debianPackage(pkg debian, values map[string]string) ([]byte, error) {
	entries, err := control.ReadDir("deb/" + pkg.name)
	if err != nil {
		return nil, err
	}
	const overrides = "lintian-overrides"
	if text, err := control.ReadFile("deb/" + pkg.name + "/" + overrides); err == nil {
		pkg.files["usr/share/lintian/overrides/"+pkg.name] = file{content: text}
	}
	size := 0
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(pkg.files)) {
		f := pkg.files[name]
		size += (len(f.content) + 1023) / 1024
		if f.target == "" && !f.dir {
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.content), name) //nolint:gosec // dpkg's format
		}
	}
	values = maps.Clone(values)
	values["Size"] = fmt.Sprint(size)
	files := tree{"md5sums": {content: []byte(sums.String())}}
	for _, e := range entries {
		if e.Name() == overrides {
			continue
		}
		t, err := template.ParseFS(control, "deb/"+pkg.name+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Option("missingkey=error").Execute(&b, values); err != nil {
			return nil, err
		}
		files[e.Name()] = file{content: b.Bytes(), program: strings.HasPrefix(b.String(), "#!")}
	}
	controlTar, err := files.pack(".", r.date)
	if err != nil {
		return nil, err
	}
	dataTar, err := pkg.files.pack(".", r.date)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []struct {
		name    string
		content []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", controlTar}, {"data.tar.gz", dataTar}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, r.date.Unix(), 0, 0, "100644",
			len(member.content))
		b.Write(member.content)
		if len(member.content)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes(), nil
}
