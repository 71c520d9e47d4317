package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"ropeway/internal/version"
)

// call runs the program and returns what it writes and its exit code.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return callIn(t.Context(), args...)
}

func callIn(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return callWith(ctx, nil, args...)
}

// callWith has more variables in the environment.
func callWith(ctx context.Context, variables map[string]string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	all := map[string]string{"TERM": "xterm-256color"}
	maps.Copy(all, variables)
	code = run(ctx, append([]string{"ropeway"}, args...), &out, &errs, env(all))
	return out.String(), errs.String(), code
}

// env is an environment of these variables alone.
func env(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, set := variables[name]
		return value, set
	}
}

// good is call for what must work.
func good(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := call(t, args...)
	if code != exitOK || stderr != "" {
		t.Fatalf("ropeway %s: exit code %d, stderr %q", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// parse reads JSON strictly.
func parse(t *testing.T, text string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	if d.More() {
		t.Fatalf("more than one value in %q", text)
	}
}

// plain fails on anything but lines that every terminal and file can take.
func plain(t *testing.T, text string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if len(line) > 80 {
			t.Errorf("line %d has %d columns: %q", i+1, len(line), line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("line %d is not plain: %q", i+1, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line %d ends in blanks: %q", i+1, line)
		}
	}
}

func contains(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in:\n%s", w, text)
		}
	}
}

func TestVersion(t *testing.T) {
	text := good(t, "version")
	plain(t, text)
	contains(t, text, "ropeway", "AscendCL runtime 1.17.0", "go1.")

	var r versionReport
	parse(t, good(t, "version", "--json"), &r)
	if r.Version != version.Ropeway || r.API != "1.17.0" || !strings.HasPrefix(r.Go, "go1.") ||
		!strings.Contains(r.System, "/") {
		t.Errorf("%+v", r)
	}
	if got := good(t, "--version"); got != "ropeway "+r.Version+"\n" {
		t.Errorf("--version gives %q", got)
	}
}

// TestUsage proves that wrong calls end with 2 and say what to do, on stderr alone.
func TestUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"nosuch", `there is no command "nosuch"`},
		{"nosuch", "see ropeway --help"},
		{"dmo", "did you mean ropeway demo?"},
		{"--nosuch", "unknown flag: --nosuch"},
		{"run --prodct A2 env", "did you mean --product?"},
		{"check --schedule 2 env", "did you mean --schedules?"},
		{"run -q env", "see ropeway run --help"},
		{"run --kernels /nosuch env", `--kernels="/nosuch" is refused: it is not a folder`},
		{"info extra", `info takes no argument, but there is "extra"`},
		{"version extra", "see ropeway version --help"},
		{"demo extra", "see ropeway demo --help"},
		{"info --nosuch", "see ropeway info --help"},
		{"info --product X", `no product "X"; there are 310, 310B, 310P, 910, 950, A2, A3`},
		{"demo --product X", `no product "X"; there are 310, 310B, 310P, 910, 950, A2, A3`},
		{"info --form XX", `form "XX" is neither EP nor RC`},
		{"info --form RC", "product A2 has no RC form; 310B, 310P and 310 have one"},
		{"demo --size 3x", `--size: "3x" is no size; write it like 64MiB`},
		{"demo --size -1", "is no size"},
		{"demo --size 1", "use 4KiB or more"},
		{"demo --devices 0", "--devices: 0 is not 1 to 64"},
		{"demo --devices 65", "--devices: 65 is not 1 to 64"},
		{"demo --devices x", `invalid argument "x"`},
		{"info --products --product A2", "leave either out"},
		{"run", "run needs a program"},
		{"run --devices 2", "for example: ropeway run ./my_program"},
		{"run --nosuch", "see ropeway run --help"},
		{"run --product X env",
			`--product="X" is refused: no product "X"; there are 310, 310B, 310P, 910, 950, A2, A3`},
		{"run --form XX env", `--form="XX" is refused: form "XX" is neither EP nor RC`},
		{"run --form RC env", "product A2 has no RC form; 310B, 310P and 310 have one"},
		{"run --devices 65 env", `--devices="65" is refused: it takes a whole number from 0 to 64`},
		{"run --devices x env", `--devices="x" is refused`},
		{"run --device-memory 8XB env", `--device-memory="8XB" is refused: size "8XB": unit "XB"`},
		{"run --device-memory 1K env", "a device has at least 64M"},
		{"run --driver ascend env", `--driver="ascend" is refused: this driver is not built yet`},
		{"run --driver x env", "there is no such driver"},
		{"run --visible 2,1 env", `--visible="2,1" is refused: it takes ascending numbers from 0 to 7`},
		{"run --devices 2 --visible 2 env", "from 0 to 1 with commas"},
		{"run --devices 0 --visible 0 env", "there are no devices"},
		{"run --blocking=x env", "see ropeway run --help"},
		{"check", "check needs a program"},
		{"check --seed 2", "for example: ropeway check ./my_program"},
		{"check --nosuch", "see ropeway check --help"},
		{"check --product X env", `--product="X" is refused: no product "X"`},
		{"check --devices x env", "see ropeway check --help"},
		{"check --seed -1 env", `invalid argument "-1"`},
		{"check --schedules 0 env", "--schedules: 0 is not 1 to"},
		{"check --seed 18446744073709551615 --schedules 2 env", "there are not 2 seeds from"},
		{"check --depth 0 env", "--depth: 0 is not 1 to"},
		{"check --max-findings -1 env", "--max-findings: -1"},
		{"check --error-exitcode 0 env", "--fail-on never"},
		{"check --error-exitcode 256 env", "--error-exitcode: 256 is not 1 to 255"},
		{"check --fail-on all env", `--fail-on: "all" is not error, warning, note or never`},
		{"check --format xml env", `--format: "xml" is not text, json, junit, sarif or github`},
		{"check --annotate --format github env", "leave either out"},
		{"check --format junit env", "--output check.xml, or --output -"},
		{"check --output x --write-suppressions x env", "the same file"},
		{"check --rules stream-races env", "did you mean stream-race?"},
		{"check --rules leak,unsynchronized-exit env", "did you mean unsynchronised-exit?"},
		{"check --no-rule leek env", "did you mean leak?"},
		{"check --no-rule qqq env", "see ropeway check --list-rules"},
		{"check --rules leak --no-rule leak env", "leave no rule to check"},
		{"check --inject aclrtMalloc env", "write it like aclrtMalloc:3=207001"},
		{"check --inject aclrtMalloc:0=207001 env", `"0" is no number of a call`},
		{"check --inject aclrtMalloc:x=207001 env", "from 1, or * for every call"},
		{"check --inject aclrtMaloc:1=207001 env", "did you mean aclrtMalloc"},
		{"check --inject aclrtMemcpyKind:1=207001 env", `there is no function "aclrtMemcpyKind"`},
		{"check --inject aclrtMalloc:1=207999 env", "did you mean 207"},
		{"check --inject aclrtMalloc:1=0 env", "0 is no fault"},
		{"check --inject aclrtMalloc:1= env", `there is no code ""`},
		{"check --inject aclrtMalloc@stream1:1=207001 env", "aclrtMalloc takes no stream"},
		{"check --inject aclrtCreateStream@stream1:1=207001 env", "aclrtCreateStream takes no stream"},
		{"check --inject aclrtMalloc:1=207001/run env", "queues nothing that could run later"},
		{"check --inject aclrtMemcpyAsync@stream99999999999:1=507013 env", "@stream99999999999 is no stream"},
		{"check --inject aclrtMemcpyAsync:1=507013/later env", "write /run, /submit or nothing"},
		{"check --inject aclrtGetSocName:1=507013 env", "returns no code"},
		{"explain", "explain needs a code or a name"},
		{"explain 1 2", `explain takes one name, but there is also "2"`},
		{"help nosuch", `there is no command "nosuch"`},
		{"help demo nosuch", `there is no command "demo nosuch"`},
		{"completion nosuch", "bash, fish, powershell and zsh"},
		{"completion", "bash, fish, powershell and zsh"},
		{"completion bash extra", "see ropeway completion --help"},
	} {
		t.Run(tt.args, func(t *testing.T) { misused(t, tt.args, tt.want) })
	}
}

// misused proves that a command line is refused, with a problem that has the words wanted, and what to do about it.
func misused(t *testing.T, args, want string) {
	t.Helper()
	stdout, stderr, code := call(t, strings.Fields(args)...)
	if code != exitUsage || stdout != "" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	contains(t, stderr, want)
	if !strings.HasPrefix(stderr, "ropeway: ") || strings.Count(stderr, "\n") != 2 {
		t.Errorf("not a problem and what to do about it: %q", stderr)
	}
}

// TestHelp: every command explains itself, with examples, in lines that fit, the same way however it is asked.
func TestHelp(t *testing.T) {
	root := good(t)
	plain(t, root)
	contains(t, root, "Examples:")
	if root != good(t, "--help") || root != good(t, "help") {
		t.Error("ropeway, ropeway --help and ropeway help differ")
	}
	visit(tree(), func(c *cobra.Command) {
		if !c.HasParent() {
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		contains(t, root, " "+path[0]+" ")
		text := good(t, append(path, "--help")...)
		plain(t, text)
		if text != good(t, append([]string{"help"}, path...)...) {
			t.Errorf("%[1]s --help and help %[1]s differ", strings.Join(path, " "))
		}
		if c.Runnable() {
			contains(t, text, "Usage:\n  ropeway "+c.Name(), "Examples:\n")
			contains(t, c.Example, "ropeway "+c.Name())
		}
	})
}

// TestCompletion: flags, values, names and codes complete.
func TestCompletion(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"info --product", "310P\n"}, {"info --form", "RC\n"}, {"demo --size", "1GiB\n"}, {"help", "demo\tShow"},
		{"completion", "zsh\n"},
		{"run --product", "310P\n"}, {"run --form", "RC\n"}, {"run --driver", "soft\n"},
		{"explain", "aclrtMemcpyAsync\n"},
		{"check --product", "310P\n"}, {"check --format", "sarif\n"}, {"check --fail-on", "never\n"},
		{"check --rules", "stream-race\ttwo tasks"},
		{"check --no-rule", "leak\t"}, {"check --inject", "aclrtMemcpyAsync:\n"},
	} {
		stdout, _, _ := call(t, append(append([]string{"__complete"}, strings.Fields(tt.args)...), "")...)
		contains(t, stdout, tt.want)
	}
}

// TestName proves that advice can be pasted where ropeway is not in PATH.
func TestName(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"bin/ropeway", "nosuch"}, &out, &errs, env(nil))
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	contains(t, errs.String(), "see bin/ropeway --help")
}

func TestInterrupt(t *testing.T) {
	for _, tt := range []struct {
		signal syscall.Signal
		code   int
		text   string
	}{
		{syscall.SIGINT, 130, "ropeway: interrupted\n"},
		{syscall.SIGTERM, 143, "ropeway: ended by a signal: terminated\n"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interrupted(tt.signal))
		_, stderr, code := callIn(ctx, "demo", "--quick")
		if code != tt.code || stderr != tt.text {
			t.Errorf("%v: exit code %d, stderr %q", tt.signal, code, stderr)
		}
	}
}
