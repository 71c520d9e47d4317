package capitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/randprog"
	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// TestRandomPrograms runs random programs. Every byte and every code must be that of the model, and none may hang.
func TestRandomPrograms(t *testing.T) {
	t.Parallel()
	runRandom(t, programSeeds(t, 25), randomProgram)
}

// TestRandomOnImitation runs random programs on the cuda driver, with an imitation of libcuda whose streams are fast,
// or slow at random.
func TestRandomOnImitation(t *testing.T) {
	t.Parallel()
	library := imitation.Build(t)
	for name, env := range map[string][]string{"fast": nil, "slow": {"FAKE_CUDA_PACE=300"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(env, "LD_PRELOAD="+library, "ROPEWAY_DRIVER=cuda")
			runRandom(t, programSeeds(t, 15), randomProgram, env...)
		})
	}
}

// TestRandomCalls has four threads call any functions, with arguments that others have made, freed or not. No call may
// hang or end the process.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	runRandom(t, seedsWhile(t, func(i int) bool { return i < 10 }), randomCalls(t)) // TestSoakCalls goes on
}

// TestSoakRandom and TestSoakCalls run other programs each time, for as long as SOAK says.
func TestSoakRandom(t *testing.T) { runRandom(t, soakSeeds(t), randomProgram) }
func TestSoakCalls(t *testing.T)  { runRandom(t, soakSeeds(t), randomCalls(t)) }

func soakSeeds(t *testing.T) func(func(uint64) bool) {
	end := time.Now().Add(testenv.Soak(t))
	return seedsWhile(t, func(int) bool { return time.Now().Before(end) })
}

func randomProgram(seed uint64) *randprog.Program {
	return randprog.Generate(seed, 20+int(seed%1000), false)
}

func randomCalls(t *testing.T) func(uint64) *randprog.Program {
	all, err := table.Load()
	testenv.OK(t, err)
	return func(seed uint64) *randprog.Program { return callProgram(seed, all, 4, 3000) }
}

// programSeeds returns n seeds, or ten times as many in a long run.
func programSeeds(t *testing.T, n int) func(func(uint64) bool) {
	if !testing.Short() {
		n *= 10
	}
	return seedsWhile(t, func(i int) bool { return i < n })
}

// seedsWhile returns seeds as long as more is true of their number.
func seedsWhile(t *testing.T, more func(i int) bool) func(func(uint64) bool) {
	seed := testenv.Rand(t)(0)
	return func(yield func(uint64) bool) {
		for i := 0; more(i) && yield(seed.Uint64()); i++ {
		}
	}
}

// runRandom runs the programs of seeds until one fails.
func runRandom(t *testing.T, seeds func(func(uint64) bool), program func(uint64) *randprog.Program, env ...string) {
	interpreter := compile(t, []string{"random.c"}, "-rdynamic", "-Wl,--no-as-needed")
	dir := t.TempDir()
	file := filepath.Join(dir, "program")
	args := []string{file}
	if strings.Contains(strings.Join(append(env, cleanEnv()...), " "), "ROPEWAY_DRIVER=cuda") {
		ptx := filepath.Join(dir, "mix.ptx")
		testenv.OK(t, os.WriteFile(ptx, []byte(drivertest.PTX), 0o600))
		args = append(args, ptx)
	}
	count, calls := 0, 0
	for seed := range seeds {
		p := program(seed)
		testenv.OK(t, os.WriteFile(file, []byte(p.Text()), 0o600))
		if r := run(t, env, interpreter, args...); r.code != 0 {
			kept := filepath.Join(os.TempDir(), fmt.Sprint("ropeway-program-", seed))
			if err := os.WriteFile(kept, []byte(p.Text()), 0o600); err != nil {
				t.Error(err)
			}
			t.Fatalf("%s: code %d, signal %v\n%s%s", kept, r.code, r.signal, r.stderr, stuck(p, r))
		}
		count, calls = count+1, calls+len(p.Lines)
	}
	if count == 0 {
		t.Error("no program was run")
	}
	t.Logf("%d programs, %d calls", count, calls)
}

// stuck says who waits for whom in a program that random.c gave up.
func stuck(p *randprog.Program, r result) string {
	_, list, found := strings.Cut(r.stderr, "stuck ")
	if r.code != 99 || !found {
		return ""
	}
	var returned []int
	for _, word := range strings.Fields(list) {
		var n int
		if _, err := fmt.Sscan(word, &n); err != nil {
			break
		}
		returned = append(returned, n)
	}
	return p.Stuck(returned)
}
