package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/product"
	"ropeway/internal/setup"
	"ropeway/internal/ui"
	"ropeway/internal/version"
)

// infoReport is what --json writes.
type infoReport struct {
	Product     string         `json:"product"`
	Form        string         `json:"form"`
	Chip        string         `json:"chip"`
	Driver      string         `json:"driver"`
	Drivers     []driverInfo   `json:"drivers"`
	API         string         `json:"api"`
	Versions    hostVersions   `json:"versions"`
	CPUs        int            `json:"cpus"`
	HugePages   *hugePages     `json:"huge_pages,omitempty"`
	Toolkit     *toolkit       `json:"toolkit"` // null: there is none
	Devices     []deviceInfo   `json:"devices"`
	Features    []featureInfo  `json:"features"`
	Limits      []limitInfo    `json:"limits"`
	Environment []variableInfo `json:"environment"`

	noToolkit string // why there is none
}

// hugePages is how the kernel gives transparent huge pages: always, madvise, never and so on.
type hugePages struct {
	Private string `json:"private"`
	Shared  string `json:"shared"` // memory of devices and pinned memory
}

type deviceInfo struct {
	ID    int    `json:"id"`
	Free  uint64 `json:"free"`
	Total uint64 `json:"total"`
	GPU   *int   `json:"gpu,omitempty"` // that it is on
}

type featureInfo struct {
	Name string `json:"name"`
	Has  bool   `json:"has"`
}

type limitInfo struct {
	Name string `json:"name"`
	Max  int    `json:"max"`
}

func (a *app) info() *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show products, devices, versions and the environment",
		Long: `Show what programs find here: product, chip, devices with their memory, which
features the product has, versions, drivers, where the toolkit is, and the
environment variables that count. A feature that is missing returns 207000.

Product, form and driver are those of the environment unless flags say
otherwise.`,
		Example: `  ropeway info
  ropeway info --products
  ropeway info --product 310B --form RC
  ropeway info --driver cuda
  ROPEWAY_DEVICES=2 ropeway info
  ropeway info --json`,
		Args:              a.noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && (cmd.Flags().Changed("product") || cmd.Flags().Changed("form") || cmd.Flags().Changed("driver")) {
				return &usageError{errors.New("--products shows all of them, so --product, --form and --driver mean " +
					"nothing"), "leave either out"}
			}
			if all {
				return a.products(asJSON)
			}
			settings, err := a.readSettings(cmd)
			if err != nil {
				return err
			}
			r, err := a.readInfo(settings)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(r)
			}
			writeInfo(newPage(ui.New(a.stdout, a.getenv)), r)
			return nil
		},
	}
	productFlag(cmd, new(string))
	cmd.Flags().String("form", "EP", "`form`: EP, a card, or RC, stand-alone")
	complete(cmd, "form", "EP", "RC")
	cmd.Flags().String("driver", "soft", "`driver`: soft or cuda")
	complete(cmd, "driver", "soft", "cuda")
	cmd.Flags().BoolVar(&all, "products", false, "compare all products instead")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// readSettings reads the environment as the library does, with the flags over it.
func (a *app) readSettings(cmd *cobra.Command) (setup.Settings, error) {
	var changed []variable
	for flag, name := range map[string]string{"product": setup.EnvProduct, "form": setup.EnvForm,
		"driver": setup.EnvDriver} {
		if f := cmd.Flags().Lookup(flag); f.Changed {
			changed = append(changed, variable{name, f.Value.String()})
		}
	}
	if len(changed) > 0 {
		look := overlay(a.lookup, changed)
		name, _ := look(setup.EnvProduct)
		form, _ := look(setup.EnvForm)
		if _, err := a.findProduct("info", name, form); err != nil {
			return setup.Settings{}, err
		}
	}
	settings, err := setup.Read(overlay(a.lookup, changed))
	if flag := cmd.Flags().Lookup("driver"); err != nil && flag.Changed && strings.Contains(err.Error(),
		setup.EnvDriver+"=") {
		return settings, &usageError{errors.New(strings.ReplaceAll(err.Error(), setup.EnvDriver+"=", "--driver=")),
			"see " + a.name + " info --help"}
	}
	if err != nil {
		return settings, &failure{err: err, next: "correct the variable, or unset it; every command that opens " +
			"devices reads it"}
	}
	settings.Log = setup.LogSettings{} // this is no program of the user
	return settings, nil
}

// productFlag adds --product.
func productFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "product", product.Default, "`name`: "+strings.Join(product.Names(), " "))
	complete(cmd, "product", product.Names()...)
}

// complete says what a shell may offer for a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist
	}
}

// findProduct turns flags into a product; what does not exist is the caller's mistake.
func (a *app) findProduct(command, name, form string) (*product.Product, error) {
	p, err := product.Find(name, form)
	if err != nil {
		return nil, &usageError{err, fmt.Sprintf("see %s %s --help", a.name, command)}
	}
	return p, nil
}

func formName(rc bool) string {
	if rc {
		return "RC"
	}
	return "EP"
}

func (a *app) readInfo(settings setup.Settings) (*infoReport, error) {
	rt, err := settings.Open(a.stderr)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	p := settings.Product
	r := &infoReport{
		Product: p.Name, Form: formName(p.RC), Chip: p.Chip, Driver: rt.Driver.Name(), Drivers: drivers(),
		API:      version.API,
		Versions: readHostVersions(), CPUs: runtime.GOMAXPROCS(0), HugePages: readHugePages(), Features: features(p),
		Devices:     []deviceInfo{},
		Limits:      limits(p),
		Environment: a.readVariables(),
	}
	if r.Toolkit, err = a.toolkit(); err != nil {
		r.noToolkit = "run make dist, or set " + homeVariable
		if a.getenv(homeVariable) != "" {
			r.noToolkit = err.Error()
		}
	}
	th := rt.NewThread(0)
	defer th.Close()
	var n uint32
	if err := process.GetDeviceCount(th, &n); err != nil && err.Code != abi.ErrRTNoDevice {
		return nil, err
	}
	for i := range int(n) {
		d := deviceInfo{ID: i}
		if rt.Caps.GPU != nil {
			var phys int32
			if err := process.GetPhyDevIdByUserDevId(th, int32(i), &phys); err != nil {
				return nil, err
			}
			gpu := rt.Caps.GPU(int(phys))
			d.GPU = &gpu
		}
		if d.Free, d.Total, err = memoryOf(th, int32(i)); err != nil {
			return nil, err
		}
		r.Devices = append(r.Devices, d)
	}
	return r, nil
}

// memoryOf is how much memory a device has; it is closed again.
func memoryOf(th *core.Thread, id int32) (free, total uint64, err error) {
	if err := th.SetDevice(id); err != nil {
		return 0, 0, err
	}
	if err := memory.GetMemInfo(th, abi.MemAttrHBMMem, &free, &total); err != nil {
		return 0, 0, err
	}
	if err := th.ResetDevice(id); err != nil {
		return 0, 0, err
	}
	return free, total, nil
}

func limits(p *product.Product) []limitInfo {
	return []limitInfo{{"streams", p.Streams}, {"events", p.Events}, {"notifies", p.Notifies}}
}

func features(p *product.Product) []featureInfo {
	return []featureInfo{
		{"batch copies", p.Batch},
		{"descriptor copies", p.DescSize > 0},
		{"offset copies", p.OffsetCopy},
		{"asynchronous pageable copies", !p.LateHostErrors},
		{"fills of 32-bit words", p.FillWords},
		{"access between devices", p.Peer},
		{"host registration", p.Register},
		{"managed memory", p.Managed},
		{"memory pools", p.Pools},
		{"event flags, IPC events", p.EventFlags},
		{"count notifies", p.CountNotify},
		{"stream and task abort", p.Abort},
	}
}

// readHugePages is nil where the kernel does not say.
func readHugePages() *hugePages {
	h := &hugePages{chosen("enabled"), chosen("shmem_enabled")}
	if h.Private == "" && h.Shared == "" {
		return nil
	}
	return h
}

// chosen is the word in brackets of a kernel setting such as "always [madvise] never".
func chosen(setting string) string {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/" + setting)
	if err != nil {
		return ""
	}
	_, text2, _ := strings.Cut(string(text), "[")
	word, _, _ := strings.Cut(text2, "]")
	return word
}

func writeInfo(p *page, r *infoReport) {
	p.item("product", fmt.Sprintf("%s (%s), form %s", r.Product, r.Chip, r.Form))
	var limits []string
	for _, l := range r.Limits {
		limits = append(limits, fmt.Sprintf("%d %s", l.Max, l.Name))
	}
	p.item("limits", strings.Join(limits, ", ")+", each device")
	p.item("driver", r.Driver)
	p.item("API", "AscendCL runtime "+r.API)
	p.item("ropeway", r.Versions.Ropeway+", "+r.Versions.Go)
	system := fmt.Sprintf("Linux %s, %d CPUs", r.Versions.Kernel, r.CPUs)
	if r.Versions.Glibc != "" {
		system += ", glibc " + r.Versions.Glibc
	}
	p.item("system", system)
	if r.HugePages != nil {
		p.item("huge pages", fmt.Sprintf("%s; shared memory %s (the kernel's setting)", r.HugePages.Private,
			r.HugePages.Shared))
	}
	if r.Toolkit != nil {
		p.item("toolkit", r.Toolkit.Root+" ("+r.Toolkit.How+")")
	} else {
		p.item("toolkit", "none for ropeway run: "+r.noToolkit)
	}
	writeDevices(p, r)
	writeFeatures(p, r.Features)
	p.head(ui.Columns{10, 5, 0}.Row("DRIVER", "", "WHAT IT IS"))
	for _, d := range r.Drivers {
		p.beside(fmt.Sprintf("%-10s%-5s", d.Name, yesNo(d.Available)), d.About)
	}
	writeVariables(p, r.Environment)
}

func writeDevices(p *page, r *infoReport) {
	c := ui.Columns{10, -11, -11}
	p.head(c.Row("DEVICE", "FREE", "TOTAL"))
	for i := 0; i < len(r.Devices); {
		// Devices that read alike share a line.
		text := func(ids string, d *deviceInfo) string {
			return c.Row(ids, ui.Bytes(d.Free), ui.Bytes(d.Total)) + whichGPU(r.Devices, d)
		}
		j := i + 1
		for j < len(r.Devices) && text("", &r.Devices[j]) == text("", &r.Devices[i]) {
			j++
		}
		p.Line("%s", text(span(r.Devices[i].ID, r.Devices[j-1].ID), &r.Devices[i]))
		i = j
	}
	switch {
	case len(r.Devices) == 0:
		p.Line("none      %s", p.Dim("see ROPEWAY_DEVICES and ASCEND_RT_VISIBLE_DEVICES"))
	case len(r.Devices) > 1 && r.Driver == "soft":
		p.Line("%s", p.Dim("Software devices share the machine's memory."))
	}
}

// whichGPU says which GPU a device is on, and with which others; "" if it is on none.
func whichGPU(all []deviceInfo, d *deviceInfo) string {
	if d.GPU == nil {
		return ""
	}
	var same []string
	for i := 0; i < len(all); i++ {
		first := i
		for i+1 < len(all) && *all[i].GPU == *d.GPU && *all[i+1].GPU == *d.GPU {
			i++
		}
		if *all[i].GPU == *d.GPU {
			same = append(same, span(all[first].ID, all[i].ID))
		}
	}
	text := fmt.Sprintf("   GPU %d", *d.GPU)
	if len(same) > 1 || same[0] != fmt.Sprint(d.ID) {
		text += ", shared by devices " + strings.Join(same, ", ")
	}
	return text
}

// span is numbers from first to last.
func span(first, last int) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

func writeFeatures(p *page, list []featureInfo) {
	c := ui.Columns{32, 6, 32, 0}
	p.head(c.Row("FEATURE", "", "FEATURE"))
	half := (len(list) + 1) / 2
	for i := range half {
		left := c[:2].Row(list[i].Name, yesNo(list[i].Has))
		if i+half < len(list) {
			right := list[i+half]
			left = ui.Columns{38, 32, 0}.Row(left, right.Name, yesNo(right.Has))
		}
		p.Line("%s", left)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
