package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// home is where the toolkit lies in packages.
const home = "usr/lib/ropeway"

// writePackages writes the Debian packages and the RPM of one processor.
func (r *release) writePackages(p processor, kit tree, oldest string) error {
	metadata, err := r.wheelMetadata(p)
	if err != nil {
		return err
	}
	docs, err := r.docs(kit)
	if err != nil {
		return err
	}
	command, dev, python, all := maps.Clone(docs), tree{}, tree{}, docs
	share(p, kit, command, dev, python)
	for name, content := range metadata {
		python["usr/lib/python3/dist-packages/"+name] = file{content: content}
	}
	for name, files := range map[string]tree{"ropeway": command, "libascendcl-ropeway-dev": dev,
		"python3-acl-ropeway": python} {
		if err := r.addChangelogs(name, files); err != nil {
			return err
		}
	}
	maps.DeleteFunc(kit, func(name string, _ file) bool { return strings.HasPrefix(name, "share/man/") })
	all.add(home, kit)
	all["usr/bin/ropeway"] = command["usr/bin/ropeway"]
	const zsh = "usr/share/zsh/vendor-completions/_ropeway" // Debian's place
	all["usr/share/zsh/site-functions/_ropeway"] = all[zsh]
	delete(all, zsh)
	values := map[string]string{"ARCH": p.goarch, "VERSION": r.version, "GLIBC": oldest,
		"PACKAGER": r.about.contact(), "MAINTAINER": r.about.maintainer(), "HOMEPAGE": r.about.homepage()}
	for _, pkg := range []struct {
		recipe, format string
		files          tree
	}{{"ropeway", "deb", command}, {"libascendcl-ropeway-dev", "deb", dev}, {"python3-acl-ropeway", "deb", python},
		{"ropeway-rpm", "rpm", all}} {
		name, content, err := r.pack(pkg.recipe, pkg.format, pkg.files, values)
		if err != nil {
			return fmt.Errorf("%s: %w", pkg.recipe, err)
		}
		if err := r.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// pack makes the package that a recipe describes, with files by their paths from the root, and returns its file name.
func (r *release) pack(recipe, format string, all tree, values map[string]string) (string, []byte, error) {
	stage, err := os.MkdirTemp(r.work, "package")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(stage)
	if err := errors.Join(os.Chmod(stage, 0o755), all.unpack(stage)); err != nil {
		return "", nil, err
	}
	text, err := os.Open("tools/packaging/release/packages/" + recipe + ".yaml")
	if err != nil {
		return "", nil, err
	}
	defer text.Close()
	config, err := nfpm.ParseWithEnvMapping(text, func(name string) string { return values[name] })
	if err != nil {
		return "", nil, err
	}
	info := &config.Info
	info.MTime, info.Umask, info.DisableGlobbing = r.date, 0o022, true
	info.Contents = append(info.Contents, &files.Content{Source: stage, Destination: "/", Type: files.TypeTree})
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	err = packager.Package(info, &b)
	return packager.ConventionalFileName(info), b.Bytes(), err
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
		case strings.HasPrefix(name, "share/man/"): // docs
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

// docs returns the manual and completion, where systems have them.
func (r *release) docs(kit tree) (tree, error) {
	docs := tree{}
	for name, f := range kit {
		if page, ok := strings.CutPrefix(name, "share/man/"); ok {
			content, err := zipped(f.content)
			if err != nil {
				return nil, err
			}
			docs["usr/share/man/"+page+".gz"] = file{content: content}
		}
	}
	for shell, place := range map[string]string{
		"bash": "usr/share/bash-completion/completions/ropeway",
		"zsh":  "usr/share/zsh/vendor-completions/_ropeway",
		"fish": "usr/share/fish/vendor_completions.d/ropeway.fish",
	} {
		cmd := exec.Command(or("GO", "go"), "run", "-trimpath", "./cmd/ropeway", "completion", shell)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cmd, err)
		}
		docs[place] = file{content: out}
	}
	return docs, nil
}

// addChangelogs adds what every Debian package has to say of its changes.
func (r *release) addChangelogs(name string, files tree) error {
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	entry := fmt.Sprintf("ropeway (%s-0ropeway1) unstable; urgency=medium\n\n"+
		"  * What is new is in changelog.gz.\n\n -- %s  %s\n",
		r.version, r.about.maintainer(), r.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	for log, content := range map[string][]byte{"changelog.gz": changes, "changelog.Debian.gz": []byte(entry)} {
		content, err := zipped(content)
		if err != nil {
			return err
		}
		files["usr/share/doc/"+name+"/"+log] = file{content: content}
	}
	return nil
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
