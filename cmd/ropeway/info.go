package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"ropeway"
	"ropeway/internal/product"
	"ropeway/internal/ui"
)

type infoReport struct {
	Product   string        `json:"product"`
	Form      string        `json:"form"`
	Chip      string        `json:"chip"`
	Driver    string        `json:"driver"`
	API       string        `json:"api"`
	CPUs      int           `json:"cpus"`
	HugePages *hugePages    `json:"huge_pages,omitempty"`
	Devices   []deviceInfo  `json:"devices"`
	Features  []featureInfo `json:"features"`
	Limits    []limitInfo   `json:"limits"`
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
	var name, form string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show the product, its devices and what it has",
		Long: `Show what programs find here: product, chip, devices with their memory, and
which features the product has. A feature that is missing answers 207000.`,
		Example: `  ropeway info
  ropeway info --product 310P
  ropeway info --product 310B --form RC
  ropeway info --json`,
		Args:              a.noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			p, err := a.findProduct("info", name, form)
			if err != nil {
				return err
			}
			r, err := a.readInfo(p)
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(r)
			}
			writeInfo(ui.New(a.stdout, a.getenv), r)
			return nil
		},
	}
	productFlag(cmd, &name)
	cmd.Flags().StringVar(&form, "form", "EP", "`form`: EP, a card, or RC, stand-alone")
	complete(cmd, "form", "EP", "RC")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// productFlag adds --product.
func productFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "product", product.Default, "`name`: "+strings.Join(product.Names(), ", "))
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

func (a *app) readInfo(p *product.Product) (*infoReport, error) {
	rt, err := ropeway.Open(ropeway.WithProduct(p.Name, formName(p.RC)), ropeway.WithLog(a.stderr))
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	r := &infoReport{
		Product: p.Name, Form: formName(p.RC), Chip: rt.Chip(), Driver: rt.Driver(), API: apiVersion,
		CPUs: runtime.GOMAXPROCS(0), HugePages: readHugePages(), Features: features(p), Devices: []deviceInfo{},
		Limits: []limitInfo{{"streams", p.Streams}, {"events", p.Events}, {"notifies", p.Notifies}},
	}
	for i := range rt.DeviceCount() {
		d := deviceInfo{ID: i}
		if d.Free, d.Total, err = memoryOf(rt, i); err != nil {
			return nil, err
		}
		r.Devices = append(r.Devices, d)
	}
	return r, nil
}

func memoryOf(rt *ropeway.Runtime, i int) (free, total uint64, err error) {
	d, err := rt.Device(i)
	if err != nil {
		return 0, 0, err
	}
	defer d.Close()
	return d.MemInfo()
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

func writeInfo(o *ui.Output, r *infoReport) {
	c := ui.Columns{12, 0}
	o.Line("%s", c.Row("product", fmt.Sprintf("%s (%s), form %s", r.Product, r.Chip, r.Form)))
	o.Line("%s", c.Row("driver", r.Driver))
	o.Line("%s", c.Row("API", "AscendCL runtime "+r.API))
	o.Line("%s", c.Row("CPUs", fmt.Sprint(r.CPUs)))
	if r.HugePages != nil {
		o.Line("%s", c.Row("huge pages", fmt.Sprintf("%s; shared memory %s (the kernel's setting)", r.HugePages.Private, r.HugePages.Shared)))
	}
	var limits []string
	for _, l := range r.Limits {
		limits = append(limits, fmt.Sprintf("%d %s", l.Max, l.Name))
	}
	o.Line("%s", c.Row("limits", strings.Join(limits, ", ")+", each device"))

	o.Line("")
	d := ui.Columns{10, -11, -11}
	o.Line("%s", o.Bold(d.Row("DEVICE", "FREE", "TOTAL")))
	for i := 0; i < len(r.Devices); {
		// Devices that read alike share a line.
		free, total := ui.Bytes(r.Devices[i].Free), ui.Bytes(r.Devices[i].Total)
		j := i + 1
		for j < len(r.Devices) && ui.Bytes(r.Devices[j].Free) == free && ui.Bytes(r.Devices[j].Total) == total {
			j++
		}
		ids := fmt.Sprint(r.Devices[i].ID)
		if j > i+1 {
			ids += fmt.Sprintf(" to %d", r.Devices[j-1].ID)
		}
		o.Line("%s", d.Row(ids, free, total))
		i = j
	}
	if len(r.Devices) > 1 && r.Driver == "soft" {
		o.Line("%s", o.Dim("Software devices share the machine's memory."))
	}

	o.Line("")
	f := ui.Columns{32, 6, 32, 0}
	o.Line("%s", o.Bold(f.Row("FEATURE", "", "FEATURE")))
	half := (len(r.Features) + 1) / 2
	for i := range half {
		left := f[:2].Row(r.Features[i].Name, yesNo(r.Features[i].Has))
		if i+half < len(r.Features) {
			right := r.Features[i+half]
			left = ui.Columns{38, 32, 0}.Row(left, right.Name, yesNo(right.Has))
		}
		o.Line("%s", left)
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
