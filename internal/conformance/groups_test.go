package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
)

// grouped is a 310P on whose control CPU the program runs, and an array for its groups.
func grouped(e *env) (*env, core.Handle) {
	e.Helper()
	o := e.on(machine{product: "310P", form: "RC"})
	h := process.CreateGroupInfo(o.th)
	if h == 0 {
		e.Fatal("there is no array of groups")
	}
	return o, h
}

// groupDetail reads one number of a group.
func groupDetail(e *env, h core.Handle, index int32, attr abi.GroupAttr, n uint64) (uint32, *core.Error) {
	e.Helper()
	room := e.pageable(8)
	copy(bytes(room, 8), untouched)
	size := uint64(77)
	err := process.GetGroupInfoDetail(e.th, h, index, attr, room, n, &size)
	if want := map[bool]uint64{false: 77, true: 4}[err == nil]; size != want {
		e.Errorf("the size is %d, want %d", size, want)
	}
	is(e, "no more than 4 bytes are written", bytes(room, 8)[4], 0x5A)
	return *core.Pointer[uint32](room), err
}

func init() {
	prove("aclrtSetGroup", "no-such-group", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"}) // seen from a host it has none
		for id := range int32(4) {
			o.want(process.SetGroup(o.th, id), abi.ErrRTGroupNotCreate)
		}
		rc, _ := grouped(e)
		rc.ok(process.SetGroup(rc.th, 0))
		rc.stream()
		return process.SetGroup(rc.th, 1)
	})
	behaves("aclrtGetGroupCount", func(e *env) {
		for form, want := range map[string]uint32{"": 0, "RC": 1} {
			o, n := e.on(machine{product: "310P", form: form}), uint32(9)
			o.ok(process.GetGroupCount(o.th, &n))
			is(e, "310P "+form, n, want)
		}
	})
	behaves("aclrtCreateGroupInfo", func(e *env) {
		o, h := grouped(e)
		is(e, "another one", process.CreateGroupInfo(o.th) != h, true)
		is(e, "without a context", process.CreateGroupInfo(o.stranger()), 0)
		is(e, "seen from a host", process.CreateGroupInfo(e.on(machine{product: "310P"}).th), 0)
		is(e, "on another product", process.CreateGroupInfo(e.th), 0)
	})
	prove("aclrtDestroyGroupInfo", "groupInfo-not-live", func(e *env) *core.Error {
		o, h := grouped(e)
		o.ok(process.DestroyGroupInfo(o.stranger(), h))
		return process.DestroyGroupInfo(o.th, h)
	})
	prove("aclrtGetAllGroupInfo", "no-group", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"})
		return process.GetAllGroupInfo(o.th, garbage)
	})
	prove("aclrtGetAllGroupInfo", "groupInfo-not-live", func(e *env) *core.Error {
		o, h := grouped(e)
		o.ok(process.GetAllGroupInfo(o.th, h))
		o.ok(process.DestroyGroupInfo(o.th, h))
		return process.GetAllGroupInfo(o.th, h)
	})
	prove("aclrtGetGroupInfoDetail", "index-over-groups", func(e *env) *core.Error {
		o, h := grouped(e)
		_, err := groupDetail(o, h, -1, 0, 4)
		o.want(err, abi.ErrInvalidParam)
		_, err = groupDetail(o, h, 1, 99, 0)
		is(e, "it is looked at first", err.Arg, "groupIndex")
		return err
	})
	prove("aclrtGetGroupInfoDetail", "attr-outside-0-to-5", func(e *env) *core.Error {
		o, h := grouped(e)
		_, err := groupDetail(o, h, 0, -1, 4)
		o.want(err, abi.ErrInvalidParam)
		_, err = groupDetail(o, h, 0, 6, 0)
		is(e, "it is looked at first", err.Arg, "attr")
		return err
	})
	prove("aclrtGetGroupInfoDetail", "valueLen-below-4", func(e *env) *core.Error {
		o, h := grouped(e)
		_, err := groupDetail(o, h, 0, 5, 3)
		return err
	})
	prove("aclrtGetGroupInfoDetail", "groupInfo-not-live", func(e *env) *core.Error {
		o, h := grouped(e)
		o.ok(process.DestroyGroupInfo(o.th, h))
		_, err := groupDetail(o, h, 0, 0, 4)
		return err
	})
	behaves("aclrtGetGroupInfoDetail", func(e *env) {
		o, h := grouped(e)
		o.ok(process.GetAllGroupInfo(o.th, h))
		for attr, want := range []uint32{8, 7, 7, 1, 1024, 0} {
			got, err := groupDetail(o, h, 0, abi.GroupAttr(attr), 8)
			o.ok(err)
			is(e, abi.GroupAttr(attr).String(), got, want)
		}
	})
}
