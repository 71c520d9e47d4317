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

// The variables.
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

// DefaultDevices is the default number of devices.
const DefaultDevices = 8

const (
	mostDevices = 64       // most devices of a process
	leastMemory = 64 << 20 // least memory of a device
)

// Settings are the settings of a runtime. Read returns them, and the caller of Open may change them before.
type Settings struct {
	Product      *product.Product
	Devices      int     // 0: a machine without devices
	Counted      bool    // the number was set; else it is limited to the number of GPUs
	DeviceMemory uint64  // bytes of each device; 0: the driver's default
	Driver       string  // "soft" or "cuda"
	CUDAShare    int     // percent of a GPU's multiprocessors that copies may use; 0: the driver's default
	Visible      *string // ASCEND_RT_VISIBLE_DEVICES, nil if it is not set
	Blocking     bool    // ASCEND_LAUNCH_BLOCKING
	Strict       bool    // calls that the documents forbid are refused on every product
	Log          LogSettings
	Home         string  // ASCEND_HOME_PATH: directory with package versions
	Check        Checker // nil: the program is not checked
	Trace        string  // directory for recordings; "": none
	Pod          Pod     // other servers; nil: no pod
	Kernels      string  // directory with shared objects that stand in for NPU binaries; "": none

	Logger *slog.Logger // receives warnings and the log, instead of warn and Log; nil: none

	Tracer observe.Tracer // receives the reports of a tracer, besides the recorder; may be nil

	// Wrap returns a driver in front of the one that the settings name, in tests; may be nil.
	Wrap func(driver.Driver) driver.Driver

	// Shade is called with the addresses of pinned memory that the program must not use, or may use again, by drivers
	// that fence such memory; may be nil.
	Shade func(lo, hi uintptr, forbidden bool)

	// Notes are mistakes that do not prevent opening, one line each. Open prints them.
	Notes []string
}

// Error is the error if the settings are invalid or opening fails.
type Error struct {
	Code  abi.Code // result of every C call in that case
	Lines []string // one for each mistake, for printing
	Err   error    // the cause, or nil
}

// Error returns the lines, separated by newlines.
func (e *Error) Error() string { return strings.Join(e.Lines, "\n") }

// Is makes errors.Is(err, code) true.
func (e *Error) Is(target error) bool { c, ok := target.(abi.Code); return ok && c == e.Code }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read reads the variables by lookup, such as os.LookupEnv. An empty variable counts as not set, except for
// ASCEND_RT_VISIBLE_DEVICES, where an empty list hides every device. The error is an [*Error] with a line for every
// bad value. Bad values of variables that only concern the log become notes.
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

// reader reads variables and collects their mistakes.
type reader struct {
	lookup func(string) (string, bool)
	err    *Error
	notes  []string
}

// value returns the value of a variable, "" if it is not set.
func (r *reader) value(name string) string {
	v, _ := r.lookup(name)
	return strings.TrimSpace(v)
}

// refuse records an invalid value. The first one determines the code.
func (r *reader) refuse(code abi.Code, name, value, why string) {
	if r.err == nil {
		r.err = &Error{Code: code}
	}
	r.err.Lines = append(r.err.Lines, fmt.Sprintf("%s=%q is refused: %s", name, value, why))
}

// ignore records a value that is replaced by the default.
func (r *reader) ignore(name, value, instead, why string) {
	r.notes = append(r.notes, fmt.Sprintf("%s=%q is ignored, as if it were %s: %s", name, value, instead, why))
}

func (r *reader) product() *product.Product {
	name, form := r.value(EnvProduct), r.value(EnvForm)
	if _, err := product.Find(name, ""); err != nil {
		r.refuse(abi.ErrInvalidParam, EnvProduct, name, err.Error())
		name = product.RCForms()[0] // this product has every form, so that the form is checked too
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

// onOff describes the values of a switch.
const onOff = "it takes 0 or 1"

// switched reads a variable that is off (0) or on (1).
func (r *reader) switched(name string) bool {
	v := r.value(name)
	if v != "" && v != "0" && v != "1" {
		r.refuse(abi.ErrInvalidParam, name, v, onOff)
	}
	return v == "1"
}
