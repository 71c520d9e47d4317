package model

import (
	"encoding/binary"
	"maps"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// A label is a place in a stream that is bound to a model. A task that jumps has an index into a list of labels. The
// handle of a list is the address of device memory with the numbers of the labels, but only the runtime's own list is
// used.

// label is a place in a lane.
type label struct {
	ctx    *core.Context // immutable
	handle core.Handle   // immutable
	id     uint32        // immutable

	listed bool  // guarded by state.mu; it is in a list
	lane   *lane // guarded by state.mu; the lane in which it is set; nil: not set
	task   int32 // guarded by state.mu; its task, an index of Model.tasks
}

// mostLabels is the most labels at a time.
const mostLabels = 65535

// findLabel returns the label of a handle.
func findLabel(t *core.Thread, api, arg string, h core.Handle) (*label, *core.Error) {
	if l := stateOf(t.Runtime).labels.Get(h); l != nil {
		return l, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no label, or one that was destroyed", uintptr(h)).
		Because(core.Gone, uintptr(h))
}

// labelContext refuses a label of another context.
func labelContext(t *core.Thread, api string, l *label, c *core.Context) *core.Error {
	if l.ctx != c {
		return core.Fail(api, abi.ErrRTLabelContext, "label",
			"belongs to context %#x, but %#x is current in this thread", uintptr(l.ctx.Handle), uintptr(c.Handle)).
			Because(core.OtherContext, 0)
	}
	return nil
}

// CreateLabel is aclrtCreateLabel.
func CreateLabel(t *core.Thread, label *core.Handle) *core.Error {
	const api = "aclrtCreateLabel"
	c, err := checkCreateLabel(t, label)
	if err != nil {
		return err
	}
	h := stateOf(t.Runtime).addLabel(c)
	if h == 0 {
		return core.Fail(api, abi.ErrRTInternalError, "", "the process has its %d labels in use; destroy some",
			mostLabels)
	}
	*label = h
	return nil
}

// addLabel adds a label and returns its handle; 0 if there are too many.
func (s *state) addLabel(c *core.Context) core.Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.labels.Count() == mostLabels || c.Gone() {
		return 0
	}
	s.labelIDs++
	l := &label{ctx: c, id: s.labelIDs}
	l.handle = s.labels.Add(l)
	return l.handle
}

// endLabels ends the labels of a context.
func (s *state) endLabels(c *core.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.labels.Each(func(l *label) {
		if l.ctx == c {
			s.labels.Remove(l.handle)
		}
	})
}

// DestroyLabel is aclrtDestroyLabel. Lists that have it keep it.
func DestroyLabel(t *core.Thread, label core.Handle) *core.Error {
	l, _, err := checkDestroyLabel(t, label)
	if err != nil {
		return err
	}
	stateOf(t.Runtime).labels.Remove(l.handle)
	return nil
}

// notInSub refuses labels on a stream that is captured into a sub-model.
func notInSub(t *core.Thread, api string, s *core.Stream) *core.Error {
	if l := s.Lane(); l != nil && l.Sub() && !t.Product("950") {
		return core.Unsupported(api, "stream",
			"stream %d is being captured into a sub-model of a condition task", s.ID).NotRecorded()
	}
	return nil
}

// settable refuses a label that is already set, or not in a list.
func settable(t *core.Thread, api string, l *label, s *core.Stream) *core.Error {
	st := stateOf(t.Runtime)
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case l.lane != nil && l.lane.user != s:
		return core.Fail(api, abi.ErrRTInternalError, "label", "is set on stream %d", l.lane.user.ID)
	case l.lane != nil:
		return core.Fail(api, abi.ErrRTInternalError, "label", "is set already")
	case !l.listed:
		return core.Fail(api, abi.ErrRTInternalError, "label", "is in no list; call aclrtCreateLabelList first")
	}
	return nil
}

// SetLabel is aclrtSetLabel.
func SetLabel(t *core.Thread, label, stream core.Handle) *core.Error {
	const api = "aclrtSetLabel"
	mark, s, _, err := checkSetLabel(t, label, stream)
	if err != nil {
		return err
	}
	l := laneBound(s)
	if l == nil {
		return isUnbound(api, s)
	}
	m := l.model
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := l.checkOpen(api); err != nil {
		return err
	}
	st := stateOf(t.Runtime)
	st.mu.Lock()
	defer st.mu.Unlock()
	mark.lane, mark.task = l, int32(len(m.tasks))
	l.add(t, &work{detail: setLabel{}})
	return nil
}

// labelList is a list of labels, in memory of an open device.
type labelList struct {
	dev    *core.OpenDevice
	labels []*label
}

// liveLabels refuses entries of a list that are not labels.
func liveLabels(t *core.Thread, api string, labels *core.Handle, num uint64) *core.Error {
	for i, h := range core.ArrayOf(t, labels, num) {
		if _, err := findLabel(t, api, "labels", h); err != nil {
			return err.At(i)
		}
	}
	return nil
}

// CreateLabelList is aclrtCreateLabelList.
func CreateLabelList(t *core.Thread, labels *core.Handle, num uint64, list *core.Handle) *core.Error {
	const api = "aclrtCreateLabelList"
	c, err := checkCreateLabelList(t, labels, num, list)
	if err != nil {
		return err
	}
	const each = 4 // bytes of a label's number
	table := make([]byte, each*num)
	l := &labelList{dev: c.Device.Opened.Load()}
	if l.dev == nil {
		return core.NoCurrentContext(api)
	}
	for i, h := range core.ArrayOf(t, labels, num) {
		mark, err := findLabel(t, api, "labels", h)
		if err != nil {
			return err.At(i)
		}
		binary.LittleEndian.PutUint32(table[each*i:], mark.id)
		l.labels = append(l.labels, mark)
	}
	addr, e := l.dev.Alloc(uint64(len(table)), driver.PageNormal)
	if e != nil {
		return core.FromDriver(api, "", e)
	}
	if e = store(t.Runtime, addr, table); e != nil {
		l.dev.Free(addr) //nolint:errcheck // ours
		return core.FromDriver(api, "", e)
	}
	if twice := stateOf(t.Runtime).addList(addr, l); twice >= 0 {
		l.dev.Free(addr) //nolint:errcheck // ours
		return core.Fail(api, abi.ErrRTInternalError, "labels", "the label is in a list already").At(twice)
	}
	*list = core.Handle(addr)
	return nil
}

// addList adds a list and returns -1, or returns the index of the first label that is already in a list, or twice in
// this one.
func (s *state) addList(addr core.Addr, l *labelList) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, mark := range l.labels {
		if mark.listed {
			for _, before := range l.labels[:i] {
				before.listed = false
			}
			return i
		}
		mark.listed = true
	}
	s.lists[addr] = l
	return -1
}

// DestroyLabelList is aclrtDestroyLabelList.
func DestroyLabelList(t *core.Thread, list core.Handle) *core.Error {
	const api = "aclrtDestroyLabelList"
	if err := checkDestroyLabelList(t, list); err != nil {
		return err
	}
	st := stateOf(t.Runtime)
	st.mu.Lock()
	l := st.lists[core.Addr(list)]
	delete(st.lists, core.Addr(list))
	st.mu.Unlock()
	if l != nil && l.dev.Free(core.Addr(list)) == nil {
		return nil
	}
	return noList(api, list)
}

func noList(api string, list core.Handle) *core.Error {
	return core.Refused(api, "labelList", "%#x is no list of labels, or one that was destroyed", uintptr(list)).
		Because(core.Gone, uintptr(list))
}

// DeviceClosed implements core.DeviceCloser: lists of labels end with the memory of their device.
func (s *state) DeviceClosed(_ *core.Device, was *core.OpenDevice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.lists, func(_ core.Addr, l *labelList) bool { return l.dev == was })
}

// knownList refuses a handle that is not a list of labels.
func knownList(t *core.Thread, api string, list core.Handle) *core.Error {
	if stateOf(t.Runtime).list(list) == nil {
		return noList(api, list)
	}
	return nil
}

func (s *state) list(h core.Handle) *labelList {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[core.Addr(h)]
}

// SwitchLabelByIndex is aclrtSwitchLabelByIndex.
func SwitchLabelByIndex(t *core.Thread, ptr core.Addr, maxValue uint32, list, stream core.Handle) *core.Error {
	const api = "aclrtSwitchLabelByIndex"
	s, _, err := checkSwitchLabelByIndex(t, ptr, maxValue, list, stream)
	if err != nil {
		return err
	}
	to := stateOf(t.Runtime).list(list)
	if to == nil {
		return noList(api, list)
	}
	return control(t, api, s, s, func(*lane) *work {
		return &work{op: driver.Op{Kind: driver.OpCompute, Src: ptr, N: 4}, detail: &jump{to, maxValue}}
	})
}

// at returns the place of a label by its index: a lane of m and a task; false if there is none.
func (l *labelList) at(m *Model, index uint64) (*lane, int32, bool) {
	st := stateOf(m.rt)
	st.mu.Lock()
	defer st.mu.Unlock()
	if index >= uint64(len(l.labels)) {
		return nil, 0, false
	}
	mark := l.labels[index]
	if mark.lane == nil || mark.lane.model != m {
		return nil, 0, false
	}
	return mark.lane, mark.task, true
}
