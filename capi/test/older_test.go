package capitest

import "testing"

// TestOlderNames proves that names of an older layer, which programs look up with dlsym, do what spec/older.yaml says:
// they are found, they work, and what is wrong with a call is refused with the codes of the functions that they stand
// for.
func TestOlderNames(t *testing.T) {
	program := compile(t, []string{"older.c"}, "-Wl,--no-as-needed")
	a3 := []string{"ROPEWAY_PRODUCT=A3", "ROPEWAY_DEVICES=4"} // the product that has super pods
	for _, tt := range []struct {
		mode string
		env  []string
	}{
		{"ids", append(a3, "ASCEND_RT_VISIBLE_DEVICES=2,3")},
		{"peers", []string{"ROPEWAY_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES=2,3"}},
		{"copies", nil},
		{"sharing", a3},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			if tt.mode == "sharing" && testDriver != "" {
				t.Skipf("the driver %s does not share memory", testDriver)
			}
			passes(t, tt.env, program, tt.mode)
		})
	}
}
