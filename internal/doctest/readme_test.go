package doctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// TestReadme: README.md names the products there are and stays short. spec/gen writes its other numbers.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	testenv.OK(t, err)
	names := product.Names()
	last := len(names) - 1
	want := fmt.Sprintf("one of %d products: %s or %s.", len(names), strings.Join(names[:last], ", "), names[last])
	if !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say %q", want)
	}
	if n := strings.Count(string(text), "\n"); n > 90 {
		t.Errorf("README.md has %d lines; details go to docs/", n)
	}
}
