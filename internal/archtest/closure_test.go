package archtest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestClosure: a program links what it asks for by its imports, and nothing else, neither directly nor through
// others. A program that only copies on the software device has no checker, no reader of DWARF and no code for GPUs;
// metrics, the checker, GPUs and other servers come by an import each.
func TestClosure(t *testing.T) {
	const prometheus, telemetry, sdk = "github.com/prometheus/", "go.opentelemetry.io/", "go.opentelemetry.io/otel/sdk"
	const checker, dwarf, kernels, gpu, servers = "ropeway/internal/check", "debug/dwarf",
		"ropeway/internal/driver/cuda/kernels", "github.com/ebitengine/purego", "ropeway/internal/pod"
	for _, tt := range []struct {
		pkg     string
		without []string
		with    string // what it does import: the test sees imports of imports
	}{
		{"ropeway", []string{prometheus, telemetry, "net/http", "github.com/spf13/", checker, dwarf,
			"github.com/ianlancetaylor/", kernels, gpu, servers, "crypto/tls",
			"ropeway/internal/finding", "ropeway/internal/meter", "testing"}, "ropeway/internal/driver/soft"},
		{"ropeway/ascend", []string{checker, dwarf, kernels, gpu}, "ropeway/internal/goapi"},
		{"ropeway/metrics", []string{prometheus, telemetry, checker, dwarf, kernels, gpu}, "ropeway/internal/meter"},
		{"ropeway/check", []string{prometheus, telemetry, kernels, gpu, "testing"}, dwarf},
		{"ropeway/driver/cuda", []string{prometheus, telemetry, checker, dwarf}, kernels},
		{"ropeway/pod", []string{prometheus, telemetry, checker, dwarf, kernels}, servers},
		{"ropeway/kernel", []string{prometheus, telemetry, checker, dwarf, kernels}, "ropeway/internal/kernel/native"},
		{"ropeway/capi", []string{prometheus, telemetry, "net/http", "github.com/spf13/"}, "ropeway/internal/core"},
		{"ropeway/cmd/ropeway", []string{prometheus, telemetry, "github.com/spf13/cobra/doc"},
			"github.com/spf13/cobra"},
		{"ropeway/metrics/prom", []string{telemetry}, prometheus + "client_golang/prometheus"},
		{"ropeway/metrics/otelproducer", []string{prometheus}, sdk + "/metric"},
	} {
		list := exec.Command("go", "list", "-deps", tt.pkg)
		list.Env = append(os.Environ(), "CGO_ENABLED=1") // without it capi is empty
		out, err := list.Output()
		if err != nil {
			t.Errorf("%s: %v", tt.pkg, err)
			continue
		}
		deps := strings.Fields(string(out))
		if !slices.Contains(deps, tt.with) {
			t.Errorf("%s does not import %s: what does this test look at?", tt.pkg, tt.with)
		}
		for _, dep := range deps {
			for _, forbidden := range tt.without {
				if strings.HasPrefix(dep, forbidden) {
					t.Errorf("%s imports %s", tt.pkg, dep)
				}
			}
		}
	}
}
