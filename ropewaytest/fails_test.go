package ropewaytest

import (
	"testing"

	"ropeway/check"
)

// TestFails: errors and warnings fail a test, notes do not.
func TestFails(t *testing.T) {
	for severity, want := range map[check.Severity]bool{check.Error: true, check.Warning: true, check.Note: false} {
		if got := fails(check.Finding{Severity: severity}); got != want {
			t.Errorf("%s: %t", severity, got)
		}
	}
}
