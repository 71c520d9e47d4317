package modeltest

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

func TestMain(m *testing.M) {
	flag.Parse()
	byDefault("rapid.steps", "50")
	if !testing.Short() {
		byDefault("rapid.checks", "500") // a few seconds
	}
	goleak.VerifyTestMain(m)
}

// byDefault sets a flag that the command line does not.
func byDefault(name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}
