package conformance

import (
	"ropeway/internal/core"
	"ropeway/internal/core/process"
)

// translation is a call that turns one kind of device id into another.
type translation func(th *core.Thread, id int32, out *int32) *core.Error

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

	var logicByUser translation = process.GetLogicDevIdByUserDevId
	behaves("aclrtGetLogicDevIdByUserDevId", func(e *env) { logicByUser.gives(e, user, phys) })

	var userByLogic translation = process.GetUserDevIdByLogicDevId
	behaves("aclrtGetUserDevIdByLogicDevId", func(e *env) { userByLogic.gives(e, phys, user) })

	var logicByPhy translation = process.GetLogicDevIdByPhyDevId
	behaves("aclrtGetLogicDevIdByPhyDevId", func(e *env) { // a user id, whatever the name says
		logicByPhy.gives(e, phys, user)
		reliesOnDefault(e, func(th *core.Thread, id int32) *core.Error {
			return process.GetLogicDevIdByPhyDevId(th, id, new(int32))
		})
	})

	var phyByLogic translation = process.GetPhyDevIdByLogicDevId
	behaves("aclrtGetPhyDevIdByLogicDevId", func(e *env) { phyByLogic.gives(e, user, phys) }) // from a user id

	var userByPhy translation = process.GetUserDevIdByPhyDevId
	behaves("aclrtGetUserDevIdByPhyDevId", func(e *env) {
		userByPhy.gives(e, phys, user)
		reliesOnDefault(e, func(th *core.Thread, id int32) *core.Error {
			return process.GetUserDevIdByPhyDevId(th, id,
				new(int32))
		})
	})

	var phyByUser translation = process.GetPhyDevIdByUserDevId
	behaves("aclrtGetPhyDevIdByUserDevId", func(e *env) { phyByUser.gives(e, user, phys) })
}
