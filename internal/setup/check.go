package setup

import "ropeway/internal/abi"

// check reads the checker's settings. The checker also injects faults.
func (r *reader) check() Checker {
	v := CheckVariables{r.value(EnvCheck), r.value(EnvInject), r.value(EnvCheckReport), r.value(EnvSuppress)}
	if v.Check == "" || v.Check == "0" {
		if v.Inject != "" {
			r.ignore(EnvInject, v.Inject, "empty", "faults are injected when "+EnvCheck+" is set")
		}
		return nil
	}
	if readCheck == nil {
		r.refuse(abi.ErrRTFeatureNotSupport, EnvCheck, v.Check, notLinked("the checker", "check"))
		return nil
	}
	c, bad := readCheck(v)
	if bad != nil {
		r.refuse(abi.ErrInvalidParam, bad.Name, bad.Value, bad.Why)
		return nil
	}
	return c
}
