package checker

import (
	"fmt"
	"strconv"
	"strings"

	"ropeway/internal/check"
	"ropeway/internal/check/inject"
	"ropeway/internal/finding"
)

// Settings are the settings of the checker.
type Settings struct {
	Seed   uint64
	Depth  int
	Off    map[string]bool // rules that are not checked
	Report string          // a Unix socket that receives the findings; "": they are printed
	Inject []inject.Injection
	Sink   check.Sink // replaces Report and printing
	// Findings that one of these describes are not printed and do not fail a test. They are still sent to Report,
	// whose reader counts the suppressions that were used.
	Suppress []*finding.Suppression
}

// parse parses ROPEWAY_CHECK, key=value pairs separated by commas: seed=7,depth=2048,rules=a+b,no=c+d. "1" means the
// defaults.
func parse(text string) (*Settings, error) {
	s := &Settings{Depth: check.DefaultDepth, Off: map[string]bool{}}
	if text == "1" {
		return s, nil
	}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if err := s.set(key, value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Settings) set(key, value string) (err error) {
	switch key {
	case "":
	case "seed":
		if s.Seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			return fmt.Errorf("seed=%s: it takes a whole number", value)
		}
	case "depth":
		if s.Depth, err = strconv.Atoi(value); err != nil || s.Depth < 1 {
			return fmt.Errorf("depth=%s: it takes a whole number from 1 on", value)
		}
	case "rules":
		for _, r := range finding.Rules {
			s.Off[r.Name] = true
		}
		return s.rules(value, false)
	case "no":
		return s.rules(value, true)
	default:
		return fmt.Errorf("%q is none of seed, depth, rules and no", key)
	}
	return nil
}

// rules switches rules on or off.
func (s *Settings) rules(list string, off bool) error {
	for _, name := range strings.Split(list, "+") {
		if finding.ByName(name) == nil {
			return fmt.Errorf("there is no rule %q", name)
		}
		if off {
			s.Off[name] = true
		} else {
			delete(s.Off, name)
		}
	}
	return nil
}
