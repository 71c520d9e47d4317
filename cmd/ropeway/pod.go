package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"ropeway/internal/checkrun"
	"ropeway/internal/pod"
	"ropeway/internal/setup"
)

func (a *app) pod() *cobra.Command {
	return &cobra.Command{
		Use:   "pod init DIR ADDRESS... | demo [DIR]",
		Short: "Set up servers that share device memory",
		Long: `Servers of a pod share device memory by fabric handles. A pod is a file with
their addresses and the name of a key file, which all of them have; programs
find it by ROPEWAY_POD. docs/pod.md takes two machines through it.

init writes DIR/pod.yaml, with a server for each address, and DIR/pod.key, which
only you can read. Copy DIR to every server and set ROPEWAY_POD=DIR/pod.yaml
there. Files that are there already are not overwritten.

demo writes a pod of two servers on the loopback address, to DIR or a new
directory, and says what to set in two shells, so that a program started in each
is on a server of its own.`,
		Example: `  ropeway pod init mypod 10.0.0.1 10.0.0.2
  ropeway pod demo
  ropeway run --pod 2 ./my_program`,
		ValidArgs: []string{"init", "demo"},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) >= 3 && args[0] == "init":
				return a.podInit(args[1], args[2:])
			case len(args) == 1 && args[0] == "demo":
				dir, err := os.MkdirTemp("", "ropeway-pod-")
				if err != nil {
					return err
				}
				return a.podDemo(dir)
			case len(args) == 2 && args[0] == "demo":
				return a.podDemo(args[1])
			}
			return &usageError{errors.New("pod needs init with a directory and addresses, or demo"),
				"for example: " + a.name + " pod init mypod 10.0.0.1 10.0.0.2"}
		},
	}
}

func (a *app) podInit(dir string, addresses []string) error {
	file, err := writePod(dir, addresses)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(file) { // it is found after a cd, too; where the copy is on another server, its shell knows
		file = "$PWD/" + file
	}
	fmt.Fprintf(a.stdout, "On every server, where %s was copied to: export %s=%s %s=A3\n", dir, setup.EnvPod, file,
		setup.EnvProduct)
	return nil
}

func (a *app) podDemo(dir string) error {
	file, err := writePod(dir, []string{"127.0.0.1", "127.0.0.1"})
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	for i := range 2 {
		fmt.Fprintf(a.stdout, "Shell %d: export %s=A3 %s=%d\n         export %s=%s\n", i+1, setup.EnvProduct,
			setup.EnvPodServer, i, setup.EnvPod, file)
	}
	return nil
}

// writePod writes a pod file with a server for each address, and a new key beside it.
func writePod(dir string, addresses []string) (file string, err error) {
	var text strings.Builder
	text.WriteString("key: pod.key\nservers:\n")
	for i, x := range addresses {
		if _, err := pod.ParseAddress(x); err != nil {
			return "", &usageError{err, "give an address as in 10.0.0.1"}
		}
		fmt.Fprintf(&text, "  - {id: %d, address: %s}\n", i, x)
	}
	if len(addresses) > pod.MaxServer+1 {
		return "", &usageError{fmt.Errorf("%d servers are too many", len(addresses)),
			fmt.Sprintf("a pod has %d at most", pod.MaxServer+1)}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	key := make([]byte, 32)
	rand.Read(key) //nolint:errcheck // it never fails
	file = filepath.Join(dir, "pod.yaml")
	for _, f := range []struct {
		name, text string
		mode       os.FileMode
	}{{filepath.Join(dir, "pod.key"), hex.EncodeToString(key) + "\n", 0o600}, {file, text.String(), 0o644}} {
		if err := writeNew(f.name, f.text, f.mode); err != nil {
			return "", err
		}
	}
	return file, nil
}

// writeNew writes a file that is not there yet.
func writeNew(name, text string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// servers runs n copies of a program as servers of a pod on this machine, each in a network of its own if apart and
// where that is allowed. The exit code is that of the first that failed.
func (a *app) servers(p *launch, n int, apart bool) error {
	dir, err := os.MkdirTemp("", "ropeway-pod-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	addresses := slices.Repeat([]string{"127.0.0.1"}, n)
	var network *podNetwork
	if apart {
		if network, err = newPodNetwork(n); err != nil {
			fmt.Fprintf(a.stderr, "%s: no namespaces, servers have one network: %v\n", a.name, err)
		} else {
			defer network.close()
			addresses = network.addresses
		}
	}
	file, err := writePod(dir, addresses)
	if err != nil {
		return err
	}
	vars := []variable{
		{setup.EnvPod, file}, {"ROPEWAY_POD_SERVERS", fmt.Sprint(n)}, {"ROPEWAY_POD_ADDRESSES",
			strings.Join(addresses, ",")}, {"WORLD_SIZE", fmt.Sprint(n)},
	}
	if !slices.ContainsFunc(p.vars, func(v variable) bool { return v.name == setup.EnvProduct }) &&
		a.getenv(setup.EnvProduct) == "" {
		vars = append(vars, variable{setup.EnvProduct, "A3"})
	}
	signals := catchSignals()
	each := make([]chan os.Signal, n)
	for i := range each {
		each[i] = make(chan os.Signal, 16)
	}
	go func() {
		for s := range signals {
			for _, c := range each {
				select {
				case c <- s:
				default: // it has many to pass on already
				}
			}
		}
	}()
	type result struct {
		server int
		checkrun.Ending
		error
	}
	ended := make(chan result, n)
	var line sync.Mutex // held over a line of output
	for i := range n {
		own := append(slices.Clone(vars), variable{setup.EnvPodServer, fmt.Sprint(i)}, variable{"RANK", fmt.Sprint(i)})
		prefix := fmt.Sprintf("[%d] ", i)
		out, errs := &prefixed{w: a.stdout, prefix: prefix, mu: &line}, &prefixed{w: a.stderr, prefix: prefix,
			mu: &line}
		child := &exec.Cmd{Path: p.file, Args: p.args, Env: environment(p.environment(), own), Stdout: out,
			Stderr: errs}
		if i == 0 {
			child.Stdin = os.Stdin
		}
		if network != nil {
			child.Path, child.Args = network.command(i, p.file, p.args)
		}
		go func() {
			e, err := follow(p.file, child, each[i])
			out.end()
			errs.end()
			ended <- result{i, e, err}
		}()
	}
	var failed error
	for left := n - 1; left >= 0; left-- {
		r := <-ended
		how := ""
		switch {
		case r.error != nil:
			how, r.Code = r.error.Error(), exitCannotRun
		case r.Signal != 0:
			how = fmt.Sprintf("was ended by %s", r.Ending)
		case r.Code != 0:
			how = fmt.Sprintf("ended with exit code %d", r.Code)
		default:
			continue
		}
		if left > 0 {
			how += "; the others go on"
		}
		line.Lock()
		fmt.Fprintf(a.stderr, "%s: server %d %s\n", a.name, r.server, how)
		line.Unlock()
		if failed == nil {
			failed = exitCode(r.Code)
		}
	}
	return failed
}

// prefixed writes lines with a prefix.
type prefixed struct {
	w      io.Writer
	prefix string
	mu     *sync.Mutex // held over each line
	rest   []byte      // of a line that is not complete
}

// Write implements io.Writer.
func (p *prefixed) Write(b []byte) (int, error) {
	p.rest = append(p.rest, b...)
	for {
		i := bytes.IndexByte(p.rest, '\n')
		if i < 0 {
			return len(b), nil
		}
		if err := p.line(p.rest[:i]); err != nil {
			return 0, err
		}
		p.rest = p.rest[i+1:]
	}
}

func (p *prefixed) line(text []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.w, "%s%s\n", p.prefix, text)
	return err
}

// end writes a last line that has no end.
func (p *prefixed) end() {
	if len(p.rest) > 0 {
		p.line(p.rest) //nolint:errcheck // nobody reads it
	}
}
