package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// podNetwork is a network of its own for each server of a pod on this machine, with a bridge between them.
type podNetwork struct {
	ip        string   // the program that makes it
	hub       string   // namespace with the bridge
	servers   []string // their namespaces
	addresses []string // of the servers, on it
}

const (
	podDevice = "pod0"           // of a server
	ipLimit   = 10 * time.Second // for one call of ip, and for a device to come up
)

// newPodNetwork makes a network for n servers. It fails where that is not allowed, and leaves nothing then.
func newPodNetwork(n int) (_ *podNetwork, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root can make them")
	}
	w := &podNetwork{hub: fmt.Sprintf("ropeway-%d-hub", os.Getpid())}
	if w.ip, err = exec.LookPath("ip"); err != nil {
		return nil, errors.New("there is no program ip; install iproute2")
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := w.run("netns", "add", w.hub); err != nil {
		return nil, err
	}
	if err := w.in(w.hub, "link", "add", "bridge", "mtu", "9000", "type", "bridge"); err != nil {
		return nil, err
	}
	if err := w.in(w.hub, "link", "set", "bridge", "up"); err != nil {
		return nil, err
	}
	for i := range n {
		if err := w.add(i); err != nil {
			return nil, err
		}
	}
	for _, s := range w.servers {
		if err := w.wait(s); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// add makes the namespace of a server and joins it to the bridge.
func (w *podNetwork) add(i int) error {
	name, port := fmt.Sprintf("ropeway-%d-%d", os.Getpid(), i), fmt.Sprintf("p%d", i)
	if err := w.run("netns", "add", name); err != nil {
		return err
	}
	w.servers = append(w.servers, name)
	address := fmt.Sprintf("10.77.%d.%d", i/250, i%250+1)
	w.addresses = append(w.addresses, address)
	if err := w.run("link", "add", port, "mtu", "9000", "netns", w.hub, "type", "veth",
		"peer", "name", podDevice, "mtu", "9000", "netns", name); err != nil {
		return err
	}
	for _, c := range [][]string{
		{w.hub, "link", "set", port, "master", "bridge"}, {w.hub, "link", "set", port, "up"},
		{name, "addr", "add", address + "/16", "dev", podDevice}, {name, "link", "set", "lo", "up"},
		{name, "link", "set", podDevice, "up"}, {"", "netns", "exec", name, "true"}, // it mounts, which may be refused
	} {
		if err := w.in(c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until the device of a server is up.
func (w *podNetwork) wait(name string) error {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		out, err := w.output("-n", name, "-o", "link", "show", "dev", podDevice, "up")
		switch {
		case err != nil:
			return err
		case strings.Contains(out, "state UP"):
			return nil
		case time.Since(begin) > ipLimit:
			return fmt.Errorf("the device of %s does not come up: %s", name, out)
		}
	}
}

// close takes it away.
func (w *podNetwork) close() {
	for _, name := range append(w.servers, w.hub) {
		w.run("netns", "delete", name) //nolint:errcheck // it may not have been made
	}
}

// command is what runs a program in the network of a server.
func (w *podNetwork) command(server int, file string, args []string) (path string, words []string) {
	return w.ip, append([]string{w.ip, "netns", "exec", w.servers[server], file}, args[1:]...)
}

func (w *podNetwork) in(name string, args ...string) error {
	if name != "" {
		args = append([]string{"-n", name}, args...)
	}
	return w.run(args...)
}

func (w *podNetwork) run(args ...string) error {
	_, err := w.output(args...)
	return err
}

func (w *podNetwork) output(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ipLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, w.ip, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}
