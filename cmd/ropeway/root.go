package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ropeway/internal/version"
)

// root is the command without a name: it shows what there is.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ropeway",
		Short: "AscendCL on any Linux machine, for real",
		Long: `ropeway is the AscendCL runtime in Go, with a software device that behaves like
an Ascend NPU: the same checks, the same error codes, the same asynchrony.

Start with the demo: it shows a race and what the checker finds, copies in every
direction and verifies every byte.`,
		Example: `  ropeway demo                    a race and its finding, and copies, in seconds
  ropeway run ./my_program        run a C, C++ or Python program of yours
  ropeway check ./my_program      find what it does wrong
  ropeway trace ./my_program      see what it did when
  ropeway explain 107002          what an error code means, and what to do
  ropeway info --products         what each product has
  ropeway version --json          for scripts`,
		Version: version.Ropeway,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			next := fmt.Sprintf("see %s --help", a.name)
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				next = fmt.Sprintf("did you mean %s %s?", a.name, strings.Join(like, " or "))
			}
			return &usageError{fmt.Errorf("there is no command %q", args[0]), next}
		},
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun:           func(*cobra.Command, []string) { a.started = true },
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("ropeway {{.Version}}\n")
	root.AddCommand(a.version(), a.info(), a.demo(), a.run(), a.check(), a.trace(), a.explain(), a.bench(), a.pod())
	root.SetHelpCommand(a.help(root))
	root.CompletionOptions.DisableDefaultCmd = true // ours refuses shells that it does not know
	root.AddCommand(a.completion(root), a.exitCodes())
	a.completePrograms(root)
	return root
}

// noArgs refuses arguments.
func (a *app) noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{fmt.Errorf("%s takes no argument, but there is %q", cmd.Name(), args[0]),
		fmt.Sprintf("see %s %s --help", a.name, cmd.Name())}
}
