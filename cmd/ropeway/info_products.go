package main

import (
	"fmt"
	"slices"

	"ropeway/internal/product"
	"ropeway/internal/ui"
)

// productInfo is a product among all, for --json.
type productInfo struct {
	Name     string        `json:"name"`
	Chip     string        `json:"chip"`
	Forms    []string      `json:"forms"`
	Default  bool          `json:"default"`
	Limits   []limitInfo   `json:"limits"`
	Features []featureInfo `json:"features"`
}

func allProducts() ([]productInfo, error) {
	var all []productInfo
	for _, name := range product.Names() {
		p, err := product.Find(name, "")
		if err != nil {
			return nil, err
		}
		forms := []string{"EP"}
		if slices.Contains(product.RCForms(), name) {
			forms = append(forms, "RC")
		}
		all = append(all, productInfo{name, p.Chip, forms, name == product.Default, limits(p), features(p)})
	}
	return all, nil
}

// products compares them: one column each.
func (a *app) products(asJSON bool) error {
	all, err := allProducts()
	if err != nil {
		return err
	}
	if asJSON {
		return a.writeJSON(map[string][]productInfo{"products": all})
	}
	p := newPage(ui.New(a.stdout, a.getenv))
	chips := ui.Columns{12, 20, 0}
	p.Line("%s", p.Bold(chips.Row("PRODUCT", "CHIP", "FORMS")))
	for _, i := range all {
		forms := "EP"
		if len(i.Forms) > 1 {
			forms = "EP and RC"
		}
		if i.Default {
			forms += ", the default"
		}
		p.Line("%s", chips.Row(i.Name, i.Chip, forms))
	}
	table := ui.Columns{30, -6, -6, -6, -6, -6, -6, -6, -7}
	row := func(name string, cell func(productInfo) string) string {
		cells := []string{name}
		for _, i := range all {
			cells = append(cells, cell(i))
		}
		return table.Row(cells...)
	}
	p.head(row("FEATURE", func(i productInfo) string { return i.Name }))
	for n, f := range all[0].Features {
		p.Line("%s", row(f.Name, func(i productInfo) string { return yesNo(i.Features[n].Has) }))
	}
	p.head(row("LIMIT OF A DEVICE", func(i productInfo) string { return i.Name }))
	for n, l := range all[0].Limits {
		p.Line("%s", row(l.Name, func(i productInfo) string { return fmt.Sprint(i.Limits[n].Max) }))
	}
	return nil
}
