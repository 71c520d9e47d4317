package table

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

func TestParsePrototype(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want string // return|name|type name|...
	}{
		{"aclError aclrtSynchronizeDevice(void)", "aclError|aclrtSynchronizeDevice"},
		{"const char* aclrtGetSocName()", "const char*|aclrtGetSocName"},
		{"aclError f(void* dst, size_t destMax, const void* src)",
			"aclError|f|void* dst|size_t destMax|const void* src"},
		{"aclError f(const char *busId, int32_t *id);", "aclError|f|const char* busId|int32_t* id"},
		{"void f(const void* const* p, int32_t* const q)", "void|f|const void* const* p|int32_t* const q"},
		{"void f(unsigned char b, struct X* x, unsigned long long n)",
			"void|f|unsigned char b|struct X* x|unsigned long long n"},
		{"void aclAppLog(aclLogLevel l, const char* fmt, ...)", "void|aclAppLog|aclLogLevel l|const char* fmt|..."},
		{"aclError f(int32_t (*const cb)(const C*, int32_t), int32_t flag)",
			"aclError|f|int32_t (*)(const C*, int32_t) cb|int32_t flag"},
	} {
		p, err := ParsePrototype(tt.in)
		if err != nil {
			t.Error(err)
			continue
		}
		got := []string{p.Return.C, p.Name}
		for _, q := range p.Params {
			got = append(got, q.Type.C+" "+q.Name)
		}
		if p.Variadic {
			got = append(got, "...")
		}
		if s := strings.Join(got, "|"); s != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, s, tt.want)
		}
	}
}

func TestParsePrototypeParts(t *testing.T) {
	p, err := ParsePrototype("void f(const void** a, size_t n, void (*cb)(void* arg))")
	testenv.OK(t, err)
	a, n, cb := p.Params[0].Type, p.Params[1].Type, p.Params[2].Type
	if a.Base != "void" || a.Pointers != 2 || !a.Const {
		t.Errorf("a: %+v", a)
	}
	if n.Base != "size_t" || n.Pointers != 0 || n.Const {
		t.Errorf("n: %+v", n)
	}
	if cb.Func == nil || cb.Base != "" || cb.Func.Params[0].Name != "arg" || cb.Func.Return.C != "void" {
		t.Errorf("cb: %+v", cb)
	}
}

func TestParsePrototypeRefuses(t *testing.T) {
	for _, in := range []string{
		"", "f", "aclError f", "aclError f(", "aclError f(int a", "aclError f(int a b c)",
		"aclError f(* p)", "aclError f(int a[3])", "aclError f(int a) g", "aclError (int a)",
	} {
		if p, err := ParsePrototype(in); err == nil {
			t.Errorf("%q was accepted as %+v", in, p)
		}
	}
}

func TestParseFuncPointer(t *testing.T) {
	p, err := ParseFuncPointer("typedef int32_t (*cbFn)(int32_t deviceId, void* args);")
	testenv.OK(t, err)
	if p.Name != "cbFn" || p.Return.C != "int32_t" || len(p.Params) != 2 || p.Params[1].Type.C != "void*" {
		t.Errorf("%+v", p)
	}
	for _, in := range []string{"typedef int x;", "int (*f)(void)", "typedef int f(void);"} {
		if _, err := ParseFuncPointer(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}
