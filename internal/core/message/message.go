// Package message keeps the errors of calls and writes the texts of aclGetRecentErrMsg, in the vendor's form.
package message

import (
	"fmt"
	"os"
	"strings"
	"time"

	"ropeway/internal/abi"
)

// Text is a recent error.
type Text struct {
	At      time.Time
	Err     error
	Code    abi.Code
	Null    bool // an argument is NULL
	Unbuilt bool // the function is not built
	Lost    bool // a device or another server does not answer
}

// Texts is a list of recent errors, oldest first.
type Texts []Text

// maxTexts is the most errors kept; older ones are dropped.
const maxTexts = 32

// With returns the list with x appended, without the oldest if there are too many. It changes the list.
func (l Texts) With(x Text) Texts {
	if len(l) == maxTexts {
		copy(l, l[1:])
		l = l[:maxTexts-1]
	}
	return append(l, x)
}

// String returns the texts in the vendor's form.
func (l Texts) String() string {
	if len(l) == 0 {
		return ""
	}
	var b strings.Builder
	for _, x := range l {
		c := classOf(x)
		fmt.Fprintf(&b, "[PID: %d] %s %s(%s): %s\n", os.Getpid(), stamp(x.At), c.title, c.number,
			WithoutCode(x.Err, x.Code))
		if c.cause != "" {
			fmt.Fprintf(&b, "        Possible Cause: %s\n", c.cause)
		}
		if c.solution != "" {
			fmt.Fprintf(&b, "        Solution: %s\n", c.solution)
		}
	}
	b.WriteString("TraceBack (most recent call last):\n")
	for _, x := range l {
		fmt.Fprintf(&b, "        %s\n", x.Err)
	}
	return b.String()
}

// stamp formats a time like 2026-03-01-14:05:09.123.456.
func stamp(at time.Time) string {
	us := at.Nanosecond() / 1000
	return fmt.Sprintf("%s.%03d.%03d", at.Format("2006-01-02-15:04:05"), us/1000, us%1000)
}

// WithoutCode returns the text of an error without its code: the call, the argument and what is wrong with it.
func WithoutCode(err error, code abi.Code) string {
	return strings.TrimSuffix(strings.TrimSuffix(err.Error(), code.Error()), ": ")
}

// class is a kind of error text. Numbers are from the vendor's ranges: EH for the ACL layer, EE for the runtime.
type class struct{ number, title, cause, solution string }

var (
	classNull     = class{"EH0002", "Null_Argument", "A required pointer is NULL.", "Pass the address of an object."}
	classArgument = class{"EH0001", "Invalid_Argument", "An argument is outside of what the function takes.",
		"Correct the argument; the message names its value and the limit."}
	classInit = class{"EH0003", "Initialisation_Order", "aclInit and aclFinalize are not called in pairs.",
		"Call aclInit once at the start and aclFinalize once at the end."}
	classFile = class{"EH0004", "Invalid_Configuration", "A file cannot be read, or what it says is wrong.",
		"Correct the file."}
	classOtherACL = class{number: "EH0014", title: "ACL_Error"}
	classValue    = class{"EE1001", "Invalid_Argument", "An argument does not fit the object it is used with.",
		"Correct the argument; the message names its value and the limit."}
	classNullValue = class{"EE1004", "Null_Argument", "A required pointer is NULL.", "Pass the address of an object."}
	classTimeout   = class{"EE1002", "Timeout",
		"The work takes longer than the time given, or waits for something that never comes.",
		"Give more time, or find out what the stream waits for."}
	classDevice = class{"EE1003", "Invalid_Device",
		"There is no device with this number, or ASCEND_RT_VISIBLE_DEVICES hides it.",
		"Use a number from 0 to aclrtGetDeviceCount - 1."}
	classFeature = class{"EE1005", "Feature_Not_Supported",
		"The product, its form or its driver does not have the feature.", "Use another way, or another product."}
	classUnbuilt = class{"EE1005", "Feature_Not_Supported", "ropeway does not have this function yet.",
		"Do without it; \"ropeway explain\" with its name says what it does."}
	classResource = class{"EE1006", "Resource_Exhausted", "All of a limited resource is in use.",
		"Destroy what is no longer needed."}
	classMemory = class{"EE1007", "Memory_Exhausted", "There is not enough free memory.",
		"Free memory, or ask for less; aclrtGetMemInfo returns how much there is."}
	classHandle = class{"EE1008", "Invalid_Handle", "The object was destroyed, or is of another kind.",
		"Use objects only between their creation and their destruction."}
	classForeign = class{"EE1009", "Wrong_Context",
		"The object belongs to another context than the one current in this thread.",
		"Call aclrtSetCurrentContext with the context of the object first."}
	classSubscribe = class{"EE1010", "Subscription_Conflict",
		"The stream has no subscription, has one already, or runs host functions.",
		"Call aclrtSubscribeReport once for each stream, and use either aclrtLaunchCallback or " +
			"aclrtLaunchHostFunc on it."}
	classEvent = class{"EE1011", "Invalid_Event_Time",
		"The event was not recorded with a time, or has not run yet.",
		"Create it with ACL_EVENT_TIME_LINE, record it and wait for it."}
	classAbort = class{"EE1012", "Task_Aborted", "The stream or the device was aborted.",
		"Submit the work again if it is still wanted."}
	classSetup = class{"EE1013", "Device_Not_Set",
		"The device was not set in this process, or was reset too often.",
		"Call aclrtSetDevice first, and aclrtResetDevice as often as aclrtSetDevice."}
	classRegistered = class{"EE1014", "Host_Registration",
		"The host memory is registered already, or was never registered.",
		"Pair aclrtHostRegister and aclrtHostUnregister by the start address."}
	classContext = class{"EE1018", "No_Context",
		"No device or context was set in this thread; threads inherit none.",
		"Call aclrtSetDevice or aclrtSetCurrentContext in this thread first."}
	classOther  = class{number: "EE1023", title: "Runtime_Error"}
	classDriver = class{number: "EE2002", title: "Driver_Error"}
	classTask   = class{"EE4001", "Task_Failed", "A task that was queued earlier failed on the device.",
		"Check the addresses and sizes of the task that the message names."}
	classLost = class{"EE4002", "Lost", "A device, or another server of the pod, has failed or does not answer.",
		"Fix the device or server that the message names. Memory of another server can be used again when its " +
			"process is back on the network; if that process was restarted, import the memory again."}
)

// classOf returns the class of an error's text.
func classOf(x Text) class {
	if x.Lost {
		return classLost
	}
	switch x.Code {
	case abi.ErrInvalidParam:
		if x.Null {
			return classNull
		}
		return classArgument
	case abi.ErrUninitialize, abi.ErrRepeatInitialize, abi.ErrRepeatFinalize:
		return classInit
	case abi.ErrInvalidFile, abi.ErrParseFile:
		return classFile
	case abi.ErrRTParamInvalid, abi.ErrRTAddrUnaligned, abi.ErrRTInvalidMemoryType, abi.ErrRTInvalidMallocType,
		abi.ErrRTSysparamoptNotSet:
		if x.Null {
			return classNullValue
		}
		return classValue
	case abi.ErrRTWaitTimeout, abi.ErrRTStreamSyncTimeout, abi.ErrRTEventSyncTimeout, abi.ErrRTReportTimeout,
		abi.ErrRTTimeout:
		return classTimeout
	case abi.ErrRTInvalidDeviceid, abi.ErrRTNoDevice:
		return classDevice
	case abi.ErrRTFeatureNotSupport, abi.ErrFeatureUnsupported:
		if x.Unbuilt {
			return classUnbuilt
		}
		return classFeature
	case abi.ErrRTResourceAllocFail, abi.ErrRTNoEventResource, abi.ErrRTNoStreamResource, abi.ErrRTNoNotifyResource:
		return classResource
	case abi.ErrRTMemoryAllocation, abi.ErrBadAlloc:
		return classMemory
	case abi.ErrRTInvalidHandle:
		return classHandle
	case abi.ErrRTStreamContext:
		return classForeign
	case abi.ErrRTStreamSubscribe, abi.ErrRTThreadSubscribe, abi.ErrRTStreamNoCbReg:
		return classSubscribe
	case abi.ErrRTEventTimestampInvalid, abi.ErrRTEventTimestampReversal:
		return classEvent
	case abi.ErrRTDeviceTaskAbort, abi.ErrRTStreamAbort:
		return classAbort
	case abi.ErrRTDevSetupError, abi.ErrRTContextReleaseError:
		return classSetup
	case abi.ErrHostMemoryAlreadyRegistered, abi.ErrHostMemoryNotRegistered:
		return classRegistered
	case abi.ErrRTContextNull:
		return classContext
	case abi.ErrRTDrvInternalError:
		return classDriver
	case abi.ErrRTSysDma, abi.ErrRTTaskTimeout, abi.ErrRTLostHeartbeat:
		return classTask
	}
	if x.Code/1000 == 107 || x.Code/1000 == 207 || x.Code/1000 == 507 {
		return classOther
	}
	return classOtherACL
}
