package core

import "ropeway/internal/abi"

// MemManagedGetAttr is aclrtMemManagedGetAttr.
func (t *Thread) MemManagedGetAttr(attribute abi.MemManagedRangeAttribute, ptr Addr, size uint64, data Addr, dataSize uint64) *Error {
	const api = "aclrtMemManagedGetAttr"
	if err := t.checkMemManagedGetAttr(attribute, ptr, size, data, dataSize); err != nil {
		return err
	}
	if err := unknownAttribute(api, attribute); err != nil {
		return err
	}
	err := t.managedAttributes(api, ptr, size, []managedQuestion{{attribute, data, dataSize}})
	if err != nil {
		err.at(-1) // there is but one
	}
	return err
}

// MemManagedGetAttrs is aclrtMemManagedGetAttrs.
func (t *Thread) MemManagedGetAttrs(attributes *abi.MemManagedRangeAttribute, numAttributes uint64, ptr Addr, size uint64, data *Addr, dataSizes *uint64) *Error {
	const api = "aclrtMemManagedGetAttrs"
	if err := t.checkMemManagedGetAttrs(attributes, numAttributes, ptr, size, data, dataSizes); err != nil {
		return err
	}
	var list []managedQuestion // grows with what is there: the number may be wrong
	to, room := array(data, numAttributes), array(dataSizes, numAttributes)
	for i, a := range array(attributes, numAttributes) {
		if err := unknownAttribute(api, a); err != nil {
			return err.at(i)
		}
		list = append(list, managedQuestion{a, to[i], room[i]})
	}
	return t.managedAttributes(api, ptr, size, list)
}

// managedQuestion is an attribute that is wanted, and where.
type managedQuestion struct {
	attribute abi.MemManagedRangeAttribute
	data      Addr
	size      uint64
}

// unknownAttribute refuses what is no attribute of managed memory.
func unknownAttribute(api string, a abi.MemManagedRangeAttribute) *Error {
	if a < abi.MemRangeAttributeReadMostly || a > abi.MemRangeAttributeLastPrefetchLocationId {
		return refused(api, "attribute", "%d is not 1 to 8", a)
	}
	return nil
}

// managedAttributes answers questions about a range: all of them, or none.
func (t *Thread) managedAttributes(api string, ptr Addr, size uint64, list []managedQuestion) *Error {
	if _, ok := t.rt.manager(); !ok {
		return t.noManaged(api).quiet()
	}
	span, first, number, ok := t.rt.managedIn(ptr, size)
	if !ok {
		return t.rt.notManaged(api, "ptr", ptr, size)
	}
	for i, q := range list {
		switch {
		case q.data == 0:
			return refused(api, "data", "is NULL").at(i)
		case q.attribute == abi.MemRangeAttributeAccessedBy && (q.size == 0 || q.size%4 != 0):
			return refused(api, "dataSize", "%d is no positive multiple of 4", q.size).at(i)
		case q.attribute != abi.MemRangeAttributeAccessedBy && q.size != 4:
			return refused(api, "dataSize", "%d is not 4", q.size).at(i)
		}
	}
	sum := memoryOf(t.rt).managed.sum(span, first, number)
	for _, q := range list {
		sum.answer(q)
	}
	return nil
}

// sum is what pages have in common.
func (s *managedState) sum(span *managedSpan, first, number uint64) managedAre {
	sum := managedAre{readMostly: true, byHost: true, byDevices: ^uint64(0)}
	begun := false
	s.each(span, first, number, func(p managedAre) {
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
func (p *managedAre) answer(q managedQuestion) {
	value := int32(0)
	switch q.attribute {
	case abi.MemRangeAttributeReadMostly:
		if p.readMostly {
			value = 1
		}
	case abi.MemRangeAttributeAccessedBy:
		p.accessedBy(q)
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
	*pointer[int32](q.data) = value
}

// accessedBy writes who is going to access the pages, as far as there is room, and fills the rest with none.
func (p *managedAre) accessedBy(q managedQuestion) {
	var list []int32
	if p.byHost {
		list = append(list, atHost)
	}
	for id := range int32(maxDevices) {
		if p.byDevices>>id&1 != 0 {
			list = append(list, id)
		}
	}
	for i := range q.size / 4 {
		value := int32(nowhere)
		if i < uint64(len(list)) {
			value = list[i]
		}
		*element[int32](q.data, i) = value
	}
}

// device is a place as the number of a device, the host, or none.
func (p managedPlace) device() int32 {
	switch p.kind {
	case abi.MemManagedLocationTypeInvalid:
		return nowhere
	case abi.MemManagedLocationTypeDevice:
		return p.id
	}
	return atHost
}

// number is the id of a place: of a device or a NUMA node.
func (p managedPlace) number() int32 {
	if p.kind == abi.MemManagedLocationTypeInvalid {
		return nowhere
	}
	return p.id
}
