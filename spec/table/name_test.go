package table

import (
	"slices"
	"testing"

	"ropeway/internal/testenv"
)

// TestName: an expression of a common kind has a name.
func TestName(t *testing.T) {
	for when, want := range map[string]string{
		"event == NULL":                                "event-null",
		"reserve != NULL":                              "reserve-not-null",
		"flags != 0":                                   "flags-not-0",
		"count > destMax":                              "count-over-destMax",
		"qid >= 4096":                                  "qid-at-least-4096",
		"timeout < -1":                                 "timeout-below-minus-1",
		"length <= 0 || length > 18":                   "length-at-most-0-or-over-18",
		"kind < 0 || kind > 5":                         "kind-outside-0-to-5",
		"type < 0 || type >= 2":                        "type-outside-0-to-1",
		"flag != 0 && flag != 1":                       "flag-not-0-and-not-1",
		"width == 0 || height == 0":                    "width-0-or-height-0",
		"deviceId == peerDeviceId":                     "deviceId-is-peerDeviceId",
		"uint32(len) == 0":                             "len-0",
		"info.mode > 4":                                "info.mode-over-4",
		"!live(stream)":                                "stream-not-live",
		"stream != NULL && !live(stream)":              "stream-not-live",
		"stream == NULL && !context()":                 "stream-null-and-no-context",
		"elsewhere(stream)":                            "stream-of-other-context",
		"captured(stream)":                             "stream-captured",
		"!usable(deviceId)":                            "deviceId-unusable",
		"!context()":                                   "no-context",
		"!listed()":                                    "not-listed",
		"product(310B, 910)":                           "on-310B-910",
		"!product(950, A3)":                            "not-on-950-A3",
		"form(EP) && !context()":                       "in-EP-and-no-context",
		"(flag & 0x40) != 0 && flag != 0x40":           "", // these need a person
		"!(flag == 0 && flags == 0)":                   "",
		"flag == 0 && (flags == 1 || captured(event))": "",
		"srcDataOffset > dstDataOffset && dstDataOffset > destMax": "",
	} {
		w, err := ParseWhen(when)
		testenv.OK(t, err)
		if got := w.name(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
}

// TestNamesStay: a rule that is inserted before the others of a function leaves them their names, so proofs of them
// stay proofs of them.
func TestNamesStay(t *testing.T) {
	names := func(tab *Table, err error) (list []string) {
		testenv.OK(t, err)
		for _, r := range tab.Function("aclrtMemcpy").Rules {
			list = append(list, r.Name)
		}
		return list
	}
	const first = "  - {when: count == 0, ret: ACL_SUCCESS"
	before := names(Load())
	after := names(Parse(broken(t, "functions.yaml", first,
		"  - {name: new, if: something, ret: ACL_SUCCESS, code: 0}\n"+
			"  - {when: destMax > 77, ret: ACL_SUCCESS, code: 0}\n"+first)))
	if want := append([]string{"new", "destMax-over-77"}, before...); !slices.Equal(after, want) {
		t.Errorf("%q, want %q", after, want)
	}
}
