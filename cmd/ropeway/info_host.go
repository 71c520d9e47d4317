package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"ropeway/internal/setup"
	"ropeway/internal/setup/cudadriver"
	"ropeway/internal/ui"
	"ropeway/internal/version"
)

// hostVersions are the versions that reports of problems should name.
type hostVersions struct {
	Ropeway string `json:"ropeway"`
	Go      string `json:"go"`
	Kernel  string `json:"kernel,omitempty"`
	Glibc   string `json:"glibc,omitempty"`
}

func readHostVersions() hostVersions {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return hostVersions{version.Ropeway, runtime.Version(), strings.TrimSpace(string(kernel)), glibcVersion()}
}

// glibcVersion is the latest version that the C library of this machine defines, "" if it is not known. The library's
// file says so; nothing is run.
func glibcVersion() string {
	for _, pattern := range []string{"/lib/*-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib64/libc.so.6",
		"/usr/lib/libc.so.6"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			f, err := elf.Open(file)
			if err != nil {
				continue
			}
			versions, err := f.DynamicVersions()
			right := f.Machine == (&toolkit{}).machine()
			f.Close()
			if err != nil || !right {
				continue
			}
			latest := 0
			for _, v := range versions {
				if minor, ok := strings.CutPrefix(v.Name, "GLIBC_2."); ok {
					n, _ := strconv.Atoi(minor)
					latest = max(latest, n)
				}
			}
			if latest > 0 {
				return fmt.Sprintf("2.%d", latest)
			}
		}
	}
	return ""
}

// driverInfo says whether there is a driver.
type driverInfo struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	About     string `json:"about"`
}

func drivers() []driverInfo {
	gpus, err := cudadriver.GPUs()
	if err != nil {
		gpus = err.Error()
	}
	return []driverInfo{
		{"soft", true, "software devices in the memory of this machine"},
		{"cuda", err == nil, "NVIDIA GPUs: " + gpus},
		{"ascend", false, "Ascend NPUs: not built yet"},
	}
}

// variableInfo is a variable that ropeway reads.
type variableInfo struct {
	Name  string  `json:"name"`
	Value *string `json:"value"` // nil: not set
	About string  `json:"about"`
}

// variables are those that the library or this program reads, with what they mean and, in brackets, what holds without.
var variables = []struct{ name, about string }{
	{setup.EnvProduct, "the product to be (A2)"},
	{setup.EnvForm, "EP, a card, or RC, stand-alone (EP)"},
	{setup.EnvDevices, "how many devices there are, 0 to 64 (8)"},
	{setup.EnvDeviceMemory, "size of each device, like 8GiB (64GiB)"},
	{setup.EnvDriver, "what devices run on: soft or cuda (soft)"},
	{homeVariable, "toolkit of ropeway run, where it is in none itself"},
	{setup.EnvVisible, "devices that a program sees, like 0,2 (all)"},
	{setup.EnvKernels, "folder of objects that stand in for NPU binaries (none)"},
	{setup.EnvPod, "file of the pod whose servers share memory (none)"},
	{setup.EnvPodServer, "which of its servers this is (found by its address)"},
	{setup.EnvBlocking, "1: asynchronous calls wait for their work (0)"},
	{setup.EnvStrict, "1: what the documents forbid is refused on every product (0)"},
	{setup.EnvLogLevel, "0 debug, 1 info, 2 warning, 3 error, 4 nothing (3)"},
	{setup.EnvSlogStdout, "1: the log goes to standard output (0)"},
	{setup.EnvLogStdout, "the same, by its other name (0)"},
	{setup.EnvLogPath, "directory for log files (none are written)"},
	{setup.EnvHome, "toolkit whose package versions are read (none)"},
}

func (a *app) readVariables() []variableInfo {
	var list []variableInfo
	for _, v := range variables {
		info := variableInfo{Name: v.name, About: v.about}
		if value, set := a.lookup(v.name); set {
			info.Value = &value
		}
		list = append(list, info)
	}
	return list
}

// writeVariables writes what each means, and below it the value if it is set.
func writeVariables(p *page, list []variableInfo) {
	p.head(ui.Columns{29, 0}.Row("VARIABLE", "WHAT IT MEANS (WITHOUT IT)"))
	for _, v := range list {
		p.beside(fmt.Sprintf("%-29s", v.Name), v.About)
		if v.Value != nil {
			p.Line("  = %s", p.Good(strconv.Quote(*v.Value)))
		}
	}
}
