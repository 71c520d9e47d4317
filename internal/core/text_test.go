package core

import (
	"slices"
	"testing"
)

func TestVisibleDevices(t *testing.T) {
	for _, tt := range []struct {
		list string
		want []int
	}{
		{"0,1,2,3", []int{0, 1, 2, 3}},
		{"2", []int{2}},
		{" 1 , 3 ", []int{1, 3}},
		{"1,3,2", []int{1, 3}}, // not ascending
		{"1,1,2", []int{1}},    // twice
		{"0,4,1", []int{0}},    // no such device
		{"0,x,1", []int{0}},    // no number
		{"1,,2", []int{1}},     // nothing
		{"-1,0", []int{}},      // negative
		{"", []int{}},          // nobody
		{"99999999999999999999", []int{}},
	} {
		if got := VisibleDevices(tt.list, 4); !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.list, got, tt.want)
		}
	}
}

func TestCString(t *testing.T) {
	text := []byte("one\x00two\x00")
	if got := CString(&text[0]); got != "one" {
		t.Errorf("got %q", got)
	}
	if got := CString(&text[3]); got != "" {
		t.Errorf("got %q", got)
	}
	if got := CString(nil); got != "" {
		t.Errorf("got %q", got)
	}
	room := []byte("xxxxx")
	if PutString(room, "12345") || string(room) != "xxxxx" {
		t.Errorf("a text that does not fit was written: %q", room)
	}
	if !PutString(room, "1234") || string(room) != "1234\x00" {
		t.Errorf("got %q", room)
	}
}
