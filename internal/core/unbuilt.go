package core

import (
	"fmt"
	"os"

	"ropeway/internal/abi"
)

// Functions that are not built check their arguments as documented first: the leading rules of the table that are
// expressions, which the generator writes as Go into unbuilt_rules.go.

// unbuiltRule is one check. The first that applies decides.
type unbuiltRule struct {
	code     abi.Code
	quiet    bool
	arg      string // parameter at fault, "" if there is none or several
	text     string // "": the product does not have the function
	shows    shows  // how the message shows the value
	argument int    // its slot
	applies  func(c *unbuiltCall) bool
}

// shows is the format of a value.
type shows uint8

const (
	showNothing shows = iota
	showInt32
	showInt64
	showUnsigned
)

// unbuiltCall is a call of such a function.
type unbuiltCall struct {
	t *Thread
	a []uint64 // arguments, one slot each
}

// NotBuilt is any function that is not built, with its arguments as slots. The error is that of the first rule that
// applies, or 207000; nil if the rule says that there is nothing to do.
func (t *Thread) NotBuilt(api string, args []uint64) *Error {
	c := &unbuiltCall{t, args}
	for i := range unbuiltRules[api] {
		if r := &unbuiltRules[api][i]; r.applies(c) {
			return r.refuse(api, c)
		}
	}
	err := t.Lacks(api)
	if err != nil {
		err.Text += ", and it " + Unbuilt(api)
	} else {
		err = Unsupported(api, "", "%s", Unbuilt(api))
	}
	err.Unbuilt = true
	return err
}

// Unbuilt says of a function that it is not built, and whether it ever will be.
func Unbuilt(api string) string {
	if outside[api] {
		return "is not built in ropeway, which is the runtime alone (ropeway explain " + api + ")"
	}
	return "is not built in ropeway yet"
}

// refuse makes the error of a rule that applies.
func (r *unbuiltRule) refuse(api string, c *unbuiltCall) *Error {
	if r.code == abi.Success {
		return nil
	}
	err := Fail(api, r.code, r.arg, "%s", r.text)
	switch v := c.a[r.argument:]; r.shows {
	case showInt32:
		err.Text += fmt.Sprintf("; it is %d", int32(v[0]))
	case showInt64:
		err.Text += fmt.Sprintf("; it is %d", int64(v[0]))
	case showUnsigned:
		err.Text += fmt.Sprintf("; it is %d", v[0])
	}
	if r.text == "" {
		err.Text = c.t.Runtime.Product.Name + " does not have this function"
	}
	err.Quiet = r.quiet
	return err
}

func (c *unbuiltCall) context() bool { return c.t.Current() != nil }

func (c *unbuiltCall) product(names ...string) bool { return c.t.Product(names...) }

func (c *unbuiltCall) self(i int) bool { return int32(c.a[i]) == int32(os.Getpid()) }
