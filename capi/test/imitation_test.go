package capitest

import (
	"slices"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
)

// TestOnImitation proves that C programs run with the cuda driver, on a libcuda that is made up.
func TestOnImitation(t *testing.T) {
	t.Parallel()
	env := []string{"LD_PRELOAD=" + imitation.Build(t), "ROPEWAY_DRIVER=cuda", "ROPEWAY_DEVICES=8"}
	passes(t, env, compile(t, []string{"smoke.c"}))
	rules := rulesProgram(t)
	for _, m := range machines {
		passes(t, slices.Concat(env, m.env), rules, m.name)
	}
	functions := functionsProgram(t)
	for _, p := range parts {
		passes(t, slices.Concat(env, functionsEnv(t), p.env), functions, p.name)
	}
	passes(t, env, compile(t, []string{"threads.c"}), "cancel") // not in the middle of the library
	exits := compile(t, []string{"exit.c"})
	for _, mode := range []string{"handler_before", "handler_after", "thread_before", "busy", "stuck"} {
		passes(t, env, exits, mode)
	}
}
