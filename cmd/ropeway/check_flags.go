package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ropeway/internal/check/inject"
	"ropeway/internal/explain"
	"ropeway/internal/finding"
)

// checkFlags proves that flags make sense, brings them into the form that processes read, and returns the rules they
// leave.
func (a *app) checkFlags(o *checkOptions) (rules []string, err error) {
	help := "see " + a.name + " check --help"
	wrong := func(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...), help} }
	if o.format == "github" && o.output == "" {
		o.output = "-" // where a runner looks for annotations
	}
	switch {
	case o.schedules < 1 || o.schedules > mostSchedules:
		return nil, wrong("--schedules: %d is not 1 to %d", o.schedules, mostSchedules)
	case o.seed+uint64(o.schedules-1) < o.seed:
		return nil, wrong("--seed: there are not %d seeds from %d on", o.schedules, o.seed)
	case o.depth < 1 || o.depth > mostDepth:
		return nil, wrong("--depth: %d is not 1 to %d", o.depth, mostDepth)
	case o.most < 0:
		return nil, wrong("--max-findings: %d is less than 0, which means all", o.most)
	case o.errorCode < 1 || o.errorCode > 255:
		return nil, &usageError{fmt.Errorf("--error-exitcode: %d is not 1 to 255", o.errorCode),
			"to have the program's own exit code in any case: --fail-on never"}
	case !slices.Contains([]string{"error", "warning", "note", "never"}, o.failOn):
		return nil, wrong("--fail-on: %q is not error, warning, note or never", o.failOn)
	case !slices.Contains([]string{"text", "json", "junit", "sarif", "github"}, o.format):
		return nil, wrong("--format: %q is not text, json, junit, sarif or github", o.format)
	case o.annotate && o.format == "github":
		return nil, wrong("--annotate is what --format github does; leave either out")
	case o.output != "" && o.output == o.write:
		return nil, wrong("--output and --write-suppressions are the same file")
	case o.page != "" && (o.page == o.output || o.page == o.write):
		return nil, wrong("--report names the file of another report")
	case o.format != "text" && o.output == "":
		return nil, &usageError{fmt.Errorf("--format %s needs --output: the program writes to standard error too",
			o.format),
			"for example: --output check." + map[string]string{"json": "json", "junit": "xml",
				"sarif": "sarif"}[o.format] + ", or --output - for standard output"}
	}
	if rules, err = a.chosenRules(o); err != nil {
		return nil, err
	}
	for i, text := range o.inject {
		if o.inject[i], err = a.fault(text); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

// chosenRules are those that --rules and --no-rule leave.
func (a *app) chosenRules(o *checkOptions) ([]string, error) {
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--rules", o.rules}, {"--no-rule", o.without}} {
		for i, name := range list.names {
			list.names[i] = strings.TrimSpace(name)
			if finding.ByName(list.names[i]) != nil {
				continue
			}
			next := "see " + a.name + " check --list-rules"
			if near := finding.Near(list.names[i]); near != "" {
				next = "did you mean " + near + "?"
			}
			return nil, &usageError{fmt.Errorf("%s: there is no rule %q", list.flag, name), next}
		}
	}
	var left []string
	for _, name := range finding.RuleNames() {
		if (len(o.rules) == 0 || slices.Contains(o.rules, name)) && !slices.Contains(o.without, name) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil, &usageError{errors.New("--rules and --no-rule leave no rule to check"), "leave out one of them"}
	}
	return left, nil
}

// faultForm is FUNCTION[@streamN]:NTH=CODE[/run|/submit].
var faultForm = regexp.MustCompile(`^([A-Za-z_][\w.]*)(@stream\d+)?:([^=]*)=([^/]*)(/\w+)?$`)

// takesStream fits prototypes with a stream that is given, not returned.
var takesStream = regexp.MustCompile(`\baclrtStream \w`)

// fault proves that an injected fault can happen. It returns it as processes read it: C names, numbers.
func (a *app) fault(text string) (string, error) {
	wrong := func(next, format string, args ...any) (string, error) {
		return "", &usageError{fmt.Errorf("--inject %q: %s", text, fmt.Sprintf(format, args...)), next}
	}
	m := faultForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return wrong("write it like aclrtMalloc:3=207001 or aclrtMemcpyAsync@stream2:*=507013/run",
			"this is not FUNCTION[@streamN]:NTH=CODE[/run]")
	}
	name, stream, nth, code, when := m[1], m[2], m[3], m[4], m[5]
	if n, err := strconv.ParseUint(nth, 10, 63); nth != "*" && (err != nil || n == 0) {
		return wrong("write the number of the call, from 1, or * for every call", "%q is no number of a call", nth)
	}
	if _, err := strconv.ParseInt(strings.TrimPrefix(stream, "@stream"), 10, 32); stream != "" && err != nil {
		return wrong("streams are numbered from 0 on", "%s is no stream", stream)
	}
	if when != "" && when != "/run" && when != "/submit" {
		return wrong("write /run, /submit or nothing", "%q is no time to fail", when)
	}
	book, err := explain.Open()
	if err != nil {
		return "", err
	}
	found, err := book.Find(name)
	if err != nil || found.Function == nil {
		return wrong(a.meant(err), "there is no function %q", name)
	}
	f := found.Function
	async := takesStream.MatchString(f.Prototype)
	switch {
	case !strings.HasPrefix(f.Prototype, "aclError "):
		return wrong("choose one that returns aclError", "%s returns no code", f.Name)
	case !f.Built:
		return wrong("see "+a.name+" explain "+f.Name, "%s is not built: every call returns 207000", f.Name)
	case stream != "" && !async:
		return wrong("leave "+stream+" out", "%s takes no stream", f.Name)
	case when == "/run" && !async:
		return wrong("leave /run out: its call can fail", "%s queues nothing that could run later", f.Name)
	}
	answer, err := book.Find(code)
	if err != nil || answer.Code == nil {
		return wrong(a.meant(err), "there is no code %q", code)
	}
	if answer.Code.Number == 0 {
		return wrong("see "+a.name+" explain "+f.Name+" for the codes it returns", "0 is no fault")
	}
	if when == "" && !async && answer.Code.Number >= inject.DeviceCodes {
		when = "/submit" // there is no task that could fail when it runs
	}
	return fmt.Sprintf("%s%s:%s=%d%s", f.Name, stream, nth, answer.Code.Number, when), nil
}

// meant says what a name that does not exist may have meant.
func (a *app) meant(err error) string {
	var missing *explain.NotFound
	if errors.As(err, &missing) {
		return a.notFound(missing).next
	}
	return "see " + a.name + " explain --help"
}

// readSuppressions reads files.
func readSuppressions(files []string) ([]*finding.Suppression, error) {
	for _, file := range files {
		if strings.ContainsRune(file, os.PathListSeparator) {
			return nil, &usageError{
				fmt.Errorf("--suppress: %s has a colon in it, which a list of files cannot hold", file),
				"rename the file"}
		}
	}
	all, err := finding.ReadSuppressions(files)
	var syntax *finding.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, &failure{err: err,
			next: "an entry is a [name], a rule: and stacks by role; see ropeway check --help"}
	case err != nil:
		return nil, &failure{err: fmt.Errorf("--suppress: %w", err),
			next: "check the path; --write-suppressions writes such a file"}
	}
	return all, nil
}

// suppressionPaths returns the files as the program gets them, which may run in another directory.
func suppressionPaths(files []string) string {
	paths := slices.Clone(files)
	for i, file := range files {
		if path, err := filepath.Abs(file); err == nil {
			paths[i] = path
		}
	}
	return strings.Join(paths, string(os.PathListSeparator))
}

// notReplayed are flags that a replay does without.
var notReplayed = []string{"seed", "schedules", "output", "format", "write-suppressions", "report"}

// replayCommand is the command that runs the program again the same way, with one seed.
func replayCommand(name string, cmd *cobra.Command, args []string, seed uint64) string {
	words := []string{shellWord(name), "check", "--seed", strconv.FormatUint(seed, 10)}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if slices.Contains(notReplayed, f.Name) {
			return
		}
		for _, v := range values {
			words = append(words, shellWord("--"+f.Name+"="+v))
		}
	})
	words = append(words, "--")
	for _, arg := range args {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word for a shell where it has to be.
func shellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// completeWith is complete for values that a function finds.
func completeWith(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag does not exist
	}
}

// completeRules offers rules after the last comma.
func completeRules(_ *cobra.Command, _ []string, word string) (fit []string, _ cobra.ShellCompDirective) {
	before := word[:strings.LastIndexByte(word, ',')+1]
	for _, r := range finding.Rules {
		if strings.HasPrefix(r.Name, word[len(before):]) && !slices.Contains(strings.Split(before, ","), r.Name) {
			fit = append(fit, before+r.Name+"\t"+r.Catches)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeFaults offers functions, up to the colon.
func completeFaults(_ *cobra.Command, _ []string, word string) (fit []string, _ cobra.ShellCompDirective) {
	if book, err := explain.Open(); err == nil {
		for _, name := range book.Names() {
			if !strings.HasPrefix(name, word) || strings.Contains(name, ".") {
				continue
			}
			if found, err := book.Find(name); err == nil && found.Function != nil && found.Function.Built {
				fit = append(fit, name+":")
			}
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
