package main

import (
	"slices"
	"strings"

	"ropeway/spec/table"
)

// object is what a handle of some type names: how it is found, and which ones a test can make.
type object struct {
	symbol string              // the name in cases
	find   string              // the call that finds it, with its arguments left out; "": no rule looks it up
	goType string              // as package core spells it
	kinds  []string            // beside the ordinary one: "name: predicates of table.WhenOfObject that hold"
	plain  []string            // predicates that hold for the ordinary one
	only   map[string][]string // symbols of those that only some products have; "": all of them
}

// objects are those that can be made. Of other handles nothing exists as long as the functions that make it are not
// built. internal/conformance/objects_test.go, capi/test/testdata/cases.c and python/tests/test_cases.py make them.
var objects = map[string]object{
	"aclrtStream": {symbol: "stream", find: "t.Stream(%s)", goType: "*Stream",
		kinds: []string{"elsewhere", "unwaited: unwaited", "captured: captured", "captured.elsewhere: captured",
			"bound: bound unwaited", "bound.elsewhere: bound unwaited"},
		only: map[string][]string{"stream.captured": capturing, "stream.captured.elsewhere": capturing}},
	"aclrtEvent": {symbol: "event", find: "t.Event(%s)", goType: "*Event", plain: []string{"waitable"}, kinds: []string{
		"deviceOnly: deviceOnly", "external: external waitable", "ipc: ipc ex waitable", "ex: ex waitable",
		"unwaitable", "recorded: recorded waitable", "captured: captured ex waitable"},
		only: map[string][]string{"event.ipc": {"950", "A3", "A2"}, "event.captured": capturing}},
	"aclrtContext": {symbol: "context", find: "t.context(%s)", goType: "*Context"},
	"aclrtNotify":  {symbol: "notify", find: "findNotify(t, %s)", goType: "*Notify"},
	"aclmdlRI": {symbol: "model", find: "findModel(t, %s)", goType: "*Model",
		kinds: []string{"captured: captured", "sub: sub", "built: built"},
		only: map[string][]string{"model": capturing, "model.dead": capturing, "model.captured": capturing,
			"model.sub": branching}},
	"aclmdlRICondHandle": {symbol: "condition", find: "findCondition(t, %s)", goType: "*condition",
		only: map[string][]string{"": branching}},
	"aclrtLabel":      {symbol: "label", find: "findLabel(t, %s)", goType: "*label"},
	"aclrtBinary":     {symbol: "image"},
	"aclrtBinHandle":  {symbol: "binary", find: "findBinary(t, %s)", goType: "*binary"},
	"aclrtFuncHandle": {symbol: "kernel", find: "findFunction(t, %s)", goType: "*function"},
	"aclrtArgsHandle": {symbol: "args", find: "findBuilder(t, %s)", goType: "*builder"},
	"aclrtCntNotify": {symbol: "cntNotify", find: "findCntNotify(t, %s)", goType: "*cntNotify",
		only: map[string][]string{"": {"950"}}},
}

// capturing are the products that capture streams.
var capturing = []string{"950", "A3", "A2", "310P", "310"}

// branching are the products that have condition tasks.
var branching = []string{"950", "A3", "A2"}

// values are the symbols of what a handle can be, the ordinary one first.
func (o object) values() []string {
	list := []string{o.symbol, "NULL", o.symbol + ".dead"}
	for _, k := range o.kinds {
		name, _, _ := strings.Cut(k, ":")
		list = append(list, o.symbol+"."+name)
	}
	other := "event"
	if o.symbol == other {
		other = "stream"
	}
	return append(list, "unmade", other)
}

// existsOn reports whether a product has what a symbol stands for.
func (o object) existsOn(product, symbol string) bool {
	for _, key := range []string{"", symbol} {
		if list := o.only[key]; list != nil && symbol != "NULL" && symbol != "unmade" &&
			!slices.Contains(list, product) {
			return false
		}
	}
	return true
}

// holds reports whether a predicate about the object that a symbol stands for is true.
func (o object) holds(predicate, symbol string) bool {
	if symbol == o.symbol {
		return slices.Contains(o.plain, predicate)
	}
	for _, k := range o.kinds {
		name, list, _ := strings.Cut(k, ":")
		if symbol == o.symbol+"."+name {
			return slices.Contains(strings.Fields(list), predicate)
		}
	}
	return false
}

// objectOf is the object that a parameter's handle names.
func objectOf(p *table.Param) (object, bool) {
	o, ok := objects[p.Type.Base]
	return o, ok && p.Type.Pointers == 0
}
