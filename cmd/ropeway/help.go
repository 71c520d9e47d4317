package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// help is cobra's help command, but one that fails for a command that does not exist.
func (a *app) help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Explain a command",
		Example: "  ropeway help demo",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range root.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return &usageError{fmt.Errorf("there is no command %q", strings.Join(args, " ")),
					"see " + a.name + " --help"}
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	}
}
