// Package licence finds the work of others that is in what we hand out, and under which licences it is. NOTICE and the
// SBOM of a release are made of it.
package licence

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// File is a licence or a notice, as its authors wrote it.
type File struct{ Name, Text string }

var fileName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)(\.(txt|md))?$`)

// Files returns the files of a module that say under what terms it is. A module without any is an error.
func Files(dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !fileName.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, File{e.Name(), string(text)})
	}
	if len(files) == 0 {
		return nil, errors.New("it has no licence")
	}
	return files, nil
}

// kinds are licences by words that they have, or that grant them where their text is elsewhere.
var kinds = []struct{ id, words string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"Apache-2.0", "Licensed under the Apache License, Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"BSD-3-Clause", "Neither the name of"},
	{"BSD-3-Clause", "may not be used to endorse or promote"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
	{"MIT", "Permission is hereby granted, free of charge"},
}

// Identify names the licences of files as SPDX does. One that is not known is an error: a person has to read it.
func Identify(files []File) (string, error) {
	var ids []string
	for _, f := range files {
		words := strings.Join(strings.Fields(f.Text), " ")
		for _, k := range kinds {
			if strings.Contains(words, k.words) && !slices.Contains(ids, k.id) {
				ids = append(ids, k.id)
			}
		}
	}
	if slices.Contains(ids, "BSD-3-Clause") { // it has the words of the shorter one
		ids = slices.DeleteFunc(ids, func(id string) bool { return id == "BSD-2-Clause" })
	}
	if len(ids) == 0 {
		return "", errors.New("its licence is none of those that are known")
	}
	return strings.Join(ids, " AND "), nil
}

// Script is a JavaScript package in the report page.
type Script struct {
	Name, Version string
	License       string // as its authors declare it
}

// Lock is the lock file of the report page, from the root of the repository.
const Lock = "web/report/package-lock.json"

// Scripts returns the packages of a lock file that are not for building, by name.
func Scripts(lock []byte) ([]Script, error) {
	var l struct {
		Packages map[string]struct {
			Version, License string
			Dev, Optional    bool
		}
	}
	if err := json.Unmarshal(lock, &l); err != nil {
		return nil, err
	}
	var all []Script
	for place, p := range l.Packages {
		if _, name, ok := strings.Cut(place, "node_modules/"); ok && !p.Dev && !p.Optional {
			all = append(all, Script{name, p.Version, p.License})
		}
	}
	slices.SortFunc(all, func(a, b Script) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
