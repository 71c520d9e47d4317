package ucx

import (
	"errors"
	"fmt"
	"sync"

	"ropeway/internal/dl"
)

// Names that the loader finds UCX under; Debian's package is libucx0.
const (
	libucp = "libucp.so.0"
	libucs = "libucs.so.0"
)

// ErrMissing is the error if UCX is not installed.
var ErrMissing = errors.New("UCX is not installed (Debian: apt-get install libucx0)")

// functions has the addresses of functions of UCX.
type functions struct {
	ConfigRead, ConfigModify, ConfigRelease               uintptr
	Init, Cleanup                                         uintptr
	WorkerCreate, WorkerDestroy                           uintptr
	WorkerGetAddress, WorkerReleaseAddress                uintptr
	WorkerProgress, WorkerGetEFD, WorkerArm, WorkerSignal uintptr
	SetHandler, Send                                      uintptr
	EPCreate, EPClose                                     uintptr
	RequestFree                                           uintptr
	StatusString                                          uintptr
	sent, message, failed/* functions of ours that C calls */ uintptr
}

var (
	loadOnce sync.Once
	loadErr  error
	lib      functions // written by Load
)

// Load opens UCX, once per process; it stays open. ErrMissing if it is not installed.
func Load() error {
	loadOnce.Do(func() { loadErr = load() })
	return loadErr
}

func load() error {
	p, err := dl.Open(libucp)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrMissing, err)
	}
	s, err := dl.Open(libucs) // libucp has loaded it
	if err != nil {
		return fmt.Errorf("%w: %v", ErrMissing, err)
	}
	if err := quiet(s); err != nil {
		return err
	}
	for _, f := range []struct {
		in   *dl.Library
		to   *uintptr
		name string
	}{
		{p, &lib.ConfigRead, "ucp_config_read"},
		{p, &lib.ConfigModify, "ucp_config_modify"},
		{p, &lib.ConfigRelease, "ucp_config_release"},
		{p, &lib.Init, "ucp_init_version"},
		{p, &lib.Cleanup, "ucp_cleanup"},
		{p, &lib.WorkerCreate, "ucp_worker_create"},
		{p, &lib.WorkerDestroy, "ucp_worker_destroy"},
		{p, &lib.WorkerGetAddress, "ucp_worker_get_address"},
		{p, &lib.WorkerReleaseAddress, "ucp_worker_release_address"},
		{p, &lib.WorkerProgress, "ucp_worker_progress"},
		{p, &lib.WorkerGetEFD, "ucp_worker_get_efd"},
		{p, &lib.WorkerArm, "ucp_worker_arm"},
		{p, &lib.WorkerSignal, "ucp_worker_signal"},
		{p, &lib.SetHandler, "ucp_worker_set_am_recv_handler"},
		{p, &lib.Send, "ucp_am_send_nbx"},
		{p, &lib.EPCreate, "ucp_ep_create"},
		{p, &lib.EPClose, "ucp_ep_close_nbx"},
		{p, &lib.RequestFree, "ucp_request_free"},
		{s, &lib.StatusString, "ucs_status_string"},
	} {
		if *f.to, err = f.in.Symbol(f.name); err != nil {
			return err
		}
	}
	lib.sent, lib.message, lib.failed = dl.Callback(onSent), dl.Callback(onMessage), dl.Callback(onFailed)
	return nil
}

// quiet undoes side effects of loading UCX: its handlers for SIGSEGV and other signals, which belong to the Go
// runtime and the program, and its log lines in the program's standard output.
func quiet(s *dl.Library) error {
	disable, err := s.Symbol("ucs_debug_disable_signals")
	if err != nil {
		return err
	}
	dl.Call(disable)
	set, err := s.Symbol("ucs_global_opts_set_value")
	if err != nil {
		return err
	}
	for _, o := range []Option{
		{Name: "HANDLE_ERRORS", Value: "none"}, {Name: "LOG_LEVEL", Value: "fatal"},
		{Name: "WARN_UNUSED_ENV_VARS", Value: "n"},
	} {
		if o.asked() {
			continue
		}
		if err := check("ucs_global_opts_set_value", callText(set, o.Name, o.Value)); err != nil {
			return err
		}
	}
	return nil
}

// Status is an error code of UCX.
type Status int32

func (s Status) Error() string { return "UCX: " + statusText(s) }

// Canceled is the error of an operation whose endpoint was closed.
const Canceled = Status(statusCanceled)

// check converts the status of a function to an error that names the function.
func check(function string, status int32) error {
	if status >= 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", function, Status(status))
}
