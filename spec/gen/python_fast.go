package main

import (
	"bytes"
	"fmt"
	"strings"

	"ropeway/spec/table"
)

// writePyFast writes _fast.c, the extension with every plain form. What the functions share is in _fast.h.
func writePyFast(t *table.Table, _ string) ([]byte, error) {
	forms, err := pyForms(t)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("#include \"_fast.h\"\n")
	for _, f := range forms {
		if !f.special {
			f.extension(&b, t)
		}
	}
	for _, module := range []string{"acl", "acl.rt", "acl.prof"} {
		fmt.Fprintf(&b, "\nstatic PyMethodDef functions_of_%s[] = {\n", strings.ReplaceAll(module, ".", "_"))
		for _, f := range forms {
			if !f.special && f.Module == module {
				fmt.Fprintf(&b, "\t{\"%s\", %s, METH_VARARGS,\n\t %s},\n", f.Name, f.id(),
					cQuote(f.textSignature()+f.doc()))
			}
		}
		b.WriteString("\t{NULL, NULL, 0, NULL},\n};\n")
	}
	fmt.Fprintf(&b, "\nPyMODINIT_FUNC PyInit__fast(void)\n{\n\treturn make_module(functions_of_acl, "+
		"functions_of_acl_rt, functions_of_acl_prof, 0x%08Xu);\n}\n",
		pyFingerprint(forms))
	return b.Bytes(), nil
}

// textSignature is what inspect.signature reads from the docstring of a function in C.
func (f *pyForm) textSignature() string {
	s := f.Name + "($module, "
	for _, p := range f.params {
		s += p.name + ", "
	}
	return s + "/)\n--\n\n"
}

func cQuote(s string) string {
	return `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// extension writes the C function of one plain form.
func (f *pyForm) extension(b *bytes.Buffer, t *table.Table) {
	id := f.id()
	fmt.Fprintf(b, "\n/* %s */\n", f.Text)
	timeout := f.wait != "" && len(f.params) > 0 && f.params[len(f.params)-1].name == "timeout"
	if timeout {
		args := append(f.cArgs(t)[:len(f.args)-1], "timeout")
		fmt.Fprintf(b, "static aclError %s_for(const uint64_t *a, int32_t timeout)\n{\n", id)
		if len(f.args) == 1 {
			b.WriteString("\t(void)a;\n")
		}
		fmt.Fprintf(b, "\treturn %s(%s);\n}\n\n", f.fn.Name, strings.Join(args, ", "))
	}
	fmt.Fprintf(b, "static PyObject *%s(PyObject *self, PyObject *args)\n{\n", id)
	if len(f.params) > 0 {
		fmt.Fprintf(b, "\tstatic const param params[] = {")
		for i, p := range f.params {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(b, "{\"%s\", %s}", p.name, strings.ToUpper(p.typ))
		}
		fmt.Fprintf(b, "};\n\tuint64_t a[%d];\n", len(f.params))
		fmt.Fprintf(b, "\t(void)self;\n\tif (!take(\"%s\", params, %d, args, a))\n\t\treturn NULL;\n",
			f.path(), len(f.params))
	} else {
		fmt.Fprintf(b, "\t(void)self;\n\tif (!take(\"%s\", NULL, 0, args, NULL))\n\t\treturn NULL;\n", f.path())
	}
	if f.wait != "" {
		what, handle := "ROPEWAY_WAIT_"+strings.ToUpper(f.wait), "NULL"
		if f.wait == "stream" || f.wait == "event" {
			handle = "(void *)a[0]"
		}
		if timeout {
			fmt.Fprintf(b, "\treturn wait_until(%s, %s, (int32_t)a[%d], %s_for, a);\n}\n", what, handle,
				len(f.params)-1, id)
		} else {
			fmt.Fprintf(b, "\treturn wait_for(%s, %s);\n}\n", what, handle)
		}
		return
	}
	for c, i := range f.args {
		if i < 0 && i != pyNull {
			ty := f.C().Params[c].Type
			fmt.Fprintf(b, "\t%s%s r%d = 0;\n", ty.Base, strings.Repeat(" *", ty.Pointers-1), -1-i)
		}
	}
	call := fmt.Sprintf("%s(%s)", f.fn.Name, strings.Join(f.cArgs(t), ", "))
	if f.ret != "none" {
		ret := f.C().Return
		fmt.Fprintf(b, "\t%s%s ret;\n", ret.Base, strings.Repeat(" *", ret.Pointers))
		call = "ret = " + call
	}
	fmt.Fprintf(b, "\tBEGIN_CALL\n\t%s;\n\tEND_CALL\n", call)
	fmt.Fprintf(b, "\treturn %s;\n}\n", f.cResult())
}

// cArgs spells the arguments of the C call.
func (f *pyForm) cArgs(t *table.Table) []string {
	var args []string
	for c, i := range f.args {
		ty := f.C().Params[c].Type
		switch {
		case i == pyNull:
			args = append(args, "NULL")
		case i < 0:
			args = append(args, fmt.Sprintf("&r%d", -1-i))
		case ty.Pointers > 0:
			args = append(args, fmt.Sprintf("(%s)a[%d]", ty.C, i))
		case ty.Base == "float":
			args = append(args, fmt.Sprintf("float_of(a[%d])", i))
		default:
			args = append(args, fmt.Sprintf("(%s)a[%d]", ty.Base, i))
		}
	}
	return args
}

// cResult spells the Python object that a plain form returns.
func (f *pyForm) cResult() string {
	ret := "PyLong_FromLong(ret)"
	switch f.ret {
	case "none":
		return "none()"
	case "code":
	default:
		return cObject(f.ret, "ret")
	}
	if len(f.results) == 0 {
		return ret
	}
	var items []string
	for j, r := range f.results {
		value := fmt.Sprintf("r%d", j)
		if !f.filled(j) {
			value = "0"
			for i, p := range f.params {
				if p.name == r.name {
					value = fmt.Sprintf("a[%d]", i)
				}
			}
		}
		items = append(items, cObject(r.typ, value))
	}
	return fmt.Sprintf("pack(%d, %s, %s)", len(items)+1, strings.Join(items, ", "), ret)
}

// filled reports whether C writes result j.
func (f *pyForm) filled(j int) bool {
	for _, i := range f.args {
		if i == -1-j {
			return true
		}
	}
	return false
}

func cObject(typ, value string) string {
	switch typ {
	case "address", "handle":
		return fmt.Sprintf("PyLong_FromUnsignedLongLong((uintptr_t)%s)", value)
	case "float":
		return fmt.Sprintf("PyFloat_FromDouble(%s)", value)
	case "int32", "int64":
		return fmt.Sprintf("PyLong_FromLongLong(%s)", value)
	}
	return fmt.Sprintf("PyLong_FromUnsignedLongLong(%s)", value)
}
