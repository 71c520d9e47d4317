package capitest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const headerDir = "../include"

// strict are the flags a program may build with and see no warning from the headers.
var strict = []string{"-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I" + headerDir, "-Itestdata"}

// dialect is a compiler with a language standard.
type dialect struct{ cc, lang, std string }

var dialects = []dialect{
	{"gcc", "c", "c99"}, {"gcc", "c", "c11"}, {"gcc", "c", "c17"}, {"gcc", "c", "c2x"},
	{"g++", "c++", "c++11"}, {"g++", "c++", "c++14"}, {"g++", "c++", "c++17"}, {"g++", "c++", "c++20"},
	{"g++", "c++", "c++2b"},
}

// check compiles files without output and returns what the compiler says.
func (d dialect) check(t *testing.T, files []string, flags ...string) (string, error) {
	t.Helper()
	testenv.Need(t, d.cc)
	args := slices.Concat(strict, flags, []string{"-std=" + d.std, "-fsyntax-only", "-x", d.lang}, files)
	out, err := exec.Command(d.cc, args...).CombinedOutput()
	return string(out), err
}

// eachDialect runs a test once for every language standard.
func eachDialect(t *testing.T, test func(t *testing.T, d dialect)) {
	t.Helper()
	for _, d := range dialects {
		t.Run(d.std, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// headers returns the names of all headers as programs include them.
func headers(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"acl/*.h", "acl/error_codes/*.h"} {
		found, err := filepath.Glob(filepath.Join(headerDir, pattern))
		testenv.OK(t, err)
		for _, f := range found {
			rel, err := filepath.Rel(headerDir, f)
			testenv.OK(t, err)
			names = append(names, rel)
		}
	}
	if len(names) < 17 {
		t.Fatalf("only %d headers: %v", len(names), names)
	}
	return names
}

// unit writes a translation unit that includes headers in order. The declaration at its end keeps it from being empty,
// which C does not allow.
func unit(t *testing.T, name string, include ...string) string {
	t.Helper()
	var b strings.Builder
	for _, h := range include {
		fmt.Fprintf(&b, "#include \"%s\"\n", h)
	}
	b.WriteString("extern int not_empty;\n")
	return file(t, name, b.String())
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testenv.OK(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// TestHeadersInAnyOrder proves that each header compiles alone, twice, and together with all others in any order, in
// every standard without a warning.
func TestHeadersInAnyOrder(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		all := headers(t)
		var units []string
		for _, h := range all {
			units = append(units, unit(t, "alone_"+filepath.Base(h), h, h))
		}
		backwards := slices.Clone(all)
		slices.Reverse(backwards)
		units = append(units, unit(t, "forwards.h", all...), unit(t, "backwards.h", backwards...))
		random := rand.New(rand.NewPCG(1, uint64(len(d.std))))
		for i := range 6 {
			order := slices.Clone(all)
			random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			units = append(units, unit(t, fmt.Sprintf("order%d.c", i), order...))
		}
		if out, err := d.check(t, units); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestHeadersByFolder proves that a program which names the folder itself, -I include/acl, finds everything too.
func TestHeadersByFolder(t *testing.T) {
	for _, d := range dialects[:1] {
		u := unit(t, "folder.c", "acl.h", "acl_rt_memory_soma.h", "acl_prof.h")
		if out, err := d.check(t, []string{u}, "-I"+headerDir+"/acl"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestHeaderLayoutAndNames proves size, alignment and offsets of every struct, and value or type of every name of the
// table.
func TestHeaderLayoutAndNames(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the table holds the layout of 64-bit machines")
	}
	eachDialect(t, func(t *testing.T, d dialect) {
		if out, err := d.check(t, []string{"testdata/layout.h", "testdata/names.h", unit(t, "both.c", "layout.h",
			"names.h")}); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestHeaderProofsFail proves that the assertions are able to fail: what is wrong does not compile.
func TestHeaderProofsFail(t *testing.T) {
	testenv.Long(t, "it compiles 18 times")
	for _, tt := range []struct{ name, text, says string }{
		{"size", "ROPEWAY_ASSERT(sizeof(aclrtMemLocation) == 9, size_is_wrong);", "size_is_wrong"},
		{"offset", "ROPEWAY_ASSERT(offsetof(aclrtMemLocation, type) == 0, offset_is_wrong);", "offset_is_wrong"},
		{"alignment", "ROPEWAY_ASSERT(ROPEWAY_ALIGN_OF(aclrtMemcpyBatchAttr) == 8, alignment_is_wrong);",
			"alignment_is_wrong"},
		{"value", "ROPEWAY_ASSERT(ACL_ERROR_RT_PARAM_INVALID == 100000, value_is_wrong);", "value_is_wrong"},
		{"type", "extern uint64_t type_aclrtStream;", "type_aclrtStream"},
		{"prototype", "int aclrtMallocHost(void** hostPtr);", "aclrtMallocHost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wrong := "#include \"layout.h\"\n#include \"names.h\"\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n" +
				tt.text + "\n#ifdef __cplusplus\n}\n#endif\n"
			for _, d := range []dialect{dialects[0], dialects[1], dialects[4]} {
				out, err := d.check(t, []string{file(t, "wrong.c", wrong)})
				if err == nil || !strings.Contains(out, tt.says) {
					t.Errorf("%s: compiled, or failed for another reason: %v\n%s", d.std, err, out)
				}
			}
		})
	}
}

// TestHeaderUse proves what programs rely on: codes in case labels and static initialisers, the log macro with and
// without arguments, both names of the tensor type, deprecated functions under -Werror.
func TestHeaderUse(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		if out, err := d.check(t, []string{"testdata/headers_use.c"}); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestHeaderDeprecation proves that warnings of deprecated functions are there on request.
func TestHeaderDeprecation(t *testing.T) {
	for _, d := range []dialect{dialects[1], dialects[5]} {
		out, err := d.check(t, []string{"testdata/headers_use.c"}, "-DROPEWAY_WARN_DEPRECATED")
		if err == nil || !strings.Contains(out, "use aclrtQueryEventStatus") {
			t.Errorf("%s: no warning that names the function to use: %v\n%s", d.std, err, out)
		}
		if out, err := d.check(t, []string{unit(t, "include.c", headers(t)...)},
			"-DROPEWAY_WARN_DEPRECATED"); err != nil {
			t.Errorf("%s: including alone warns: %v\n%s", d.std, err, out)
		}
	}
}

// TestHeaderOverloads proves that every call form of acl_rt_api.h calls the C function it stands for with the right
// arguments, and that calls which fit a C function still go there; in every standard, and where the include stands
// inside extern "C".
func TestHeaderOverloads(t *testing.T) {
	for _, cc := range []string{"g++", "clang++"} {
		for _, std := range []string{"c++11", "c++14", "c++17", "c++20"} {
			for _, define := range []string{"-DOUTSIDE", "-DINSIDE_EXTERN_C"} {
				t.Run(cc+" "+std+" "+define, func(t *testing.T) {
					if _, err := exec.LookPath(cc); err != nil && cc != "g++" {
						t.Skip(err) // a second compiler is welcome, and not needed
					}
					testenv.Need(t, cc)
					t.Parallel()
					program := filepath.Join(t.TempDir(), "overloads")
					args := slices.Concat(strict, []string{"-std=" + std, define, "testdata/headers_api.cpp", "-o",
						program})
					if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					if out, err := exec.Command(program).CombinedOutput(); err != nil {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
		}
	}
}

// TestHeaderOverloadsRefuse proves that what the vendor's call forms refuse is refused here too: outputs and writable
// arguments that are const, and functions whose form there is not typed.
func TestHeaderOverloadsRefuse(t *testing.T) {
	const begin = "#include \"acl/acl_rt_api.h\"\naclError f(const float* c, float* f, size_t n)\n{\n" +
		"    (void)c, (void)f, (void)n;\n    return "
	for _, call := range []string{
		"aclrtMalloc(&c, n)", "aclrtMallocHost(&c, n)", "aclrtMemcpy(c, n, f, n, ACL_MEMCPY_HOST_TO_DEVICE)",
		"aclrtHostUnregister(c)", "aclrtMallocCached(&f, n, ACL_MEM_MALLOC_HUGE_FIRST)",
	} {
		out, err := dialects[5].check(t, []string{file(t, "wrong.cpp", begin+call+";\n}\n")})
		if name, _, _ := strings.Cut(call, "("); err == nil || !strings.Contains(out, name) {
			t.Errorf("%s compiles, or fails for another reason: %v\n%s", call, err, out)
		}
	}
	if out, err := dialects[5].check(t, []string{file(t, "right.cpp", begin+"aclrtMalloc(&f, n);\n}\n")}); err != nil {
		t.Errorf("what is right does not compile: %v\n%s", err, out)
	}
}

// guards are the vendor's include guards, which programs with copies of some headers rely on.
var guards = map[string]string{
	"acl/acl.h": "INC_EXTERNAL_ACL_ACL_H_", "acl/acl_base.h": "INC_EXTERNAL_ACL_ACL_BASE_H_",
	"acl/acl_base_rt.h": "INC_EXTERNAL_ACL_ACL_BASE_RT_H_", "acl/acl_dump.h": "INC_EXTERNAL_ACL_DUMP_H_",
	"acl/acl_platform.h": "INC_PKG_PLATFORM_ACL_PLATFORM_H_", "acl/acl_prof.h": "INC_EXTERNAL_ACL_PROF_H_",
	"acl/acl_rt.h": "INC_EXTERNAL_ACL_ACL_RT_H_", "acl/acl_rt_allocator.h": "INC_EXTERNAL_ACL_ACL_RT_ALLOCATOR_H_",
	"acl/acl_rt_api.h": "INC_EXTERNAL_ACL_ACL_RT_API_H_", "acl/acl_rt_memory_soma.h": "INC_EXTERNAL_ACL_RT_MEMORY_H_",
	"acl/acl_tdt.h": "INC_EXTERNAL_ACL_ACL_TDT_H_", "acl/acl_tdt_queue.h": "INC_EXTERNAL_ACL_ACL_TDT_QUEUE_H_",
	"acl/error_codes/ge_error_codes.h": "INC_EXTERNAL_GE_GE_ERROR_CODES_H_",
	"acl/error_codes/rt_error_codes.h": "__INC_EXTERNEL_RT_ERROR_CODES_H__",
}

// TestHeaderGuards proves that a program which has its own copy of a header, with the vendor's include guard, compiles
// with ours around it, whichever comes first: ours is empty after theirs, and theirs after ours.
func TestHeaderGuards(t *testing.T) {
	var after, before strings.Builder
	for name, guard := range guards {
		fmt.Fprintf(&after, "#include \"%s\"\n#ifndef %s\n#error no %s\n#endif\n", name, guard, guard)
		fmt.Fprintf(&before, "#define %s\n#include \"%s\"\n", guard, name)
	}
	before.WriteString("#ifdef ACL_MAJOR_VERSION\n#error a header looks at another guard\n#endif\nextern int " +
		"not_empty;\n")
	for _, d := range []dialect{dialects[0], dialects[4]} {
		if out, err := d.check(t, []string{file(t, "after.c", after.String()), file(t, "before.c",
			before.String())}); err != nil {
			t.Errorf("%s: %v\n%s", d.std, err, out)
		}
	}
}

// olderCopy is a program's own acl_base.h, from before the file was split: all that acl_rt.h needs of it.
const olderCopy = `#ifndef INC_EXTERNAL_ACL_ACL_BASE_H_
#define INC_EXTERNAL_ACL_ACL_BASE_H_
#include <stddef.h>
#include <stdint.h>
#define ACL_FUNC_VISIBILITY
typedef void *aclrtStream, *aclrtEvent, *aclrtContext, *aclrtNotify, *aclrtCntNotify, *aclrtLabel, *aclrtLabelList, *aclrtTaskGrp;
typedef void *aclrtMbuf, *aclrtAllocatorDesc, *aclrtAllocator, *aclrtAllocatorBlock, *aclrtAllocatorAddr, *aclmdlRITask;
typedef int aclError;
typedef struct aclDataBuffer aclDataBuffer;
typedef enum { ACL_FLOAT = 0, ACL_FLOAT16 = 1 } aclDataType;
typedef enum { ACL_OPT_DETERMINISTIC = 0 } aclSysParamOpt;
static const int ACL_ERROR_INVALID_PARAM = 100000;
#endif
`

// TestHeaderBesideOlderCopy proves that acl_rt.h needs nothing of our own acl_base.h where a program has included an
// older copy of that.
func TestHeaderBesideOlderCopy(t *testing.T) {
	const use = "#include \"acl/acl_rt.h\"\naclError f(aclrtStream s);\n" +
		"aclError f(aclrtStream s) { return s ? aclrtSynchronizeStream(s) : ACL_ERROR_INVALID_PARAM; }\n"
	for _, d := range []dialect{dialects[1], dialects[4]} {
		for _, deprecated := range []string{"-DROPEWAY_WARN_DEPRECATED", "-DQUIET"} {
			out, err := d.check(t, []string{file(t, "older.c", olderCopy+use)}, deprecated, "-Wno-unused-variable")
			if err != nil {
				t.Errorf("%s %s: %v\n%s", d.std, deprecated, err, out)
			}
		}
	}
}

// TestHeaderNamesOnly proves that code which uses memory alone and names types of operators and models in passing
// compiles with acl.h.
func TestHeaderNamesOnly(t *testing.T) {
	const use = `#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
typedef aclError (*set_option)(aclCompileOpt, const char*);
struct task {
    aclTensorDesc* desc;
    aclDataBuffer* buffer;
    aclopAttr* attr;
    const aclmdlDataset* input;
    const aclmdlDesc* model;
    aclFormat format;
    aclopEngineType engine;
    aclopCompileType compile;
};
int whole(const struct task* t);
int whole(const struct task* t)
{
    return !t->attr && t->engine == ACL_ENGINE_SYS && t->compile == ACL_COMPILE_SYS && ACL_OP_JIT_COMPILE == 10;
}
`
	eachDialect(t, func(t *testing.T, d dialect) {
		if out, err := d.check(t, []string{file(t, "names.c", use)}); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestHeaderOwnFlags proves that a program may define the flags of a model's streams itself, as the documents require,
// before or after.
func TestHeaderOwnFlags(t *testing.T) {
	const own = "#define ACL_MODEL_STREAM_FLAG_HEAD 0x00000000U\n#define ACL_MODEL_STREAM_FLAG_DEFAULT 0x7FFFFFFFU\n"
	const include = "#include \"acl/acl_rt.h\"\n"
	if out, err := dialects[1].check(t, []string{file(t, "before.c", own+include), file(t, "after.c",
		include+own)}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHeaderBatchIsTrial proves that the headers say of every batch copy that the vendor marks it a trial feature.
func TestHeaderBatchIsTrial(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(headerDir, "acl/acl_rt.h"))
	testenv.OK(t, err)
	for _, name := range []string{"aclrtMemcpyBatch", "aclrtMemcpyBatchV2", "aclrtMemcpyBatchAsync",
		"aclrtMemcpyBatchAsyncV2"} {
		before, _, found := strings.Cut(string(data), "aclError "+name+"(")
		comment := before[max(0, strings.LastIndex(before, "/*")):]
		if !found || !strings.Contains(comment, "trial feature") {
			t.Errorf("%s: no word of the trial in %q", name, comment)
		}
	}
}
