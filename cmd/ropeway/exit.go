package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ropeway/internal/ui"
)

// exitMeaning is a row of the table of exit codes, which is the only one: help, manual and docs/cli.md are made from
// it.
type exitMeaning struct {
	code     string
	commands string // that have it
	meaning  string
}

var exitMeanings = []exitMeaning{
	{"0", "all", "It worked. A program that ran ended with 0."},
	{"1", "all", "It failed; what to do is said on standard error."},
	{"2", "all", "It was called wrongly: an unknown flag, a value that is refused, no program."},
	{fmt.Sprint(exitNothing), "check", "Nothing was checked: no process called AscendCL. --allow-none makes it 0."},
	{fmt.Sprint(exitFindings), "check", "There are findings that count. --error-exitcode chooses another number."},
	{fmt.Sprint(exitCannotRun), "those that run a program", "The program was found, but cannot be run."},
	{fmt.Sprint(exitNotFound), "those that run a program", "The program was not found."},
	{"128+N", "all", "Signal N ended it, or the program that it ran: 130 is Ctrl-C, 143 is kill."},
	{"others", "those that run a program", "The program's own."},
}

// exitCodes is no command: it is what "ropeway help exit-codes" shows.
func (a *app) exitCodes() *cobra.Command {
	return &cobra.Command{
		Use:     "exit-codes",
		Short:   "What exit codes mean",
		Long:    "What exit codes mean, for scripts and CI. " + exitText(),
		Example: "  ropeway check ./my_program || echo \"exit code $?\"",
	}
}

// exitText is the table for people at a terminal.
func exitText() string {
	var b strings.Builder
	b.WriteString("Messages go to standard error.\n")
	columns := ui.Columns{9, 0}
	for _, m := range exitMeanings {
		text := m.meaning
		if m.commands != "all" {
			text += " (" + m.commands + ")"
		}
		for i, line := range ui.Wrap(text, 68) {
			code := ""
			if i == 0 {
				code = m.code
			}
			b.WriteString("\n  " + columns.Row(code, line))
		}
	}
	return b.String()
}
