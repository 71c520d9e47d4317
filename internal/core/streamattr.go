package core

import "ropeway/internal/abi"

// orDefault is s, or the default stream of the context where s is nil.
func (c *Context) orDefault(s *Stream) *Stream {
	if s == nil {
		return c.Default
	}
	return s
}

// must finds the stream for a call that needs a current context: s, or the default stream of the context.
func (t *Thread) must(api string, s *Stream) (*Stream, *Error) {
	c := t.Current()
	if c == nil {
		return nil, NoCurrentContext(api)
	}
	return c.orDefault(s), nil
}

// StreamGetPriority is aclrtStreamGetPriority.
func (t *Thread) StreamGetPriority(stream Handle, priority *uint32) *Error {
	s, c, err := t.checkStreamGetPriority(stream, priority)
	if err != nil {
		return err
	}
	*priority = c.orDefault(s).priority.Load()
	return nil
}

// StreamGetFlags is aclrtStreamGetFlags.
func (t *Thread) StreamGetFlags(stream Handle, flags *uint32) *Error {
	s, c, err := t.checkStreamGetFlags(stream, flags)
	if err != nil {
		return err
	}
	*flags = c.orDefault(s).flags
	return nil
}

// StreamGetId is aclrtStreamGetId. Only the default stream needs a context.
func (t *Thread) StreamGetId(stream Handle, streamID *int32) *Error {
	s, err := t.checkStreamGetId(stream, streamID)
	if err != nil {
		return err
	}
	*streamID = s.ID
	return nil
}

// GetStreamAvailableNum is aclrtGetStreamAvailableNum.
func (t *Thread) GetStreamAvailableNum(streamCount *uint32) *Error {
	c, err := t.checkGetStreamAvailableNum(streamCount)
	if err != nil {
		return err
	}
	*streamCount = uint32(max(0, int32(t.Runtime.Product.Streams)-c.Device.streams.Load()))
	return nil
}

// SetStreamFailureMode is aclrtSetStreamFailureMode. Of mode only bit 0 counts.
func (t *Thread) SetStreamFailureMode(stream Handle, mode uint64) *Error {
	const api = "aclrtSetStreamFailureMode"
	s, err := t.checkSetStreamFailureMode(stream, mode)
	if err != nil {
		return err
	}
	return t.setFailureMode(api, s, mode)
}

func (t *Thread) setFailureMode(api string, s *Stream, mode uint64) *Error {
	if t.Runtime.Product.Name == "310" {
		return Unsupported(api, "", "%s has no failure modes", t.Runtime.Product.Name)
	}
	c := t.Current()
	if err := t.NoDefault(api, s, c); err != nil {
		return err
	}
	if s != nil && s.flags&abi.StreamDeviceUseOnly != 0 {
		return Unsupported(api, "stream", "stream %d is for the device only and has no failure mode", s.ID)
	}
	if c == nil {
		return NoCurrentContext(api)
	}
	if s == nil {
		s = c.Default
	}
	if s.IsBound() {
		return Unsupported(api, "stream", "stream %d is bound to a model and has no failure mode of its own", s.ID)
	}
	stop := mode&1 == abi.StopOnFailure
	switch {
	case s.stops.Load() == stop:
		return nil
	case !stop:
		return Unsupported(api, "mode", "stream %d stops on failure, and that cannot be taken back", s.ID)
	case s.Context.failed.Load() != 0:
		return Unsupported(api, "stream", "the context of stream %d has stopped after a failure; destroy it", s.ID)
	}
	if _, err := c.On(api, s); err != nil {
		return err
	}
	s.stops.Store(true)
	c.stops.Store(true)
	return nil
}

// SetStreamOverflowSwitch is aclrtSetStreamOverflowSwitch.
func (t *Thread) SetStreamOverflowSwitch(stream Handle, flag uint32) *Error {
	s, _, err := t.checkSetStreamOverflowSwitch(stream, flag)
	if err != nil {
		return err
	}
	s.overflow.Store(flag)
	return nil
}

// GetStreamOverflowSwitch is aclrtGetStreamOverflowSwitch.
func (t *Thread) GetStreamOverflowSwitch(stream Handle, flag *uint32) *Error {
	s, _, err := t.checkGetStreamOverflowSwitch(stream, flag)
	if err != nil {
		return err
	}
	*flag = s.overflow.Load()
	return nil
}

// overflow finds the stream whose overflow switch is meant; it belongs to the current context.
func (t *Thread) overflow(api string, s *Stream) (*Stream, *Error) {
	c := t.Current()
	if c == nil {
		return nil, NoCurrentContext(api)
	}
	s, err := c.On(api, s)
	if err != nil {
		return nil, err
	}
	if !t.Runtime.Product.Modern {
		return nil, Unsupported(api, "", "%s has no overflow switch of a stream", t.Runtime.Product.Name)
	}
	return s, nil
}

// SetStreamAttribute is aclrtSetStreamAttribute. Failure mode and overflow switch have the checks of their own calls.
// A priority counts for the getters; the queue keeps the one it was made with.
func (t *Thread) SetStreamAttribute(stream Handle, stmAttrType abi.StreamAttr, value *abi.StreamAttrValue) *Error {
	const api = "aclrtSetStreamAttribute"
	s, err := t.checkSetStreamAttribute(stream, stmAttrType, value)
	if err != nil {
		return err
	}
	switch stmAttrType {
	case abi.StreamAttrFailureMode:
		return t.setFailureMode(api, s, *value.FailureMode())
	case abi.StreamAttrFloatOverflowCheck:
		flag := *value.OverflowSwitch()
		if flag > 1 {
			return Invalid(api, "value", "%d is neither 0 (off) nor 1 (on)", flag)
		}
		if s, err = t.overflow(api, s); err == nil {
			s.overflow.Store(flag)
		}
		return err
	}
	if s, err = t.must(api, s); err != nil {
		return err
	}
	wanted := *value
	s.mu.Lock()
	defer s.mu.Unlock()
	switch stmAttrType {
	case abi.StreamAttrUserCustomTag:
		s.tag = *wanted.UserCustomTag()
	case abi.StreamAttrCacheOpInfo:
		s.cacheInfo = *wanted.CacheOpInfoSwitch()
	case abi.StreamAttrPriority:
		s.priority.Store(min(*wanted.StreamPriority(), LowestPriority))
	}
	return nil
}

// GetStreamAttribute is aclrtGetStreamAttribute.
func (t *Thread) GetStreamAttribute(stream Handle, stmAttrType abi.StreamAttr, value *abi.StreamAttrValue) *Error {
	const api = "aclrtGetStreamAttribute"
	s, err := t.checkGetStreamAttribute(stream, stmAttrType, value)
	if err != nil {
		return err
	}
	if s, err = t.must(api, s); err != nil {
		return err
	}
	var tag uint32
	var cacheInfo uint32
	Locked(&s.mu, func() { tag, cacheInfo = s.tag, s.cacheInfo })
	switch stmAttrType {
	case abi.StreamAttrFailureMode:
		*value.FailureMode() = abi.ContinueOnFailure
		if s.stops.Load() {
			*value.FailureMode() = abi.StopOnFailure
		}
	case abi.StreamAttrFloatOverflowCheck:
		*value.OverflowSwitch() = s.overflow.Load()
	case abi.StreamAttrUserCustomTag:
		*value.UserCustomTag() = tag
	case abi.StreamAttrCacheOpInfo:
		*value.CacheOpInfoSwitch() = cacheInfo
	case abi.StreamAttrPriority:
		*value.StreamPriority() = s.priority.Load()
	}
	return nil
}
