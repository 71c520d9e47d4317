package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// translation is a call that turns one kind of device id into another.
type translation func(th *core.Thread, id int32, out *int32) *core.Error

// proofs of the rules that the translations share: NULL, a negative number, a number without a device.
func (call translation) null(e *env) *core.Error { return call(e.stranger(), -1, nil) }

func (call translation) negative(e *env) *core.Error {
	var out int32
	return lastOf(e, abi.ErrRTParamInvalid, []int32{-1, -1 << 31}, func(id int32) *core.Error { return call(e.stranger(), id, &out) })
}

// unknown: from physical numbers, 0 and 2 are hidden on the second machine; from user ids it has no 2.
func (call translation) unknown(e *env) *core.Error {
	out := int32(7)
	e.want(call(e.on(visible("1,3")).stranger(), 2, &out), abi.ErrRTInvalidDeviceid)
	err := lastOf(e, abi.ErrRTInvalidDeviceid, []int32{4, 64, 1 << 30}, func(id int32) *core.Error { return call(e.stranger(), id, &out) })
	is(e, "untouched output", out, 7)
	return err
}

// gives checks the answers on a machine that shows the physical devices 1 and 3, and on one that shows all.
func (call translation) gives(e *env, from, to []int32) {
	e.Helper()
	th := e.on(visible("1,3")).stranger()
	for i, id := range from {
		out := int32(7)
		e.ok(call(th, id, &out))
		is(e, "translation", out, to[i])
	}
	for id := range int32(4) {
		out := int32(7)
		e.ok(call(e.stranger(), id, &out))
		is(e, "translation without a list", out, id)
	}
}

func init() {
	user, phys := []int32{0, 1}, []int32{1, 3}

	var logicByUser translation = (*core.Thread).GetLogicDevIdByUserDevId
	prove("aclrtGetLogicDevIdByUserDevId", 1, logicByUser.null)
	prove("aclrtGetLogicDevIdByUserDevId", 2, logicByUser.negative)
	prove("aclrtGetLogicDevIdByUserDevId", 3, logicByUser.unknown)
	behaves("aclrtGetLogicDevIdByUserDevId", func(e *env) { logicByUser.gives(e, user, phys) })

	var userByLogic translation = (*core.Thread).GetUserDevIdByLogicDevId
	prove("aclrtGetUserDevIdByLogicDevId", 1, userByLogic.null)
	prove("aclrtGetUserDevIdByLogicDevId", 2, userByLogic.negative)
	prove("aclrtGetUserDevIdByLogicDevId", 3, userByLogic.unknown)
	behaves("aclrtGetUserDevIdByLogicDevId", func(e *env) { userByLogic.gives(e, phys, user) })

	var logicByPhy translation = (*core.Thread).GetLogicDevIdByPhyDevId
	prove("aclrtGetLogicDevIdByPhyDevId", 1, logicByPhy.null)
	prove("aclrtGetLogicDevIdByPhyDevId", 2, logicByPhy.negative)
	prove("aclrtGetLogicDevIdByPhyDevId", 3, logicByPhy.unknown)
	behaves("aclrtGetLogicDevIdByPhyDevId", func(e *env) { // a user id, whatever the name says
		logicByPhy.gives(e, phys, user)
		e.reliesOnDefault(func(th *core.Thread, id int32) *core.Error { return th.GetLogicDevIdByPhyDevId(id, new(int32)) })
	})

	var phyByLogic translation = (*core.Thread).GetPhyDevIdByLogicDevId
	prove("aclrtGetPhyDevIdByLogicDevId", 1, phyByLogic.null)
	prove("aclrtGetPhyDevIdByLogicDevId", 2, phyByLogic.negative)
	prove("aclrtGetPhyDevIdByLogicDevId", 3, phyByLogic.unknown)
	behaves("aclrtGetPhyDevIdByLogicDevId", func(e *env) { phyByLogic.gives(e, user, phys) }) // from a user id

	var userByPhy translation = (*core.Thread).GetUserDevIdByPhyDevId
	prove("aclrtGetUserDevIdByPhyDevId", 1, userByPhy.null)
	prove("aclrtGetUserDevIdByPhyDevId", 2, userByPhy.negative)
	prove("aclrtGetUserDevIdByPhyDevId", 3, userByPhy.unknown)
	behaves("aclrtGetUserDevIdByPhyDevId", func(e *env) {
		userByPhy.gives(e, phys, user)
		e.reliesOnDefault(func(th *core.Thread, id int32) *core.Error { return th.GetUserDevIdByPhyDevId(id, new(int32)) })
	})

	var phyByUser translation = (*core.Thread).GetPhyDevIdByUserDevId
	prove("aclrtGetPhyDevIdByUserDevId", 1, phyByUser.null)
	prove("aclrtGetPhyDevIdByUserDevId", 2, phyByUser.negative)
	prove("aclrtGetPhyDevIdByUserDevId", 3, phyByUser.unknown)
	behaves("aclrtGetPhyDevIdByUserDevId", func(e *env) { phyByUser.gives(e, user, phys) })
}
