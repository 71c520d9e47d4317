package checker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/finding"
	"ropeway/internal/setup"
	_ "ropeway/internal/setup/cudadriver"
	"ropeway/internal/testenv"
)

// environment is a lookup in NAME=value texts.
func environment(vars ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range vars {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value, true
			}
		}
		return "", false
	}
}

// TestReadCheck: what ROPEWAY_CHECK, ROPEWAY_CHECK_REPORT and ROPEWAY_INJECT say.
func TestReadCheck(t *testing.T) {
	known := filepath.Join(t.TempDir(), "known")
	testenv.OK(t, os.WriteFile(known, []byte("[known]\nrule: leak\n"), 0o644))
	s, err := setup.Read(environment("ROPEWAY_CHECK=seed=7,depth=64,no=leak", "ROPEWAY_CHECK_REPORT=socket",
		"ROPEWAY_INJECT=aclrtMalloc:3=207001;aclrtFree:*=107000", "ROPEWAY_SUPPRESS="+known+":"+known))
	testenv.OK(t, err)
	c, _ := s.Check.(*Settings)
	if c == nil || c.Seed != 7 || c.Depth != 64 || !c.Off["leak"] || c.Report != "socket" || len(c.Inject) != 2 ||
		c.Inject[1].Function != "aclrtFree" || len(c.Suppress) != 2 || c.Suppress[1].Rule != "leak" {
		t.Errorf("read %+v", c)
	}
	s, err = setup.Read(environment("ROPEWAY_CHECK=1"))
	c, _ = s.Check.(*Settings)
	if err != nil || c == nil || c.Seed != 0 || c.Depth != check.DefaultDepth || len(c.Off) != 0 {
		t.Errorf("read %+v, %v", c, err)
	}
}

// TestReadCheckOnGPU: the checker cannot close pages of a GPU's host memory, so a program that is checked there gets a
// note.
func TestReadCheckOnGPU(t *testing.T) {
	for vars, noted := range map[string]bool{
		"ROPEWAY_DRIVER=cuda ROPEWAY_CHECK=1": true, "ROPEWAY_DRIVER=cuda": false, "ROPEWAY_CHECK=1": false,
	} {
		s, err := setup.Read(environment(strings.Fields(vars)...))
		if err != nil || strings.Contains(strings.Join(s.Notes, "\n"), "check with the driver soft") != noted {
			t.Errorf("%s: notes %q, %v", vars, s.Notes, err)
		}
	}
}

// TestReadBadCheck: bad values are refused, with the name of the variable.
func TestReadBadCheck(t *testing.T) {
	for _, vars := range [][]string{
		{"ROPEWAY_CHECK=yes"}, {"ROPEWAY_CHECK=seed=x"}, {"ROPEWAY_CHECK=no=nonsense"},
		{"ROPEWAY_SUPPRESS=/nowhere", "ROPEWAY_CHECK=1"},
		{"ROPEWAY_INJECT=aclrtMalloc", "ROPEWAY_CHECK=1"}, {"ROPEWAY_INJECT=aclrtMalloc:1=1;free:1=1",
			"ROPEWAY_CHECK=1"},
	} {
		name, value, _ := strings.Cut(vars[0], "=")
		_, err := setup.Read(environment(vars...))
		e, _ := err.(*setup.Error)
		if e == nil || e.Code != abi.ErrInvalidParam || !strings.Contains(e.Error(), name) ||
			!strings.Contains(e.Error(), value) {
			t.Errorf("%v: %v", vars, err)
		}
	}
}

// leaky does not destroy its stream.
func leaky(t *testing.T, rt *core.Runtime) {
	t.Helper()
	var s core.Handle
	th := rt.NewThread(1)
	if err := th.SetDevice(0); err != nil {
		t.Fatal(err)
	}
	if err := th.CreateStream(&s); err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}

func openChecked(t *testing.T, vars ...string) (*core.Runtime, *bytes.Buffer) {
	t.Helper()
	s, err := setup.Read(environment(append(vars, "ROPEWAY_CHECK=seed=5", "ROPEWAY_DEVICE_MEMORY=64M",
		"ROPEWAY_DEVICES=1")...))
	testenv.OK(t, err)
	var warn bytes.Buffer
	rt, err := s.Open(&warn)
	testenv.OK(t, err)
	if _, ok := rt.Checker().(*check.Checker); !ok {
		t.Fatalf("%T checks", rt.Checker())
	}
	return rt, &warn
}

// TestCheckSends: findings go to the listener at ROPEWAY_CHECK_REPORT, from start to end, and nothing is printed.
func TestCheckSends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	l, err := net.Listen("unix", path)
	testenv.OK(t, err)
	defer l.Close()
	rt, warn := openChecked(t, "ROPEWAY_CHECK_REPORT="+path)
	conn, err := l.Accept()
	testenv.OK(t, err)
	defer conn.Close()
	leaky(t, rt)
	lines := bufio.NewScanner(conn)
	next := func() (r finding.Record) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no record")
		}
		testenv.OK(t, json.Unmarshal(lines.Bytes(), &r))
		return r
	}
	if r := next(); r.Start == nil || r.Start.Seed != 5 {
		t.Errorf("first %+v", r)
	}
	if r := next(); r.Finding == nil || r.Finding.Rule != "leak" || r.Finding.Seed != 5 {
		t.Errorf("then %+v", r)
	}
	if r := next(); r.End == nil || len(r.End.Counts) != 1 {
		t.Errorf("last %+v", r)
	}
	if warn.Len() != 0 {
		t.Errorf("printed %s", warn)
	}
}

// TestCheckPrints: without a listener findings are printed, and a listener that is not there is reported.
func TestCheckPrints(t *testing.T) {
	rt, warn := openChecked(t)
	leaky(t, rt)
	if !strings.Contains(warn.String(), "leak") || strings.Contains(warn.String(), "ROPEWAY_CHECK_REPORT") {
		t.Errorf("printed %s", warn)
	}
	rt, warn = openChecked(t, "ROPEWAY_CHECK_REPORT="+filepath.Join(t.TempDir(), "nobody"))
	leaky(t, rt)
	if !strings.Contains(warn.String(), "leak") || !strings.Contains(warn.String(),
		"ROPEWAY_CHECK_REPORT: no process receives the report") {
		t.Errorf("printed %s", warn)
	}
}
