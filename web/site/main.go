// Command site writes the documentation as a static site: every page of the repository, the files that pages link to,
// and a page for each function, error code and type that "ropeway explain" knows and for each Go package. Nothing needs
// a server or a network: pages open from disk, and so does the search.
//
//	go run . -out ../../site
//
// A link that leads nowhere is an error. Links to other sites are listed in links.txt, and are not followed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "../..", "the repository")
	out := flag.String("out", "../../site", "where to write the site; what is there of an earlier one is deleted")
	flag.Parse()
	pages, err := run(*root, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages: open %s\n", pages, filepath.Join(*out, "index.html"))
}

// mark is a file that every site has. A directory without it is not deleted.
const mark = "search.js"

// run writes the site, and returns how many pages it has.
func run(root, out string) (int, error) {
	s, err := build(root)
	if err != nil {
		return 0, err
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, mark)); err != nil {
			return 0, fmt.Errorf("%s has files in it and is no site: delete it, or name another directory", out)
		}
		if err := os.RemoveAll(out); err != nil {
			return 0, err
		}
	}
	for name, text := range s.files {
		path := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return 0, err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return 0, err
		}
	}
	return s.count, nil
}
