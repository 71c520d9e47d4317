package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ropeway/internal/testenv"
	"ropeway/metrics"
	"ropeway/metrics/prom"
)

// dashboard is what the tests read of dashboard.json.
type dashboard struct {
	UID    string
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ RefID, Expr string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// families are the metrics that package prom has, by name; the value is their type.
func families(t *testing.T) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(metrics.New()))
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, f := range all {
		names[f.GetName()] = f.GetType().String()
	}
	return names
}

var metric = regexp.MustCompile(`ropeway_\w+`)

// base is the metric that a series belongs to.
func base(known map[string]string, series string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && known[name] == "HISTOGRAM" {
			return name
		}
	}
	return series
}

// TestDashboardNames: the dashboard and the alerts name metrics that exist, and the dashboard shows each that there is.
func TestDashboardNames(t *testing.T) {
	known := families(t)
	shown := map[string]bool{}
	ids := map[int]bool{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: its number is another's, or it has no title or shows nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			names := metric.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: %s has no metric", p.Title, target.Expr)
			}
			for _, name := range names {
				shown[base(known, name)] = true
			}
		}
	}
	for name := range known {
		if !shown[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for _, file := range []string{"dashboard.json", "alerts.yml", "alerts.test.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(text), -1) {
			if known[base(known, name)] == "" {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
}

// TestDashboardLayout: no two panels cover the same place.
func TestDashboardLayout(t *testing.T) {
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q is where %q is, or beyond the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestAlerts: Prometheus accepts the rules, and each fires when it should.
func TestAlerts(t *testing.T) {
	testenv.Need(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "alerts.yml"}, {"check", "config", "prometheus.yml"}, {"test", "rules", "alerts.test.yml"},
	} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	rules, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("alerts.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		fires := regexp.MustCompile(`alertname: ` + m[1] + `\n\s+exp_alerts:\n`)
		if !fires.Match(tests) || !strings.Contains(string(tests), "alertname: "+m[1]+", exp_alerts: []}") {
			t.Errorf("no test in which %s fires, or none in which it does not", m[1])
		}
	}
}

// hang is when something is taken to hang. What works does not come near it.
const hang = 3 * time.Minute

// start runs a program until the end of the test. line is the first line of what it prints that has the text.
func start(t *testing.T, text string, cmd *exec.Cmd) (line string) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	found := make(chan string, 1)
	all := make(chan string, 1)
	go func() {
		var b strings.Builder
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			b.WriteString(scanner.Text() + "\n")
			if strings.Contains(scanner.Text(), text) {
				select {
				case found <- scanner.Text():
				default:
				}
			}
		}
		all <- b.String()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
		if text := <-all; t.Failed() {
			t.Logf("%s:\n%s", cmd.Args[0], text)
		}
		out.Close()
	})
	select {
	case line = <-found:
	case <-time.After(hang):
		t.Fatalf("%s does not say %q", cmd.Args[0], text)
	}
	return line
}

// ask calls the API of Prometheus.
func ask(t *testing.T, address string, into any) {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", address, r.Status, err, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v\n%s", address, err, body)
	}
}

// TestPrometheus: a real Prometheus scrapes the service, every panel of the dashboard has data, and every rule is
// evaluated.
func TestPrometheus(t *testing.T) {
	testenv.Long(t, "it runs Prometheus for some seconds")
	testenv.Need(t, "prometheus")
	dir := t.TempDir()
	service := filepath.Join(dir, "service")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", service, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	metricsAt := start(t, "/metrics", exec.Command(service, "-listen", "127.0.0.1:0"))
	target, err := url.Parse(metricsAt)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := filepath.Abs("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("127.0.0.1:9470", target.Host, "5s", "1s", "alerts.yml", alerts).Replace(string(text))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	// Prometheus does not say which port it took. One of an address that only this process uses stays free until then.
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.1:0", 1+os.Getpid()>>8&63, os.Getpid()&255))
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	start(t, "Server is ready to receive web requests", exec.Command("prometheus",
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address))

	end := time.Now().Add(hang)
	variables := strings.NewReplacer("$__rate_interval", "30s", "$__range", "1m", "$job", "ropeway", "$instance", ".*")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			for !data(t, address, expr) {
				if time.Now().After(end) {
					t.Errorf("%s has no data: %s", p.Title, expr)
					break
				}
				time.Sleep(200 * time.Millisecond) // until it is scraped often enough
			}
		}
	}

	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	want := strings.Count(readAlerts(t), "- alert: ")
	for evaluated := 0; evaluated < want; {
		ask(t, "http://"+address+"/api/v1/rules", &rules)
		evaluated = 0
		for _, g := range rules.Data.Groups {
			for _, r := range g.Rules {
				if r.Health == "ok" {
					evaluated++
				} else if r.Health == "err" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d rules were evaluated", evaluated, want)
		}
		time.Sleep(200 * time.Millisecond) // until the next evaluation
	}
}

func readAlerts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// data reports whether an expression has a value that is a number.
func data(t *testing.T, address, expr string) bool {
	t.Helper()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	ask(t, "http://"+address+"/api/v1/query?query="+url.QueryEscape(expr), &answer)
	for _, r := range answer.Data.Result {
		if text := fmt.Sprint(r.Value[1]); text != "NaN" {
			return true
		}
	}
	return false
}
