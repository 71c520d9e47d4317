package podservers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/setup"
	"ropeway/internal/testenv"
)

// read reads variables of a process on a server, with a pod file of that text.
func read(t *testing.T, text string, vars map[string]string) (setup.Settings, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"key": strings.Repeat("k", 32), "pod.yaml": text} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	vars[setup.EnvPod] = filepath.Join(dir, "pod.yaml")
	vars[setup.EnvDeviceMemory], vars[setup.EnvDevices] = "64M", "1"
	return setup.Read(func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
}

const good = "pod: 5\nkey: key\nservers:\n- {id: 3, address: 127.0.0.1}\n- {id: 4, address: 127.0.0.2}\n"

// TestPod proves that ROPEWAY_POD puts the pod in front of the driver, on the product that has links to other servers.
func TestPod(t *testing.T) {
	s, err := read(t, good, map[string]string{setup.EnvProduct: "A3", setup.EnvPodServer: "4"})
	if err != nil || s.Pod == nil {
		t.Fatal(s.Pod, err)
	}
	var found driver.Fabric
	s.Wrap = func(d driver.Driver) driver.Driver {
		found = d.Caps().Fabric
		return d
	}
	rt, err := s.Open(nil)
	testenv.OK(t, err)
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if found == nil {
		t.Fatal("the driver knows no other servers")
	}
	if server, pod := found.Server(); server != 4 || pod != 5 {
		t.Errorf("this is server %d of pod %d", server, pod)
	}
	s, err = read(t, good, map[string]string{setup.EnvPodServer: "4"})
	testenv.OK(t, err)
	var warned strings.Builder
	if rt, err = s.Open(&warned); err != nil {
		t.Fatal(err)
	}
	defer rt.Close() //nolint:errcheck // nothing is open on it
	if ok := rt.Caps.Fabric != nil; ok || !strings.Contains(warned.String(), "ROPEWAY_PRODUCT=A3") {
		t.Errorf("on an A2: a pod %v, warned %q", ok, warned.String())
	}
}

// TestBadPod proves that a file that is wrong is refused, with its line.
func TestBadPod(t *testing.T) {
	_, err := read(t, good+"x: 1\n", map[string]string{setup.EnvProduct: "A3", setup.EnvPodServer: "4"})
	if err == nil || !strings.Contains(err.Error(), "ROPEWAY_POD=") || !strings.Contains(err.Error(), "line 6") {
		t.Errorf("%v", err)
	}
}
