package setup

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/product"
)

// The variables that are read.
const (
	EnvProduct      = "ROPEWAY_PRODUCT"
	EnvForm         = "ROPEWAY_FORM"
	EnvDevices      = "ROPEWAY_DEVICES"
	EnvDeviceMemory = "ROPEWAY_DEVICE_MEMORY"
	EnvDriver       = "ROPEWAY_DRIVER"
	EnvVisible      = "ASCEND_RT_VISIBLE_DEVICES"
	EnvBlocking     = "ASCEND_LAUNCH_BLOCKING"
	EnvLogLevel     = "ASCEND_GLOBAL_LOG_LEVEL"
	EnvSlogStdout   = "ASCEND_SLOG_PRINT_TO_STDOUT"
	EnvLogStdout    = "ASCEND_LOG_PRINT_TO_STDOUT"
	EnvLogPath      = "ASCEND_PROCESS_LOG_PATH"
	EnvHome         = "ASCEND_HOME_PATH"
	EnvCheck        = "ROPEWAY_CHECK"
	EnvCheckReport  = "ROPEWAY_CHECK_REPORT"
	EnvInject       = "ROPEWAY_INJECT"
	EnvSuppress     = "ROPEWAY_SUPPRESS"
	EnvTrace        = "ROPEWAY_TRACE"
	EnvCUDAShare    = "ROPEWAY_CUDA_SHARE"
	EnvStrict       = "ROPEWAY_STRICT"
	EnvPod          = "ROPEWAY_POD"
	EnvPodServer    = "ROPEWAY_POD_SERVER"
	EnvKernels      = "ROPEWAY_KERNELS"
)

// DefaultDevices is how many devices there are by default.
const DefaultDevices = 8

const (
	mostDevices = 64       // as many as a process can see
	leastMemory = 64 << 20 // of a device
)

// Settings say what to open. Read makes them; the caller of Open may change them before.
type Settings struct {
	Product      *product.Product
	Devices      int     // 0 is a machine without devices
	Counted      bool    // the number was set; else no more GPUs are used than there are
	DeviceMemory uint64  // bytes of each device; 0 is the driver's default
	Driver       string  // "soft" or "cuda"
	CUDAShare    int     // percent of a GPU's multiprocessors that copies may take; 0 is the driver's default
	Visible      *string // ASCEND_RT_VISIBLE_DEVICES, nil if it is not set
	Blocking     bool    // ASCEND_LAUNCH_BLOCKING
	Strict       bool    // what the documents forbid is refused on every product
	Log          LogSettings
	Home         string  // ASCEND_HOME_PATH: where package versions are read
	Check        Checker // nil: the program is not checked
	Trace        string  // directory for what is recorded; "": nothing is
	Pod          Pod     // other servers; nil: there are none
	Kernels      string  // directory with shared objects that stand in for NPU binaries; "": there is none

	Logger *slog.Logger // takes warnings and what Log is for, instead of both; nil: there is none

	Tracer observe.Tracer // receives what runs when, beside the recorder; may be nil

	// Wrap returns a driver in front of the one that the settings name, in tests; may be nil.
	Wrap func(driver.Driver) driver.Driver

	// Shade is called with the addresses of pinned memory the program must not use, or may use again, by the drivers
	// that keep such memory apart; may be nil.
	Shade func(lo, hi uintptr, forbidden bool)

	// Notes are mistakes that are no reason not to open, one line each. Open prints them.
	Notes []string
}

// Error says why nothing can be opened.
type Error struct {
	Code  abi.Code // what every C call returns then
	Lines []string // one for each thing that is wrong, fit to be printed
	Err   error    // the cause, or nil
}

// Error is the lines, one below the other.
func (e *Error) Error() string { return strings.Join(e.Lines, "\n") }

// Is makes errors.Is(err, code) true.
func (e *Error) Is(target error) bool { c, ok := target.(abi.Code); return ok && c == e.Code }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read reads the variables that lookup (os.LookupEnv, for one) knows. A variable that is empty counts as not set,
// except for ASCEND_RT_VISIBLE_DEVICES, where an empty list hides every device. The error is an [*Error] with a line
// for every bad value. Bad values of variables that only concern the log become notes.
func Read(lookup func(string) (string, bool)) (Settings, error) {
	r := reader{lookup: lookup}
	s := Settings{
		Product:      r.product(),
		Devices:      r.devices(),
		Counted:      r.value(EnvDevices) != "",
		DeviceMemory: r.deviceMemory(),
		Driver:       r.driver(),
		CUDAShare:    r.cudaShare(),
		Blocking:     r.switched(EnvBlocking),
		Strict:       r.switched(EnvStrict),
		Log:          r.log(),
		Home:         r.value(EnvHome),
		Check:        r.check(),
		Trace:        r.value(EnvTrace),
		Pod:          r.pod(),
		Kernels:      r.value(EnvKernels),
	}
	if list, set := lookup(EnvVisible); set {
		s.Visible = &list
	}
	if s.Check != nil && s.Driver == CUDADriver {
		r.notes = append(r.notes, "on a GPU the checker does not see what the host reads and writes; check with the "+
			"driver soft")
	}
	s.Notes = r.notes
	if r.err != nil {
		return Settings{}, r.err
	}
	return s, nil
}

// reader reads variables and collects what is wrong with them.
type reader struct {
	lookup func(string) (string, bool)
	err    *Error
	notes  []string
}

// value is what a variable says, "" if it is not set.
func (r *reader) value(name string) string {
	v, _ := r.lookup(name)
	return strings.TrimSpace(v)
}

// refuse notes a value that nothing can be opened with. The first one decides on the code.
func (r *reader) refuse(code abi.Code, name, value, why string) {
	if r.err == nil {
		r.err = &Error{Code: code}
	}
	r.err.Lines = append(r.err.Lines, fmt.Sprintf("%s=%q is refused: %s", name, value, why))
}

// ignore notes a value that is replaced by the default.
func (r *reader) ignore(name, value, instead, why string) {
	r.notes = append(r.notes, fmt.Sprintf("%s=%q is ignored, as if it were %s: %s", name, value, instead, why))
}

func (r *reader) product() *product.Product {
	name, form := r.value(EnvProduct), r.value(EnvForm)
	if _, err := product.Find(name, ""); err != nil {
		r.refuse(abi.ErrInvalidParam, EnvProduct, name, err.Error())
		name = product.RCForms()[0] // comes in every form, so that the form is looked at too
	}
	p, err := product.Find(name, form)
	if err != nil {
		r.refuse(abi.ErrInvalidParam, EnvForm, form, err.Error())
	}
	return p
}

func (r *reader) devices() int {
	v := r.value(EnvDevices)
	if v == "" {
		return DefaultDevices
	}
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil || n > mostDevices {
		r.refuse(abi.ErrInvalidParam, EnvDevices, v, fmt.Sprintf("it takes a whole number from 0 to %d", mostDevices))
	}
	return int(n)
}

func (r *reader) deviceMemory() uint64 {
	v := r.value(EnvDeviceMemory)
	if v == "" {
		return 0
	}
	n, err := ParseSize(v)
	switch {
	case err != nil:
		r.refuse(abi.ErrInvalidParam, EnvDeviceMemory, v, err.Error()+
			"; it takes bytes, or a number with a unit, like 512M or 64GiB")
	case n < leastMemory:
		r.refuse(abi.ErrInvalidParam, EnvDeviceMemory, v, "a device has at least 64M")
	}
	return n
}

func (r *reader) driver() string {
	v := r.value(EnvDriver)
	switch name := strings.ToLower(v); name {
	case "", softDriver:
		return softDriver
	case CUDADriver:
		if drivers[name] == nil {
			r.refuse(abi.ErrRTFeatureNotSupport, EnvDriver, v, notLinked("this driver", "driver/"+name))
		}
		return name
	case "ascend":
		r.refuse(abi.ErrRTFeatureNotSupport, EnvDriver, v, "this driver is not built yet; it takes soft or cuda")
	default:
		r.refuse(abi.ErrInvalidParam, EnvDriver, v, "there is no such driver; it takes soft or cuda")
	}
	return ""
}

func (r *reader) cudaShare() int {
	v := r.value(EnvCUDAShare)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil || n < 1 || n > 100 {
		r.refuse(abi.ErrInvalidParam, EnvCUDAShare, v, "it takes a percentage from 1 to 100, without the sign")
	}
	return int(n)
}

func (r *reader) pod() Pod {
	file := r.value(EnvPod)
	if file == "" {
		return nil
	}
	if readPod == nil {
		r.refuse(abi.ErrRTFeatureNotSupport, EnvPod, file, notLinked("other servers", "pod"))
		return nil
	}
	p, err := readPod(file, r.value(EnvPodServer))
	if err != nil {
		r.refuse(abi.ErrInvalidParam, EnvPod, file, err.Error())
		return nil
	}
	return p
}

// UsePod makes a process a server of a pod, instead of ROPEWAY_POD. server is as in ROPEWAY_POD_SERVER.
func (s *Settings) UsePod(file, server string) (err error) {
	if s.Pod = nil; file != "" {
		s.Pod, err = readPod(file, server)
	}
	return err
}

// onOff are the values of a switch.
const onOff = "it takes 0 or 1"

// switched reads a variable that is off (0) or on (1).
func (r *reader) switched(name string) bool {
	v := r.value(name)
	if v != "" && v != "0" && v != "1" {
		r.refuse(abi.ErrInvalidParam, name, v, onOff)
	}
	return v == "1"
}
