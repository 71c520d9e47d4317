// Package podservers makes memory of other servers available to programs that import it, by ROPEWAY_POD.
package podservers

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/far"
	"ropeway/internal/pod"
	"ropeway/internal/setup"
)

func init() {
	setup.RegisterPod(func(file, server string) (setup.Pod, error) {
		c, err := pod.Read(file, server)
		if err != nil {
			return nil, err
		}
		return servers{c}, nil
	})
}

// CloseInChild sets the function that records which descriptors the child of a fork must close: see
// [pod.CloseInChild].
func CloseInChild(f func(fd int, closes bool)) { pod.CloseInChild(f) }

type servers struct{ config *pod.Config }

// Open implements setup.Pod.
func (s servers) Open(d driver.Driver) (driver.Driver, error) {
	n, err := pod.New(s.config)
	if err != nil {
		return nil, err
	}
	f, err := far.New(d, n)
	if err != nil {
		return nil, err
	}
	return f, nil
}
