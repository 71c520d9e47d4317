package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shells are those that have a completion script.
var shells = []string{"bash", "fish", "powershell", "zsh"}

// completion writes cobra's scripts. They ask this program what fits, so they never need to be written again.
func (a *app) completion(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write the completion script for a shell",
		Long: `Write a script that makes a shell complete commands, flags, their values, error
codes and names of functions: bash, fish, powershell or zsh.

The script asks ropeway itself what fits, so it is written once. The first
example is for the shell that is running; the others are for all shells to come.`,
		Example: `  source <(ropeway completion bash)
  ropeway completion bash > ~/.local/share/bash-completion/completions/ropeway
  ropeway completion zsh > "${fpath[1]}/_ropeway"
  ropeway completion fish > ~/.config/fish/completions/ropeway.fish`,
		Args: func(_ *cobra.Command, args []string) error {
			next := "there is one for bash, fish, powershell and zsh"
			switch {
			case len(args) == 0:
				return &usageError{errors.New("completion needs a shell"), next}
			case len(args) > 1:
				return &usageError{fmt.Errorf("completion takes one shell, but there is also %q", args[1]),
					"see " + a.name + " completion --help"}
			case !slices.Contains(shells, args[0]):
				return &usageError{fmt.Errorf("there is no completion for %q", args[0]), next}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return shells, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return root.GenZshCompletion(a.stdout)
		},
	}
}

// unquoted takes the marks of values out of what flags say of themselves: a shell shows the text as it is.
func unquoted(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, below := range c.Commands() {
		unquoted(below)
	}
}

// completePrograms makes all commands that run a program complete it alike.
func (a *app) completePrograms(root *cobra.Command) {
	for _, c := range root.Commands() {
		if strings.Contains(c.Use, "PROGRAM") {
			c.ValidArgsFunction = a.completeProgram
		}
	}
}

// completeProgram offers what PATH has for a program that is run, and files for one with a path and for its arguments.
func (a *app) completeProgram(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || word == "" || strings.Contains(word, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var fit []string
	for _, dir := range filepath.SplitList(a.getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // what is not there completes nothing
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), word) {
				continue
			}
			if i, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && i.Mode().IsRegular() &&
				i.Mode()&0o111 != 0 {
				fit = append(fit, e.Name())
			}
		}
	}
	slices.Sort(fit)
	return slices.Compact(fit), cobra.ShellCompDirectiveDefault
}
