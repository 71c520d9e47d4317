package core

import (
	"math"
	"sync/atomic"
)

// opTime is the time limit of operators. There are none, so it is only remembered.
type opTime struct {
	set   atomic.Bool
	value atomic.Uint64 // microseconds asked for; 0 is the longest
}

const (
	opSteps   = 254     // a limit is 1 to 254 intervals
	maxOpTime = 1000000 // ms, what aclrtSetOpExecuteTimeOutWithMs takes at most
)

func (o *opTime) store(us uint64) {
	o.value.Store(us)
	o.set.Store(true)
}

// opLimit is the limit that a product uses where us microseconds are asked for, and whether it is the longest one
// because 0 or too much was. The longest is math.MaxUint64 after 0 where the product knows "never".
func (rt *Runtime) opLimit(us uint64) (limit uint64, longest bool) {
	p := rt.prod
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

// SetOpExecuteTimeOut is aclrtSetOpExecuteTimeOut, in seconds.
func (t *Thread) SetOpExecuteTimeOut(timeout uint32) *Error {
	t.rt.opTime.store(uint64(timeout) * 1e6)
	return nil
}

// SetOpExecuteTimeOutWithMs is aclrtSetOpExecuteTimeOutWithMs.
func (t *Thread) SetOpExecuteTimeOutWithMs(timeout uint32) *Error {
	t.rt.opTime.store(uint64(min(timeout, maxOpTime)) * 1e3)
	return nil
}

// SetOpExecuteTimeOutV2 is aclrtSetOpExecuteTimeOutV2, in microseconds.
func (t *Thread) SetOpExecuteTimeOutV2(timeout uint64, actualTimeout *uint64) *Error {
	if _, err := t.checkSetOpExecuteTimeOutV2(timeout, actualTimeout); err != nil {
		return err
	}
	t.rt.opTime.store(timeout)
	*actualTimeout, _ = t.rt.opLimit(timeout)
	return nil
}

// GetOpTimeOutInterval is aclrtGetOpTimeOutInterval, in microseconds.
func (t *Thread) GetOpTimeOutInterval(interval *uint64) *Error {
	if _, err := t.checkGetOpTimeOutInterval(interval); err != nil {
		return err
	}
	*interval = t.rt.prod.OpInterval
	return nil
}

// GetOpExecuteTimeout is aclrtGetOpExecuteTimeout, in milliseconds. Where a product knows "never", that is also its
// answer to more than the longest limit.
func (t *Thread) GetOpExecuteTimeout(timeoutMs *uint32) *Error {
	if timeoutMs == nil {
		return isNull("aclrtGetOpExecuteTimeout", "timeoutMs")
	}
	us, longest := t.rt.prod.OpDefault, false
	if t.rt.opTime.set.Load() {
		us, longest = t.rt.opLimit(t.rt.opTime.value.Load())
	}
	if longest && t.rt.prod.OpNever {
		*timeoutMs = math.MaxUint32
	} else {
		*timeoutMs = uint32((us + 999) / 1000)
	}
	return nil
}
