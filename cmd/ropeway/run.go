package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ropeway/internal/core"
	"ropeway/internal/pod"
	"ropeway/internal/product"
	"ropeway/internal/setup"
	_ "ropeway/internal/setup/checker"    // ROPEWAY_CHECK is read here, too
	_ "ropeway/internal/setup/podservers" // and ROPEWAY_POD
)

// variable is one of the environment.
type variable struct{ name, value string }

// runFlags are flags of "ropeway run" that become variables, in the order of the help.
var runFlags = []struct {
	flag, variable, help string
	values               []string // for completion
}{
	{"product", setup.EnvProduct, "`name`: " + strings.Join(product.Names(), " "), product.Names()},
	{"form", setup.EnvForm, "`form`: EP, a card, or RC, stand-alone", []string{"EP", "RC"}},
	{"devices", setup.EnvDevices, "how `many` devices there are", nil},
	{"device-memory", setup.EnvDeviceMemory, "`size` of each device, like 8GiB or 512M",
		[]string{"1GiB", "8GiB", "64GiB"}},
	{"driver", setup.EnvDriver, "`driver`: soft or cuda", []string{"soft", "cuda"}},
	{"visible", setup.EnvVisible, "`list` of the devices the program sees, like 0,2", nil},
	{"kernels", setup.EnvKernels, "`folder` with stand-ins for NPU binaries", nil},
}

func (a *app) run() *cobra.Command {
	var printEnv bool
	var servers int
	var apart bool
	cmd := &cobra.Command{
		Use:   "run [flags] [--] PROGRAM [ARGS]",
		Short: "Run a program with this library in front of any other",
		Long: `Run a program that was built against any toolkit, unchanged: it loads ropeway's
libascendcl.so, whatever else is installed.

The program replaces this process, so its exit code, signals, terminal and
process id are its own. If it cannot be run, the exit code is 127 (not found) or
126 (found but cannot be executed). Flags end at PROGRAM; what no flag sets
stays as the environment has it: see ropeway info.

With --pod N the program runs N times, as N servers of a pod on this machine:
see docs/pod.md. Lines of its output begin with the number of the server. Each
copy has that number in ROPEWAY_POD_SERVER and RANK, and N in WORLD_SIZE; the
product is A3 if nothing else is said. Only server 0 has standard input. The
exit code is 0, or that of the first server that failed. With --namespaces each
server has a network of its own, with an address in ROPEWAY_POD_ADDRESSES (root
only; for others they share this machine's), and nothing else is reached.`,
		Example: `  ropeway run ./my_program --its-own-flag
  ropeway run --product 310P --devices 2 -- ./my_program
  ropeway run --blocking python3 train.py
  ropeway run --device-memory 8GiB --visible 0,2 ctest
  ropeway run --pod 2 ./share_memory
  eval "$(ropeway run --print-env)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.wantedVariables(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 && !printEnv {
				return &usageError{errors.New("run needs a program"), "for example: " + a.name + " run ./my_program"}
			}
			if cmd.Flags().Changed("pod") && (servers < 1 || servers > pod.MaxServer+1 || printEnv) {
				why := fmt.Errorf("--pod=%d is refused: it takes 1 to %d, and a program", servers, pod.MaxServer+1)
				return &usageError{why, fmt.Sprintf("see %s run --help", a.name)}
			}
			if apart && !cmd.Flags().Changed("pod") {
				return &usageError{errors.New("--namespaces needs --pod"), fmt.Sprintf("see %s run --help", a.name)}
			}
			kit, err := a.toolkit()
			if err != nil {
				return err
			}
			p, err := a.prepare(kit, wanted, args, false)
			if err != nil {
				return err
			}
			if printEnv {
				p.print(a.stdout)
				return nil
			}
			if cmd.Flags().Changed("pod") {
				return a.servers(p, servers, apart)
			}
			return becomeError(p.file, syscall.Exec(p.file, args, p.environment()))
		},
	}
	addRunFlags(cmd)
	cmd.Flags().IntVar(&servers, "pod", 0, "run it as `N` servers that share device memory")
	cmd.Flags().BoolVar(&apart, "namespaces", false, "with --pod: each server in its own network")
	cmd.Flags().BoolVar(&printEnv, "print-env", false, "write the variables for a shell, run nothing")
	return cmd
}

// addRunFlags gives a command that runs a program the flags that say on what.
func addRunFlags(cmd *cobra.Command) {
	cmd.Flags().SetInterspersed(false) // what follows the program is the program's
	for _, f := range runFlags {
		cmd.Flags().String(f.flag, "", f.help)
		complete(cmd, f.flag, f.values...)
	}
	for _, f := range runSwitches {
		cmd.Flags().Bool(f.flag, false, f.help)
	}
}

// runSwitches are flags that become variables which are 0 or 1.
var runSwitches = []struct{ flag, variable, help string }{
	{"blocking", setup.EnvBlocking, "asynchronous calls wait for their work"},
	{"strict", setup.EnvStrict, "refuse what the documents forbid"},
}

// wantedVariables are those that flags set. They are checked as the library will check them.
func (a *app) wantedVariables(cmd *cobra.Command) ([]variable, error) {
	var wanted []variable
	names := []string{} // flag and variable, in pairs
	for _, f := range runFlags {
		if flag := cmd.Flags().Lookup(f.flag); flag.Changed {
			wanted = append(wanted, variable{f.variable, flag.Value.String()})
			names = append(names, f.variable+"=", "--"+f.flag+"=")
		}
	}
	for _, f := range runSwitches {
		if flag := cmd.Flags().Lookup(f.flag); flag.Changed {
			value := "0"
			if flag.Value.String() == "true" {
				value = "1"
			}
			wanted = append(wanted, variable{f.variable, value})
		}
	}
	help := fmt.Sprintf("see %s %s --help", a.name, cmd.Name())
	if folder := cmd.Flags().Lookup("kernels").Value.String(); folder != "" {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return nil, &usageError{fmt.Errorf("--kernels=%q is refused: it is not a folder", folder), help}
		}
	}
	settings, err := setup.Read(overlay(a.lookup, wanted))
	if err != nil {
		return nil, &usageError{errors.New(strings.NewReplacer(names...).Replace(err.Error())), help}
	}
	// The library reads a list up to its first mistake and says so when it opens; a list on the command line is read to
	// the end.
	list := cmd.Flags().Lookup("visible").Value.String()
	if list != "" && len(core.VisibleDevices(list, settings.Devices)) != strings.Count(list, ",")+1 {
		why := "there are no devices"
		if settings.Devices > 0 {
			why = fmt.Sprintf("it takes ascending numbers from 0 to %d with commas between them", settings.Devices-1)
		}
		return nil, &usageError{fmt.Errorf("--visible=%q is refused: %s", list, why), help}
	}
	return wanted, nil
}

// overlay is an environment with some variables changed.
func overlay(lookup func(string) (string, bool), changed []variable) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range changed {
			if v.name == name {
				return v.value, true
			}
		}
		return lookup(name)
	}
}

// launch is a program that is ready to run.
type launch struct {
	file string // "" if there is none
	args []string
	vars []variable // that it gets besides our own
}

func (l *launch) environment() []string { return environment(os.Environ(), l.vars) }

// print writes the variables for a shell.
func (l *launch) print(w io.Writer) {
	for _, v := range l.vars {
		fmt.Fprintf(w, "export %s='%s'\n", v.name, strings.ReplaceAll(v.value, "'", `'\''`))
	}
}

// prepare finds the program args, if there is one, proves that it can be run and says what variables it gets. Libraries
// in preload, below the root of the toolkit, are loaded before any other. Statically linked programs are refused unless
// static.
func (a *app) prepare(kit *toolkit, wanted []variable, args []string, static bool, preload ...string) (*launch, error) {
	if strings.Contains(kit.Root, ":") {
		return nil, &failure{err: fmt.Errorf("the toolkit's path has a colon in it: %s", kit.Root),
			next: "move it: the loader's path lists are separated by colons"}
	}
	path := a.inFront("PATH", filepath.Join(kit.Root, "bin"))
	l := &launch{args: args, vars: []variable{
		{setup.EnvHome, kit.Root},
		{"ASCEND_TOOLKIT_HOME", kit.Root},
		a.inFront("LD_LIBRARY_PATH", filepath.Join(kit.Root, "lib64")),
		a.inFront("PYTHONPATH", filepath.Join(kit.Root, "python/site-packages")),
		path,
	}}
	l.vars = append(l.vars, wanted...)
	why := "the checker"
	if len(args) > 0 {
		var err error
		if l.file, err = findProgram(args[0], path.value); err != nil {
			return nil, err
		}
		found, err := a.inspect(l.file, kit.machine(), path.value)
		if err != nil {
			return nil, err
		}
		if found.static && !static {
			return nil, a.staticallyLinked(l.file)
		}
		if found.preload {
			why = l.file + ", which has a DT_RPATH,"
			preload = append(preload, library)
		}
	}
	if len(preload) == 0 {
		return l, nil
	}
	if strings.Contains(kit.Root, " ") {
		return nil, &failure{err: fmt.Errorf("%s needs LD_PRELOAD, which cannot hold the blank in %s", why, kit.Root),
			next: "move the toolkit"}
	}
	var files []string
	for _, p := range preload {
		files = append(files, filepath.Join(kit.Root, p))
	}
	// AddressSanitizer wants to be the first library; it works after ours too.
	l.vars = append(l.vars, a.inFront("LD_PRELOAD", files...), a.inFront("ASAN_OPTIONS", "verify_asan_link_order=0"))
	return l, nil
}

// inFront is a list variable that begins with these entries; what else it holds stays.
func (a *app) inFront(name string, entries ...string) variable {
	list := slices.Clone(entries)
	if old := a.getenv(name); old != "" { // an empty element would mean the current directory
		for _, e := range strings.Split(old, ":") {
			if !slices.Contains(entries, e) {
				list = append(list, e)
			}
		}
	}
	return variable{name, strings.Join(list, ":")}
}

// environment is env with variables added or replaced.
func environment(env []string, vars []variable) []string {
	var list []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if _, replaced := overlay(func(string) (string, bool) { return "", false }, vars)(name); !replaced {
			list = append(list, e)
		}
	}
	for _, v := range vars {
		list = append(list, v.name+"="+v.value)
	}
	return list
}

// becomeError says why the kernel did not run a program.
func becomeError(file string, err error) error {
	next := ""
	switch {
	case errors.Is(err, syscall.ENOENT):
		if f, e := elf.Open(file); e == nil {
			next = "its loader " + loaderOf(f) + " is missing: the program was built for another system"
			f.Close()
		}
	case errors.Is(err, syscall.EACCES):
		next = "its file system may be mounted noexec"
	case errors.Is(err, syscall.E2BIG):
		next = "arguments and environment are too long together"
	}
	return &failure{fmt.Errorf("%s cannot be run: %w", file, err), next, exitCannotRun}
}
