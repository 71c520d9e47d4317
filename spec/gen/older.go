package main

import (
	"bytes"
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// writeShimOlder writes the functions of the older layer: each calls a function of the API, or asks the core itself.
func writeShimOlder(t *table.Table, _ string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("#include \"shim.h\"\n\n#include \"acl/acl_rt.h\"\n\n")
	b.WriteString("/* The attribute that an older pair of numbers stands for; 0, which is none, if it stands for " +
		"none. */\n")
	b.WriteString("static aclrtDevAttr attribute(int32_t module, int32_t info)\n{\n")
	for _, v := range t.Older.DeviceInfo {
		fmt.Fprintf(&b, "\tif (module == %d && info == %d)\n\t\treturn %s;\n", v.Module, v.Info, v.Attr)
	}
	b.WriteString("\treturn (aclrtDevAttr)0;\n}\n")
	b.WriteString("\n/* The value of a pair that is the same for every device; else the value of its attribute. */\n")
	b.WriteString("static int64_t constant(int32_t module, int32_t info, int64_t value)\n{\n")
	for _, v := range t.Older.DeviceInfo {
		if v.Value != nil {
			fmt.Fprintf(&b, "\tif (module == %d && info == %d)\n\t\treturn %d;\n", v.Module, v.Info, *v.Value)
		}
	}
	b.WriteString("\treturn value;\n}\n")
	for _, o := range t.Older.Functions {
		proto := strings.TrimSuffix(o.Proto, ";")
		fmt.Fprintf(&b, "\nEXPORT %s;\n%s\n{\n", proto, proto)
		if o.Then != "" {
			fmt.Fprintf(&b, "\tint32_t code = %s;\n\tif (!code)\n\t\t%s;\n\treturn code;\n}\n", o.Calls, o.Then)
			continue
		}
		if o.Calls != "" {
			fmt.Fprintf(&b, "\treturn %s;\n}\n", o.Calls)
			continue
		}
		var args []string
		for _, p := range o.C.Params {
			a, err := toSlot(t, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.C.Name, err)
			}
			args = append(args, a)
		}
		fmt.Fprintf(&b, "\tuint64_t a[] = {%s};\n\treturn (int32_t)call(%s, a);\n}\n", strings.Join(args, ", "), o.Asks)
	}
	return b.Bytes(), nil
}
