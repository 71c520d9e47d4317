package capitest

import "testing"

func TestSmoke(t *testing.T) {
	passes(t, nil, compile(t, []string{"smoke.c"}))
}

// TestWait: time that runs out leaves no trace, everything else is as with the function that waits for ever.
func TestWait(t *testing.T) {
	passes(t, nil, compile(t, []string{"wait.c"}))
}
