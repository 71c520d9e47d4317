package borders

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestClosure: who does not ask for metrics gets nothing of what they are made of, neither directly nor through others.
func TestClosure(t *testing.T) {
	const prometheus, telemetry, sdk = "github.com/prometheus/", "go.opentelemetry.io/", "go.opentelemetry.io/otel/sdk"
	for _, tt := range []struct {
		pkg     string
		without []string
		with    string // what it does import: the test sees imports of imports
	}{
		{"ropeway", []string{prometheus, telemetry, "net/http", "github.com/spf13/"}, "ropeway/internal/meter"},
		{"ropeway/capi", []string{prometheus, telemetry, "net/http", "github.com/spf13/"}, "ropeway/internal/core"},
		{"ropeway/cmd/ropeway", []string{prometheus, telemetry, "github.com/spf13/cobra/doc"}, "github.com/spf13/cobra"},
		{"ropeway/metrics/prom", []string{telemetry}, prometheus + "client_golang/prometheus"},
		{"ropeway/metrics/otelmeter", []string{prometheus, sdk}, telemetry + "otel/metric"},
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
