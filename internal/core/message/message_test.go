package message

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ropeway/internal/abi"
)

// TestTexts: the last 32 errors are kept, oldest first, each with what kind of error it is and without its code.
func TestTexts(t *testing.T) {
	var l Texts
	if l.String() != "" {
		t.Errorf("%q of nothing", l.String())
	}
	at := time.Date(2026, 3, 1, 14, 5, 9, 123456000, time.UTC)
	for i := range maxTexts + 3 {
		err := fmt.Errorf("call %d: is NULL: %w", i, abi.ErrInvalidParam)
		l = l.With(Text{At: at, Err: err, Code: abi.ErrInvalidParam, Null: true})
	}
	lines := strings.Split(l.String(), "\n")
	first := " 2026-03-01-14:05:09.123.456 Null_Argument(EH0002): call 3: is NULL"
	if len(l) != maxTexts || !strings.HasSuffix(lines[0], first) || len(lines) != 4*maxTexts+2 {
		t.Errorf("%d texts in %d lines, the first is %q", len(l), len(lines), lines[0])
	}
}

// TestClasses: what kind of error a code is depends on the layer, and on whether the function is built.
func TestClasses(t *testing.T) {
	for _, tt := range []struct {
		text Text
		want string
	}{
		{Text{Code: abi.ErrInvalidParam}, "EH0001"},
		{Text{Code: abi.ErrInvalidParam, Null: true}, "EH0002"},
		{Text{Code: abi.ErrRTContextNull}, "EE1018"},
		{Text{Code: abi.ErrRTFeatureNotSupport}, classFeature.number},
		{Text{Code: abi.ErrRTFeatureNotSupport, Unbuilt: true}, classUnbuilt.number},
		{Text{Code: abi.ErrRTInvalidHandle, Lost: true}, classLost.number},
		{Text{Code: abi.ErrRTLostHeartbeat, Lost: true}, classLost.number},
		{Text{Code: 507999}, "EE1023"},
		{Text{Code: 999999}, classOtherACL.number},
	} {
		tt.text.Err = errors.New("x")
		if got := (Texts{tt.text}).String(); !strings.Contains(got, "("+tt.want+"): x") {
			t.Errorf("%d: %q, want %s", tt.text.Code, got, tt.want)
		}
	}
	if classFeature == classUnbuilt {
		t.Error("a function that is not built looks like one that the product does not have")
	}
}
