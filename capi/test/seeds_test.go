package capitest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/product"
	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// seedMachines are every product in each of its forms, in both modes: the environment, and a name.
func seedMachines() map[string][]string {
	all := map[string][]string{}
	for _, p := range product.Names() {
		forms := []string{"EP"}
		if slices.Contains(product.RCForms(), p) {
			forms = append(forms, "RC")
		}
		for _, form := range forms {
			for mode, strict := range []string{"default", "strict"} {
				env := []string{"ROPEWAY_PRODUCT=" + p, "ROPEWAY_FORM=" + form, fmt.Sprint("ROPEWAY_STRICT=", mode),
					"ROPEWAY_DEVICES=2", "ROPEWAY_DEVICE_MEMORY=64M"}
				if form == "RC" {
					env = append(env, "ROPEWAY_DRIVER=soft") // no other has it
				}
				all[p+"/"+form+"/"+strict] = env
			}
		}
	}
	return all
}

// seedTests are the sentences that programs test, by document and number, in order, and the names of their tests.
func seedTests(t *testing.T) (ids, tests []string) {
	t.Helper()
	documents, err := table.LoadSeeds()
	testenv.OK(t, err)
	for _, d := range documents {
		for _, s := range d.Sentences {
			if s.Only == "" {
				ids, tests = append(ids, fmt.Sprintf("%s/%02d", d.ID, s.N)), append(tests, s.Test)
			}
		}
	}
	if len(ids) < 120 {
		t.Fatalf("there are only %d sentences", len(ids))
	}
	return ids, tests
}

// TestSeeds runs the test of every sentence of spec/seeds.yaml from C. A sentence without a test does not compile, and
// neither does a test without a sentence.
func TestSeeds(t *testing.T) {
	t.Parallel()
	ids, tests := seedTests(t)
	dir := t.TempDir()
	var list strings.Builder
	for _, name := range slices.Compact(slices.Sorted(slices.Values(tests))) {
		fmt.Fprintf(&list, "void %s(void);\n", name)
	}
	list.WriteString("static const struct {\n\tconst char *id;\n\tvoid (*test)(void);\n} sentences[] " +
		"__attribute__((unused)) = {\n")
	for i, id := range ids {
		fmt.Fprintf(&list, "\t{\"%s\", %s},\n", id, tests[i])
	}
	list.WriteString("};\n")
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "seeds_list.h"), []byte(list.String()), 0o644))
	program := proofProgram(t, "seeds_*.c", "-I"+dir, "-Wmissing-prototypes", "-Wno-unused-function")
	for name, env := range seedMachines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Fields(passes(t, env, program)); !slices.Equal(got, ids) {
				t.Errorf("tested %v, want %v", got, ids)
			}
		})
	}
}

// TestSeedsTrial: the sentences about the document itself, that batches are on trial.
func TestSeedsTrial(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "include", "acl", "acl_rt.h"))
	testenv.OK(t, err)
	before, _, found := strings.Cut(string(text), "aclError aclrtMemcpyBatchAsync(")
	if !found {
		t.Fatal("the header does not declare it")
	}
	if comment := before[strings.LastIndex(before, "/*"):]; !strings.Contains(comment, "trial") {
		t.Errorf("the header does not say that it is on trial:\n%s", comment)
	}
}
