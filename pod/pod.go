// Package pod gives access to memory of other servers. Servers that share device memory are a pod: a file with their
// addresses and the name of a key file, which ropeway pod init writes. A program that imports the package is a server
// of the pod that ROPEWAY_POD names:
//
//	import _ "ropeway/pod"
//
// or that it passes to [With]. Only the product A3 has links between servers. One server shares memory with
// [ropeway.Physical.ShareFabric], another opens it with [ropeway.Device.ImportFabric], maps it and copies. Buffers
// and notifies have keys for named processes: [ropeway.Buffer.ShareWith], [ropeway.Notify.ShareWith]. The process
// does not listen before it shares something. The package does not use cgo. See docs/pod.md.
package pod

import (
	"os"
	"strconv"

	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/core/process"
	"ropeway/internal/goapi"
	"ropeway/internal/setup"

	_ "ropeway/internal/setup/podservers" // reads the file
)

// With makes the runtime a server of the pod described in a file, instead of ROPEWAY_POD; "" means no pod.
// ROPEWAY_POD_SERVER is the number of this server; without it, it is the server whose address this machine has.
func With(file string) ropeway.Option {
	return option(func() string { return os.Getenv(setup.EnvPodServer) }, file, setup.EnvPod)
}

// WithServer is [With] with the number of this server, instead of ROPEWAY_POD_SERVER.
func WithServer(file string, server int) ropeway.Option {
	return option(func() string { return strconv.Itoa(server) }, file, setup.EnvPod, setup.EnvPodServer)
}

func option(server func() string, file string, variables ...string) ropeway.Option {
	return goapi.Option(func(s *setup.Settings) error { return s.UsePod(file, server()) },
		variables...).(ropeway.Option)
}

// Server returns the number of a device's server; 0 without a pod. It fails on products without links between
// servers.
func Server(d *ropeway.Device) (int, error) {
	t, id := goapi.Device(d)
	var n int64
	err := process.GetDeviceInfo(t, uint32(id), abi.DevAttrSuperPodServerId, &n)
	return int(n), goapi.Result(t, err)
}

// Self returns this process, for [ropeway.Buffer.ShareWith] and [ropeway.Notify.ShareWith] on other servers. d is any
// of its devices.
func Self(d *ropeway.Device) (ropeway.Process, error) {
	server, err := Server(d)
	if err != nil {
		return ropeway.Process{}, err
	}
	return ropeway.Process{Server: server, PID: os.Getpid()}, nil
}
