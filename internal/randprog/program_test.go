package randprog

import (
	"strings"
	"testing"
)

// TestGenerate proves that a seed is a program, that programs have all that the generator knows, and that no call waits
// for a line that comes later.
func TestGenerate(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(150) {
		p := Generate(seed, 150, seed%2 == 0)
		if p.Text() != Generate(seed, 150, seed%2 == 0).Text() {
			t.Fatalf("seed %d is two programs", seed)
		}
		lines := make([]int, p.Threads)
		for _, l := range p.Lines {
			lines[l.Thread]++
			words := strings.Fields(l.Text)
			if seen[words[0]] = true; words[0] == "until" {
				seen[words[2]] = true
			}
			if o := l.op; o != nil && o.learns != nil && o.learns.line > lines[o.learns.thread.id] {
				t.Errorf("seed %d: %q waits for line %d of thread %d, which comes later", seed, l.Text, o.learns.line,
					o.learns.thread.id)
			}
		}
	}
	for name := range strings.FieldsSeq(`after until set malloc free write check load fail
		aclrtCreateContext aclrtCreateStream aclrtCreateStreamWithConfig aclrtDestroyStream aclrtSynchronizeDevice
		aclrtSynchronizeStream aclrtSynchronizeStreamWithTimeout aclrtStreamQuery
		aclrtCreateEvent aclrtCreateEventWithFlag aclrtCreateEventExWithFlag aclrtRecordEvent aclrtResetEvent
		aclrtStreamWaitEvent aclrtStreamWaitEventWithTimeout aclrtSynchronizeEvent aclrtQueryEventStatus
		aclrtRecordNotify aclrtWaitAndResetNotify aclrtCntNotifyRecord aclrtCntNotifyWaitWithTimeout aclrtValueWrite
		aclrtValueWait aclrtLaunchHostFunc aclrtLaunchCallback aclrtSubscribeReport aclrtMemcpy aclrtMemcpyAsync
		aclrtMemcpy2dAsync aclrtMemcpyBatchAsync aclrtMemcpyAsyncWithDesc aclrtMemcpyAsyncWithOffset aclrtMemset
		aclrtMemsetAsync aclrtMemsetD32Async aclrtMemPoolMallocAsync aclrtMemPoolFreeAsync aclrtHostRegister
		aclrtHostRegisterV2 aclrtHostUnregister aclrtMemAllocManaged aclrtMapMem aclmdlRICaptureBegin
		aclmdlRIExecuteAsync aclmdlRIDestroy aclrtLaunchKernelWithHostArgs`) {
		if !seen[name] {
			t.Errorf("no program calls %s", name)
		}
	}
}

// TestStuck proves that Stuck names the call that a thread is in, and the task that it waits for.
func TestStuck(t *testing.T) {
	for seed := range uint64(500) {
		p := Generate(seed, 100, false)
		for i, l := range p.Lines {
			if l.op == nil || l.op.source == nil || l.op.source.line >= l.op.line || p.Threads > 1 {
				continue
			}
			got := p.Stuck([]int{i + 1})
			for _, want := range []string{"waits for 0.", l.op.source.text, "thread 0 is in line"} {
				if !strings.Contains(got, want) {
					t.Fatalf("seed %d, line %d: %q is not in\n%s", seed, i, want, got)
				}
			}
			return
		}
	}
	t.Error("no program waits")
}
