package table

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"ropeway/spec"
)

// SeedDocument is a document that the project began with: what it says decides.
type SeedDocument struct {
	ID        string     `yaml:"id"`
	Title     string     `yaml:"title"`
	Products  []string   `yaml:"products"` // that it is about
	Sentences []Sentence `yaml:"sentences"`
}

// Sentence is one of a document, in our own words.
type Sentence struct {
	N    int    `yaml:"n"` // from 1
	Says string `yaml:"says"`
	Test string `yaml:"test"` // of the same name in C and Python
	Only string `yaml:"only"` // "go" if it is about the document, and not about what a program sees
}

var testName = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)+$`)

// LoadSeeds reads seeds.yaml. Every sentence has its number and a test.
func LoadSeeds() ([]SeedDocument, error) { return parseSeeds(spec.Seeds) }

func parseSeeds(text []byte) ([]SeedDocument, error) {
	var file struct {
		Documents []SeedDocument `yaml:"documents"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("seeds.yaml: %w", err)
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("seeds.yaml: "+format, args...)) }
	seen := map[string]bool{}
	for _, doc := range file.Documents {
		if doc.ID == "" || doc.Title == "" || seen[doc.ID] {
			wrong("document %q has no id or title, or appears twice", doc.ID)
		}
		seen[doc.ID] = true
		for _, p := range doc.Products {
			if !slices.Contains(RuleProducts, p) {
				wrong("%s: unknown product %q", doc.ID, p)
			}
		}
		for i, s := range doc.Sentences {
			switch {
			case s.N != i+1:
				wrong("%s: sentence %d is number %d", doc.ID, i+1, s.N)
			case s.Says == "":
				wrong("%s/%d says nothing", doc.ID, s.N)
			case !testName.MatchString(s.Test):
				wrong("%s/%d has no test", doc.ID, s.N)
			case s.Only != "" && s.Only != "go":
				wrong("%s/%d: only %q", doc.ID, s.N, s.Only)
			}
		}
		if len(doc.Sentences) == 0 {
			wrong("%s has no sentences", doc.ID)
		}
	}
	if len(file.Documents) == 0 {
		wrong("there are no documents")
	}
	return file.Documents, errors.Join(errs...)
}
