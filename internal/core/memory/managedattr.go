package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// MemManagedGetAttr is aclrtMemManagedGetAttr.
func MemManagedGetAttr(t *core.Thread, attribute abi.MemManagedRangeAttribute, ptr core.Addr, size uint64,
	data core.Addr, dataSize uint64) *core.Error {
	const api = "aclrtMemManagedGetAttr"
	if err := checkMemManagedGetAttr(t, attribute, ptr, size, data, dataSize); err != nil {
		return err
	}
	if err := unknownAttribute(api, attribute); err != nil {
		return err
	}
	err := managedAttributes(t, api, ptr, size, []managedQuestion{{attribute, data, dataSize}})
	if err != nil {
		err.At(-1) // there is only one
	}
	return err
}

// MemManagedGetAttrs is aclrtMemManagedGetAttrs.
func MemManagedGetAttrs(t *core.Thread, attributes *abi.MemManagedRangeAttribute, numAttributes uint64, ptr core.Addr,
	size uint64, data *core.Addr, dataSizes *uint64) *core.Error {
	const api = "aclrtMemManagedGetAttrs"
	if err := checkMemManagedGetAttrs(t, attributes, numAttributes, ptr, size, data, dataSizes); err != nil {
		return err
	}
	var list []managedQuestion // grows as it is read: the number may be wrong
	to, room := core.Array(data, numAttributes), core.Array(dataSizes, numAttributes)
	for i, a := range core.Array(attributes, numAttributes) {
		if err := unknownAttribute(api, a); err != nil {
			return err.At(i)
		}
		list = append(list, managedQuestion{a, to[i], room[i]})
	}
	return managedAttributes(t, api, ptr, size, list)
}

// managedQuestion is a requested attribute, and the destination of its value.
type managedQuestion struct {
	attribute abi.MemManagedRangeAttribute
	data      core.Addr
	size      uint64
}

// unknownAttribute refuses a value that is not an attribute of managed memory.
func unknownAttribute(api string, a abi.MemManagedRangeAttribute) *core.Error {
	if a < abi.MemRangeAttributeReadMostly || a > abi.MemRangeAttributeLastPrefetchLocationId {
		return core.Refused(api, "attribute", "%d is not 1 to 8", a)
	}
	return nil
}

// managedAttributes writes attributes of a range: all of them, or none.
func managedAttributes(t *core.Thread, api string, ptr core.Addr, size uint64, list []managedQuestion) *core.Error {
	if _, ok := manager(t.Runtime); !ok {
		return noManaged(t, api).NotRecorded()
	}
	span, first, number, ok := managedIn(t.Runtime, ptr, size)
	if !ok {
		return notManaged(t.Runtime, api, "ptr", ptr, size)
	}
	for i, q := range list {
		switch {
		case q.data == 0:
			return core.Refused(api, "data", "is NULL").At(i)
		case q.attribute == abi.MemRangeAttributeAccessedBy && (q.size == 0 || q.size%4 != 0):
			return core.Refused(api, "dataSize", "%d is no positive multiple of 4", q.size).At(i)
		case q.attribute != abi.MemRangeAttributeAccessedBy && q.size != 4:
			return core.Refused(api, "dataSize", "%d is not 4", q.size).At(i)
		}
	}
	sum := memoryOf(t.Runtime).managed.sum(span, first, number)
	for _, q := range list {
		sum.answer(t, q)
	}
	return nil
}

// sum returns the common advice of pages.
func (s *managedState) sum(span *managedSpan, first, number uint64) pageAdvice {
	sum := pageAdvice{readMostly: true, byHost: true, byDevices: ^uint64(0)}
	begun := false
	s.each(span, first, number, func(p pageAdvice) {
		if !begun {
			begun, sum.preferred, sum.fetched = true, p.preferred, p.fetched
		}
		sum.readMostly = sum.readMostly && p.readMostly
		sum.byHost = sum.byHost && p.byHost
		sum.byDevices &= p.byDevices
		if p.preferred != sum.preferred {
			sum.preferred = managedPlace{}
		}
		if p.fetched != sum.fetched {
			sum.fetched = managedPlace{}
		}
	})
	return sum
}

// answer writes one attribute.
func (p *pageAdvice) answer(t *core.Thread, q managedQuestion) {
	value := int32(0)
	switch q.attribute {
	case abi.MemRangeAttributeReadMostly:
		if p.readMostly {
			value = 1
		}
	case abi.MemRangeAttributeAccessedBy:
		p.accessedBy(t, q)
		return
	case abi.MemRangeAttributePreferredLocation:
		value = p.preferred.device()
	case abi.MemRangeAttributePreferredLocationType:
		value = int32(p.preferred.kind)
	case abi.MemRangeAttributePreferredLocationId:
		value = p.preferred.number()
	case abi.MemRangeAttributeLastPrefetchLocation:
		value = p.fetched.device()
	case abi.MemRangeAttributeLastPrefetchLocationType:
		value = int32(p.fetched.kind)
	case abi.MemRangeAttributeLastPrefetchLocationId:
		value = p.fetched.number()
	}
	*core.Pointer[int32](q.data) = value
}

// accessedBy writes the devices that are going to access the pages, as far as there is room, and fills the rest with
// none.
func (p *pageAdvice) accessedBy(t *core.Thread, q managedQuestion) {
	var list []int32
	if p.byHost {
		list = append(list, atHost)
	}
	for id := range int32(core.MaxDevices) {
		if p.byDevices>>id&1 != 0 {
			list = append(list, id)
		}
	}
	to := core.ArrayOf(t, core.Pointer[int32](q.data), q.size/4)
	for i := range to {
		to[i] = nowhere
		if i < len(list) {
			to[i] = list[i]
		}
	}
}

// device returns a place as the number of a device, the host, or none.
func (p managedPlace) device() int32 {
	switch p.kind {
	case abi.MemManagedLocationTypeInvalid:
		return nowhere
	case abi.MemManagedLocationTypeDevice:
		return p.id
	}
	return atHost
}

// number returns the id of a place: of a device or a NUMA node.
func (p managedPlace) number() int32 {
	if p.kind == abi.MemManagedLocationTypeInvalid {
		return nowhere
	}
	return p.id
}
