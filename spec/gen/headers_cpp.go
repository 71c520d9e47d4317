package main

import (
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// The table says of acl_rt_api.h only that it holds C++ overloads without symbols, and that its batch copy calls the V2
// function and ignores failIndex. Which overloads there are is our decision: those that spare a program its casts.

// typedAllocations are the functions that get an overload with T** for the address they write.
var typedAllocations = []string{
	"aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocCached", "aclrtMallocWithCfg",
	"aclrtMallocHost", "aclrtMallocHostWithCfg", "aclrtMemAllocManaged",
}

// typedBatches are the batch copies that get overloads with typed lists of addresses, with and without failIndex.
var typedBatches = []string{"aclrtMemcpyBatch", "aclrtMemcpyBatchAsync"}

const apiHead = `C++ overloads of runtime functions, all inline: the library has no symbols for them. In C this file
declares nothing. They differ from the C functions in the types of pointers only, so a call that fits a C function calls that.`

const apiAllocations = `Allocation into a pointer of any type: float* p; aclrtMalloc(&p, size, policy). Sizes stay in bytes; everything else is as
the C function of that name says.`

const apiBatches = `Batch copies between lists of typed addresses, through the V2 functions. These do not tell which segment was refused, so
failIndex is neither looked at nor written, NULL is fine, and there is a form without it. The form with failIndex of the C
function stays the one to call with lists of void*.`

func writeRtAPI(t *table.Table, _ string) ([]byte, error) {
	w := newCWriter(t)
	w.comment(apiHead)
	w.openGuard("acl_rt_api.h")
	w.printf("#include \"acl_rt.h\"\n\n#ifdef __cplusplus\n")
	w.printf("extern \"C++\" { /* templates, even where the include stands inside extern \"C\" */\n\n")
	w.comment(apiAllocations)
	for _, name := range typedAllocations {
		f := t.Function(name)
		if f == nil || f.C.Params[0].Type.C != "void**" {
			return nil, fmt.Errorf("%s: no function that writes an address through its first parameter", name)
		}
		params, args := typed(f.C.Params[:1], "T")
		w.template("typename T", name, append(params, spelled(f.C.Params[1:])...), name, append(args, named(f.C.Params[1:])...))
	}
	w.comment(apiBatches, trialBatch)
	for _, name := range typedBatches {
		if err := w.batchTemplates(name); err != nil {
			return nil, err
		}
	}
	w.printf("} /* extern \"C++\" */\n#endif\n\n")
	w.closeGuard("acl_rt_api.h")
	return w.b.Bytes(), nil
}

// batchTemplates writes the two overloads of a batch copy: that without failIndex has the parameters of the V2 function.
func (w *cWriter) batchTemplates(name string) error {
	v1, v2 := w.t.Function(name), w.t.Function(name+"V2")
	if v1 == nil || v2 == nil {
		return fmt.Errorf("%s: no such function with a V2 form", name)
	}
	for _, f := range []*table.Function{v1, v2} {
		var params, args []string
		for _, p := range f.C.Params {
			one, arg := spelled([]table.Param{p}), named([]table.Param{p})
			switch p.Name {
			case "dsts":
				one, arg = typed([]table.Param{p}, "Dst")
			case "srcs":
				one, arg = typed([]table.Param{p}, "Src")
			case "failIndex":
				one, arg = []string{p.Type.C + " /* failIndex */"}, nil
			}
			params, args = append(params, one...), append(args, arg...)
		}
		if len(args) != len(v2.C.Params) {
			return fmt.Errorf("%s differs from its V2 form by more than failIndex", name)
		}
		w.template("typename Dst, typename Src", name, params, v2.Name, args)
	}
	return nil
}

// template writes an inline function template that calls a C function.
func (w *cWriter) template(types, name string, params []string, callee string, args []string) {
	w.printf("template <%s>\n", types)
	w.printf("%s\n{\n", wrapPrototype("inline aclError "+name+"("+strings.Join(params, ", ")+")"))
	call := wrapPrototype("    return " + callee + "(" + strings.Join(args, ", ") + ");")
	w.printf("%s\n}\n\n", strings.ReplaceAll(call, "\n", "\n    "))
}

// typed returns parameters with void replaced by a template's type, and the arguments that undo it. The way through
// void* keeps the const of what is pointed to out of the conversion.
func typed(params []table.Param, as string) (decl, args []string) {
	for _, p := range params {
		decl = append(decl, as+"** "+p.Name)
		args = append(args, "static_cast<void**>(static_cast<void*>("+p.Name+"))")
	}
	return decl, args
}

func spelled(params []table.Param) (decl []string) {
	for _, p := range params {
		decl = append(decl, p.Type.C+" "+p.Name)
	}
	return decl
}

func named(params []table.Param) (args []string) {
	for _, p := range params {
		args = append(args, p.Name)
	}
	return args
}
