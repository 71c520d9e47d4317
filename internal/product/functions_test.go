package product

import (
	"testing"

	"ropeway/internal/testenv"
)

func TestHas(t *testing.T) {
	for _, tt := range []struct {
		product, function string
		want              bool
	}{
		{"A2", "aclrtMemcpyBatch", true},
		{"310P", "aclrtMemcpyBatch", false},
		{"310B", "aclrtMemcpyAsyncWithDesc", true},
		{"910", "aclrtMemcpyAsyncWithDesc", false},
		{"950", "aclrtGetMemUsageInfo", false},
		{"310", "aclrtGetMemUsageInfo", true},   // as the 310P
		{"310", "aclrtSetOpWaitTimeout", false}, // as the 310P
		{"910", "aclrtMemcpy", true},            // everybody has it
		{"910", "aclAppLog", true},              // in nobody's documents
	} {
		p, err := Find(tt.product, "")
		testenv.OK(t, err)
		if got := p.Has(tt.function); got != tt.want {
			t.Errorf("%s has %s: %t", tt.product, tt.function, got)
		}
	}
}

// TestProductsInLists fails when a list names a product that does not exist: nobody would have the function.
func TestProductsInLists(t *testing.T) {
	for function, list := range onlyOn {
		for _, name := range list {
			if p, err := Find(name, ""); err != nil || p.Name != name {
				t.Errorf("%s is listed for %q: %v", function, name, err)
			}
		}
	}
}
