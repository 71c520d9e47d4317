package process

import (
	"math"
	"sync/atomic"
	"time"

	"ropeway/internal/core"
)

// opTime is the time limit of kernels.
type opTime struct {
	set   atomic.Bool
	value atomic.Uint64 // requested microseconds; 0 is the longest limit
}

const (
	opSteps   = 254     // a limit is 1 to 254 intervals
	maxOpTime = 1000000 // ms, the most that aclrtSetOpExecuteTimeOutWithMs accepts
)

func (o *opTime) store(us uint64) {
	o.value.Store(us)
	o.set.Store(true)
}

// opLimit returns the limit that a product uses for a request of us microseconds, and whether it is the longest one
// because the request was 0 or too large. For 0 the longest is math.MaxUint64 if the product supports "never".
func opLimit(rt *core.Runtime, us uint64) (limit uint64, longest bool) {
	p := rt.Product
	steps := us / p.OpInterval
	if us%p.OpInterval != 0 {
		steps++
	}
	switch {
	case us == 0 && p.OpNever:
		return math.MaxUint64, true
	case us == 0 || steps > opSteps:
		return opSteps * p.OpInterval, true
	}
	return steps * p.OpInterval, false
}

// OpLimit returns the time limit of a kernel; 0: none. Only a limit that the program has set counts: see RATIONALE.md.
func OpLimit(rt *core.Runtime) time.Duration {
	o := &processOf(rt).opTime
	if !o.set.Load() {
		return 0
	}
	us, longest := opLimit(rt, o.value.Load())
	if longest && rt.Product.OpNever {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// SetOpExecuteTimeOut is aclrtSetOpExecuteTimeOut, in seconds.
func SetOpExecuteTimeOut(t *core.Thread, timeout uint32) *core.Error {
	processOf(t.Runtime).opTime.store(uint64(timeout) * 1e6)
	return nil
}

// SetOpExecuteTimeOutWithMs is aclrtSetOpExecuteTimeOutWithMs.
func SetOpExecuteTimeOutWithMs(t *core.Thread, timeout uint32) *core.Error {
	processOf(t.Runtime).opTime.store(uint64(min(timeout, maxOpTime)) * 1e3)
	return nil
}

// SetOpExecuteTimeOutV2 is aclrtSetOpExecuteTimeOutV2, in microseconds.
func SetOpExecuteTimeOutV2(t *core.Thread, timeout uint64, actualTimeout *uint64) *core.Error {
	if _, err := checkSetOpExecuteTimeOutV2(t, timeout, actualTimeout); err != nil {
		return err
	}
	processOf(t.Runtime).opTime.store(timeout)
	*actualTimeout, _ = opLimit(t.Runtime, timeout)
	return nil
}

// GetOpTimeOutInterval is aclrtGetOpTimeOutInterval, in microseconds.
func GetOpTimeOutInterval(t *core.Thread, interval *uint64) *core.Error {
	if _, err := checkGetOpTimeOutInterval(t, interval); err != nil {
		return err
	}
	*interval = t.Runtime.Product.OpInterval
	return nil
}

// GetOpExecuteTimeout is aclrtGetOpExecuteTimeout, in milliseconds. If the product supports "never", it also returns
// that for more than the longest limit.
func GetOpExecuteTimeout(t *core.Thread, timeoutMs *uint32) *core.Error {
	if err := checkGetOpExecuteTimeout(t, timeoutMs); err != nil {
		return err
	}
	us, longest := t.Runtime.Product.OpDefault, false
	if processOf(t.Runtime).opTime.set.Load() {
		us, longest = opLimit(t.Runtime, processOf(t.Runtime).opTime.value.Load())
	}
	if longest && t.Runtime.Product.OpNever {
		*timeoutMs = math.MaxUint32
	} else {
		*timeoutMs = uint32((us + 999) / 1000)
	}
	return nil
}
