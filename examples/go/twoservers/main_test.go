package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestTwoServers: the program does what it says on two servers, and makes no mistake that the checker finds; without a
// pod it says how to start it.
func TestTwoServers(t *testing.T) {
	testenv.Need(t, "ucx_info")
	dir := t.TempDir()
	ropeway, program := filepath.Join(dir, "ropeway"), filepath.Join(dir, "twoservers")
	for name, pkg := range map[string]string{ropeway: "ropeway/cmd/ropeway", program: "."} {
		if out, err := exec.Command("go", "build", "-o", name, pkg).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", pkg, err, out)
		}
	}
	servers := []string{ropeway, "run", "--pod", "2", program, filepath.Join(dir, "block")}
	want := []string{"[0] It changed every byte, and server 0 sees the change.",
		"[1] Server 1 read the 4194304 bytes of server 0."}
	for _, args := range [][]string{servers, append([]string{ropeway, "check"}, servers...)} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(lines) // they are two processes
		if err != nil || !slices.Equal(lines, want) {
			t.Errorf("%q: %v, it prints\n%s%s", args[1:3], err, out, &errs)
		}
		if args[1] == "check" && !strings.Contains(errs.String(), "no findings") {
			t.Errorf("checked: %s", &errs)
		}
	}
	out, err := exec.Command(program, "block").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "ropeway run --pod 2") {
		t.Errorf("alone: %v\n%s", err, out)
	}
}
