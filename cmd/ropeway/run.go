package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ropeway/internal/core"
	"ropeway/internal/product"
	"ropeway/internal/setup"
)

// variable is one of the environment.
type variable struct{ name, value string }

// runFlags are flags of "ropeway run" that become variables, in the order of the help.
var runFlags = []struct {
	flag, variable, help string
	values               []string // for completion
}{
	{"product", setup.EnvProduct, "`name`: " + strings.Join(product.Names(), ", "), product.Names()},
	{"form", setup.EnvForm, "`form`: EP, a card, or RC, stand-alone", []string{"EP", "RC"}},
	{"devices", setup.EnvDevices, "how `many` devices there are", nil},
	{"device-memory", setup.EnvDeviceMemory, "`size` of each device, like 8GiB, 512M or plain bytes", []string{"1GiB", "8GiB", "64GiB"}},
	{"driver", setup.EnvDriver, "`driver`: soft", []string{"soft"}},
	{"visible", setup.EnvVisible, "`list` of the devices the program sees, like 0,2", nil},
}

func (a *app) run() *cobra.Command {
	var blocking, printEnv bool
	cmd := &cobra.Command{
		Use:   "run [flags] [--] PROGRAM [ARGS]",
		Short: "Run a program with this library in front of any other",
		Long: `Run a program that was built against any toolkit, unchanged: it loads ropeway's
libascendcl.so, whatever else is installed.

The program replaces this process, so its exit code, signals, terminal and
process id are its own. If it cannot be run, the exit code is 127 (not found) or
126 (found, and something is in the way). Flags end at PROGRAM; what no flag
sets stays as the environment has it: see ropeway info.`,
		Example: `  ropeway run ./my_program --its-own-flag
  ropeway run --product 310P --devices 2 -- ./my_program
  ropeway run --blocking python3 train.py
  ropeway run --device-memory 8GiB --visible 0,2 ctest
  eval "$(ropeway run --print-env)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.wantedVariables(cmd)
			if err != nil {
				return err
			}
			if len(args) == 0 && !printEnv {
				return &usageError{errors.New("run needs a program"), "for example: " + a.name + " run ./my_program"}
			}
			kit, err := a.toolkit()
			if err != nil {
				return err
			}
			return a.start(kit, wanted, args, printEnv)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the program is the program's
	for _, f := range runFlags {
		cmd.Flags().String(f.flag, "", f.help)
		complete(cmd, f.flag, f.values...)
	}
	cmd.Flags().BoolVar(&blocking, "blocking", false, "asynchronous calls wait for their work")
	cmd.Flags().BoolVar(&printEnv, "print-env", false, "write the variables for a shell, run nothing")
	return cmd
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
	if flag := cmd.Flags().Lookup("blocking"); flag.Changed {
		value := "0"
		if flag.Value.String() == "true" {
			value = "1"
		}
		wanted = append(wanted, variable{setup.EnvBlocking, value})
	}
	help := fmt.Sprintf("see %s run --help", a.name)
	settings, err := setup.Read(overlay(a.lookup, wanted))
	if err != nil {
		return nil, &usageError{errors.New(strings.NewReplacer(names...).Replace(err.Error())), help}
	}
	// The library reads a list up to its first mistake and says so when it opens; who types one wants it read to the end.
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

// start becomes the program args, or writes what it would get.
func (a *app) start(kit *toolkit, wanted []variable, args []string, printEnv bool) error {
	if strings.Contains(kit.Root, ":") {
		return &failure{err: fmt.Errorf("the toolkit's path has a colon in it: %s", kit.Root), next: "move it: the loader's path lists are separated by colons"}
	}
	path := a.inFront(filepath.Join(kit.Root, "bin"), "PATH")
	vars := []variable{
		{setup.EnvHome, kit.Root},
		{"ASCEND_TOOLKIT_HOME", kit.Root},
		a.inFront(filepath.Join(kit.Root, "lib64"), "LD_LIBRARY_PATH"),
		a.inFront(filepath.Join(kit.Root, "python/site-packages"), "PYTHONPATH"),
		path,
	}
	vars = append(vars, wanted...)
	file := ""
	if len(args) > 0 {
		var err error
		if file, err = findProgram(args[0], path.value); err != nil {
			return err
		}
		preload, err := a.inspect(file, kit.machine(), path.value)
		if err != nil {
			return err
		}
		if preload {
			if strings.Contains(kit.Root, " ") {
				return &failure{err: fmt.Errorf("%s has a DT_RPATH and needs LD_PRELOAD, which cannot hold the blank in %s", file, kit.Root), next: "move the toolkit"}
			}
			vars = append(vars, a.inFront(filepath.Join(kit.Root, library), "LD_PRELOAD"))
		}
	}
	if printEnv {
		for _, v := range vars {
			fmt.Fprintf(a.stdout, "export %s='%s'\n", v.name, strings.ReplaceAll(v.value, "'", `'\''`))
		}
		return nil
	}
	return becomeError(file, syscall.Exec(file, args, environment(os.Environ(), vars)))
}

// inFront is a list variable that begins with entry; what else it holds stays.
func (a *app) inFront(entry, name string) variable {
	old, set := a.lookup(name)
	if !set || old == "" {
		return variable{name, entry} // an empty element would mean the current directory
	}
	list := []string{entry}
	for _, e := range strings.Split(old, ":") {
		if e != entry {
			list = append(list, e)
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
