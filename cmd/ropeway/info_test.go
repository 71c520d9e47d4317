package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

func TestInfo(t *testing.T) {
	forms := map[string]string{}
	for _, name := range product.Names() {
		forms[name] = "EP"
	}
	check := func(name, form string) {
		t.Run(name+" "+form, func(t *testing.T) {
			p, err := product.Find(name, form)
			testenv.OK(t, err)
			text := good(t, "info", "--product", name, "--form", form)
			plain(t, text)
			contains(t, text, name+" ("+p.Chip+"), form "+form, "driver      soft", "0 to 7",
				"batch copies", "memory pools")

			var r infoReport
			parse(t, good(t, "info", "--product", name, "--form", form, "--json"), &r)
			if r.Product != name || r.Form != form || r.Chip != p.Chip || len(r.Devices) != 8 || r.CPUs < 1 {
				t.Errorf("%+v", r)
			}
			for i, d := range r.Devices {
				if d.ID != i || d.Total == 0 || d.Free > d.Total {
					t.Errorf("device %d: %+v", i, d)
				}
			}
			for _, f := range r.Features {
				if f.Name == "batch copies" && f.Has != p.Batch {
					t.Errorf("%+v", f)
				}
			}
		})
	}
	for name, form := range forms {
		check(name, form)
	}
	for _, name := range product.RCForms() {
		check(name, "RC")
	}
	contains(t, good(t, "info"), product.Default+" (", "\nROPEWAY_POD ", "\nROPEWAY_POD_SERVER ")
}

// TestInfoEnvironment proves that info shows what a program would find with these variables.
func TestInfoEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name      string
		variables map[string]string
		args      string
		want      []string
	}{
		{"product", map[string]string{"ROPEWAY_PRODUCT": "310p", "ROPEWAY_FORM": "rc"}, "",
			[]string{"310P (Ascend310P3), form RC", `= "310p"`}},
		{"flags before variables", map[string]string{"ROPEWAY_PRODUCT": "310P"}, "--product A3",
			[]string{"product     A3"}},
		{"devices", map[string]string{"ROPEWAY_DEVICES": "3", "ROPEWAY_DEVICE_MEMORY": "128M"}, "",
			[]string{"0 to 2        128 MiB    128 MiB"}},
		{"no devices", map[string]string{"ROPEWAY_DEVICES": "0"}, "", []string{"none      see ROPEWAY_DEVICES"}},
		{"visible", map[string]string{"ASCEND_RT_VISIBLE_DEVICES": "1,3"}, "", []string{"0 to 1 ", `= "1,3"`}},
		{"none visible", map[string]string{"ASCEND_RT_VISIBLE_DEVICES": ""}, "", []string{"none      see", `= ""`}},
		{"log", map[string]string{"ASCEND_SLOG_PRINT_TO_STDOUT": "1", "ASCEND_GLOBAL_LOG_LEVEL": "0"}, "",
			[]string{"product     A2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := callWith(t.Context(), tt.variables, append([]string{"info"},
				strings.Fields(tt.args)...)...)
			if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, "product ") {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			plain(t, stdout)
			contains(t, stdout, tt.want...)
		})
	}
	for variable, value := range map[string]string{"ROPEWAY_PRODUCT": "X", "ROPEWAY_DEVICES": "-1",
		"ROPEWAY_DRIVER": "ascend", "ASCEND_LAUNCH_BLOCKING": "yes"} {
		stdout, stderr, code := callWith(t.Context(), map[string]string{variable: value}, "info")
		if code != exitFailed || stdout != "" {
			t.Errorf("%s=%s: exit code %d, stdout %q", variable, value, code, stdout)
		}
		contains(t, stderr, variable+`="`+value+`" is refused`, "correct the variable")
	}
}

// TestInfoJSON proves that --json has what the text has: versions, drivers, variables, toolkit.
func TestInfoJSON(t *testing.T) {
	root := fakeToolkit(t)
	stdout, _, _ := callWith(t.Context(), map[string]string{homeVariable: root, "ROPEWAY_DEVICES": "1"},
		"info", "--json")
	var r infoReport
	parse(t, stdout, &r)
	if r.Toolkit == nil || r.Toolkit.Root != root || r.Toolkit.How != homeVariable || len(r.Devices) != 1 ||
		r.Driver != "soft" {
		t.Errorf("%+v", r)
	}
	if r.API != "1.17.0" || r.Versions.Ropeway == "" || !strings.HasPrefix(r.Versions.Go, "go1.") {
		t.Errorf("%+v", r.Versions)
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil &&
		strings.TrimSpace(string(kernel)) != r.Versions.Kernel {
		t.Errorf("kernel %q, want %q", r.Versions.Kernel, kernel)
	}
	for _, d := range r.Drivers {
		if gpu := d.Name == "cuda"; !gpu && d.Available != (d.Name == "soft") || d.About == "" ||
			strings.Contains(d.About, "\n") {
			t.Errorf("%+v", d)
		}
	}
	for _, v := range r.Environment {
		want := map[string]string{homeVariable: root, "ROPEWAY_DEVICES": "1"}[v.Name]
		if v.About == "" || (v.Value != nil) != (want != "") || v.Value != nil && *v.Value != want {
			t.Errorf("%+v", v)
		}
	}

	stdout, _, _ = callWith(t.Context(), map[string]string{homeVariable: t.TempDir()}, "info")
	contains(t, stdout, "none for ropeway run: ROPEWAY_HOME=")
}

// TestInfoProducts proves that the comparison has every product, and what internal/product says of it.
func TestInfoProducts(t *testing.T) {
	text := good(t, "info", "--products")
	plain(t, text)
	contains(t, text, "PRODUCT", "FEATURE", "LIMIT OF A DEVICE", "EP, the default")
	var r map[string][]productInfo
	parse(t, good(t, "info", "--products", "--json"), &r)
	var names []string
	for _, i := range r["products"] {
		names = append(names, i.Name)
		p, err := product.Find(i.Name, "")
		testenv.OK(t, err)
		if i.Chip != p.Chip || i.Default != (i.Name == product.Default) || !slices.Equal(i.Features, features(p)) ||
			!slices.Equal(i.Limits, limits(p)) {
			t.Errorf("%+v", i)
		}
		if hasRC := len(i.Forms) == 2; hasRC != slices.Contains(product.RCForms(), i.Name) {
			t.Errorf("%s has the forms %v", i.Name, i.Forms)
		}
		contains(t, text, i.Chip)
	}
	if !slices.Equal(names, product.Names()) {
		t.Errorf("%v", names)
	}
}

// TestInfoDriver: a driver that does not exist is the caller's mistake, and the message names the flag.
func TestInfoDriver(t *testing.T) {
	_, stderr, code := callWith(t.Context(), nil, "info", "--driver", "nonsense")
	if code != exitUsage || !strings.Contains(stderr, `--driver="nonsense" is refused`) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestInfoGPUs proves that info says which GPU each device is on, and what shares it, on GPUs that are made up.
func TestInfoGPUs(t *testing.T) {
	const inner = "ROPEWAY_TEST_IMITATION"
	if os.Getenv(inner) == "" {
		t.Parallel()
		imitation.Rerun(t, []string{inner + "=1", "FAKE_CUDA_GPUS=2"}, "-test.run=^TestInfoGPUs$")
		return
	}
	for _, tt := range []struct {
		devices, visible string
		want             []string
		gpus             []int
	}{
		{"", "", []string{"7.9 GiB   GPU 0\n", "7.9 GiB   GPU 1\n"}, []int{0, 1}},
		{"2", "", []string{"7.9 GiB   GPU 0\n", "7.9 GiB   GPU 1\n"}, []int{0, 1}},
		{"5", "", []string{"2.6 GiB   GPU 0, shared by devices 0, 2, 4\n", "4 GiB   GPU 1, shared by devices 1, 3\n"},
			[]int{0, 1, 0, 1, 0}},
		{"5", "0,2,3,4", []string{"\n0 to 1 ", "GPU 0, shared by devices 0 to 1, 3\n", "GPU 1\n"}, []int{0, 0, 1, 0}},
	} {
		variables := map[string]string{"ROPEWAY_DRIVER": "cuda", "ROPEWAY_DEVICES": tt.devices}
		if tt.visible != "" {
			variables["ASCEND_RT_VISIBLE_DEVICES"] = tt.visible
		}
		stdout, stderr, code := callWith(t.Context(), variables, "info")
		if code != exitOK || stderr != "" {
			t.Fatalf("%+v: exit code %d, stderr %q", tt, code, stderr)
		}
		contains(t, stdout, tt.want...)
		delete(variables, "ROPEWAY_DRIVER")
		if flag, _, _ := callWith(t.Context(), variables, "info", "--driver", "cuda"); !strings.Contains(flag,
			tt.want[0]) {
			t.Errorf("%+v: with --driver cuda it is\n%s", tt, flag)
		}
		variables["ROPEWAY_DRIVER"] = "cuda"
		var r infoReport
		stdout, _, _ = callWith(t.Context(), variables, "info", "--json")
		parse(t, stdout, &r)
		var gpus []int
		for _, d := range r.Devices {
			gpus = append(gpus, *d.GPU)
		}
		if !slices.Equal(gpus, tt.gpus) {
			t.Errorf("%+v: on GPUs %v", tt, gpus)
		}
	}
}
