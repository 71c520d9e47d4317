package table

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec"
)

func TestLoadSeeds(t *testing.T) {
	documents, err := LoadSeeds()
	testenv.OK(t, err)
	n := 0
	for _, d := range documents {
		n += len(d.Sentences)
	}
	if len(documents) != 5 || n < 120 {
		t.Errorf("%d documents with %d sentences", len(documents), n)
	}
}

// TestSeedsRefuses breaks the real list in one place and looks for the complaint.
func TestSeedsRefuses(t *testing.T) {
	const first = "  - {n: 1, says: 'the C function takes destination"
	for _, tt := range []struct{ old, new, want string }{
		{", test: async_board}", ", test: ''}", "000/22 has no test"},
		{", test: async_board}", "}", "000/22 has no test"},
		{first, strings.Replace(first, "1", "2", 1), "sentence 1 is number 2"},
		{"says: 'memory is copied'", "says: ''", "000/3 says nothing"},
		{"- id: '001'", "- id: '000'", "appears twice"},
		{"products: ['310']", "products: ['311']", `unknown product "311"`},
		{", only: go}", ", only: c}", `only "c"`},
		{"documents:", "papers:", "papers"},
	} {
		text := strings.Replace(string(spec.Seeds), tt.old, tt.new, 1)
		if text == string(spec.Seeds) {
			t.Errorf("there is no %q", tt.old)
			continue
		}
		if _, err := parseSeeds([]byte(text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.new, err, tt.want)
		}
	}
}
