package abi

import (
	"errors"
	"fmt"
	"testing"
)

func TestCode(t *testing.T) {
	const want = "ACL error 107017 (ACL_ERROR_RT_INVALID_HANDLE): "
	if s := ErrRTInvalidHandle.Error(); len(s) <= len(want) || s[:len(want)] != want || s[len(s)-1] == '.' {
		t.Errorf("Error: %q", s)
	}
	if s := Success.Name(); s != "ACL_SUCCESS" {
		t.Errorf("Success is %q", s)
	}
	for _, unknown := range []Code{-1, 1, 99999, -1 << 31, 1<<31 - 1} {
		if unknown.Name() != "" || unknown.Meaning() != "" {
			t.Errorf("%d has a name", unknown)
		}
	}
	if s := Code(-1).Error(); s != "ACL error -1" {
		t.Errorf("unknown code prints %q", s)
	}
	if err := fmt.Errorf("wrapped: %w", ErrRTParamInvalid); !errors.Is(err, ErrRTParamInvalid) {
		t.Error("a Code is not matched by errors.Is")
	}
}

func TestCodeByName(t *testing.T) {
	for i, c := range codes {
		if i > 0 && codes[i-1].code >= c.code {
			t.Fatalf("codes are not sorted at %s", c.name)
		}
		if got, ok := CodeByName(c.name); !ok || got != c.code || c.code.Name() != c.name ||
			c.code.Meaning() != c.meaning {
			t.Errorf("%s: %d, %v", c.name, got, ok)
		}
	}
	for _, alias := range []string{"ACL_ERROR_NONE", "ACL_RT_SUCCESS"} {
		if got, ok := CodeByName(alias); !ok || got != Success {
			t.Errorf("%s: %d, %v", alias, got, ok)
		}
	}
	if _, ok := CodeByName("ACL_ERROR_NOPE"); ok {
		t.Error("an unknown name was found")
	}
}

func TestEnumString(t *testing.T) {
	for _, tt := range []struct {
		got  fmt.Stringer
		want string
	}{
		{MemcpyHostToDevice, "ACL_MEMCPY_HOST_TO_DEVICE"},
		{MemcpyKind(99), "aclrtMemcpyKind(99)"},
		{LogLevelError, "ACL_ERROR"},
		{DevAttrSuperPodDevideId, "ACL_DEV_ATTR_SUPER_POD_DEVICE_ID"},       // the corrected spelling
		{DevAttrLocalMemPerVectorCore, "ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE"}, // the one not deprecated
	} {
		if got := tt.got.String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

func TestUnionViewsShareBytes(t *testing.T) {
	var v StreamAttrValue
	*v.FailureMode() = 0x1122334455667788
	if got := *v.StreamPriority(); got != 0x55667788 && got != 0x11223344 {
		t.Errorf("got %#x", got)
	}
}
