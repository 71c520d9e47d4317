package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ropeway/internal/bench"
	"ropeway/internal/compat"
	"ropeway/internal/finding"
	"ropeway/internal/recorder"
)

// TestRecordCommands: the command line has everything that the last release had: commands, flags with their types and
// defaults, exit codes, and the fields of what it writes as JSON.
func TestRecordCommands(t *testing.T) {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	visit(tree(), func(c *cobra.Command) {
		add("command %s", c.CommandPath())
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				add("flag %s --%s %s, by itself %q", c.CommandPath(), f.Name, f.Value.Type(), f.DefValue)
			}
			if !f.Hidden && f.Shorthand != "" {
				add("flag %s -%s is --%s", c.CommandPath(), f.Shorthand, f.Name)
			}
		})
	})
	for _, m := range exitMeanings {
		add("exit code %s (%s)", m.code, m.commands)
	}
	for _, r := range finding.RuleNames() {
		add("rule %s", r)
	}
	for name, v := range map[string]any{"version": versionReport{}, "info": infoReport{}, "check": finding.Report{},
		"bench": bench.Result{}} {
		jsonFields(reflect.TypeOf(v), "json of "+name+": ", map[reflect.Type]bool{}, add)
	}
	add("recording %#x", uint64(recorder.Magic))
	compat.Check(t, "../..", "commands", lines)
}

// jsonFields lists the fields that encoding/json writes of a type, with their paths.
func jsonFields(t reflect.Type, path string, above map[reflect.Type]bool, add func(string, ...any)) {
	switch t.Kind() {
	case reflect.Pointer:
		jsonFields(t.Elem(), path, above, add)
	case reflect.Slice, reflect.Array:
		jsonFields(t.Elem(), path+"[]", above, add)
	case reflect.Map:
		jsonFields(t.Elem(), path+"{}", above, add)
	case reflect.Struct:
		if t.PkgPath() == "time" || above[t] {
			add("%s %s", path, t.Name())
			return
		}
		above[t] = true
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
			case f.Anonymous && name == "":
				jsonFields(f.Type, path, above, add)
			default:
				if name == "" {
					name = f.Name
				}
				jsonFields(f.Type, path+"."+name, above, add)
			}
		}
		delete(above, t)
	default:
		add("%s %s", path, t.Kind())
	}
}
