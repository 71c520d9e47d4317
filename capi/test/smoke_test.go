package capitest

import "testing"

func TestSmoke(t *testing.T) {
	passes(t, nil, compile(t, []string{"smoke.c"}))
}
