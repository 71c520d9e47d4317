package capitest

import (
	"slices"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/testenv"
)

// TestOnImitation proves that C programs run with the cuda driver, on a libcuda that is made up.
func TestOnImitation(t *testing.T) {
	testenv.Long(t, "it runs what other tests run")
	t.Parallel()
	env := []string{"LD_PRELOAD=" + imitation.Build(t), "ROPEWAY_DRIVER=cuda", "ROPEWAY_DEVICES=8"}
	passes(t, env, compile(t, []string{"smoke.c"}))
	functions := functionsProgram(t)
	for _, p := range parts {
		passes(t, slices.Concat(env, functionsEnv(t), p.env), functions, p.name)
	}
	threads := compile(t, []string{"threads.c"})
	passes(t, env, threads, "cancel") // not in the middle of the library
	passes(t, env, threads, "flat")
	passes(t, env, compile(t, []string{"exit.c"}), "stuck")
}

// TestOnTryingImitation proves the same of what happens to programs with signals, forks, exits, threads and kills, on a
// libcuda that is as trying as the real one: it takes its time, ends before the program's last exit handlers, and
// leaves signals to chance.
func TestOnTryingImitation(t *testing.T) {
	t.Parallel()
	testenv.Long(t, "it runs for half a minute")
	imitation.Rerun(t, []string{
		"ROPEWAY_TEST_DRIVER=cuda", "ROPEWAY_TEST_TOOLKIT=" + toolkit(t), "FAKE_CUDA_END=1", "FAKE_CUDA_SLOW=100",
	}, "-test.run=^(TestExit|TestExitInHandler|TestFork|TestRough|TestSignals|TestLateHandlers|TestTraceKilled)$")
}
