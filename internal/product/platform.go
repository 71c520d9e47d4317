package product

// The answers of the vendor's platform library: a text for each aclplatformDevInfo, "" where it has none.
var platform = [...][5]string{ // A2 and A3, 950, 310B, 310P, 910
	{"24", "36", "1", "8", "32"},                                      // AI cores
	{"196608", "253952", "253952", "262144", "262144"},                // unified buffer
	{"24", "36", "1", "", ""},                                         // cube cores
	{"48", "72", "1", "7", "0"},                                       // vector cores
	{"201326592", "134217728", "4194304", "16777216", "33554432"},     // L2
	{"68719476736", "137438953472", "34359738368", "24000000000", ""}, // memory
	{"1850", "1800", "1224", "1060", "1000"},                          // MHz of cube cores
	{"", "1800", "1224", "1000", ""},                                  // MHz of vector cores
	{"1024", "4096", "1024", "", ""},                                  // bias table
	{"65536", "65536", "65536", "65536", "65536"},                     // L0A
	{"65536", "65536", "65536", "65536", "65536"},                     // L0B
	{"131072", "262144", "131072", "262144", "262144"},                // L0C
	{"524288", "524288", "1048576", "1048576", "1048576"},             // L1
	{}, // name of the chip: Product.Chip
	{"AIC-C-220", "AIC-C-310", "AIC-M-300", "AIC-M-200", "AIC-C-100"}, // version of the cores
	{"2201", "3510", "3002", "2002", "1001"},                          // architecture
	{"", "0", "0", "0", ""},                                           // type of memory
}

// platformColumn has the column of each product in platform.
var platformColumn = map[string]int{"A2": 0, "A3": 0, "950": 1, "310B": 2, "310P": 3, "910": 4}

// platformChip is the row of the chip's name.
const platformChip = 13

// instructions has the data types of known instructions, by name.
var instructions = map[string]string{
	"Intrinsic_vadd": "float16,float32,int32,int16",
	"Intrinsic_vrec": "float16,float32",
}

// Platform returns a value of the platform library for the product; "" if it has no such value.
func (p *Product) Platform(info int) string {
	column, ok := platformColumn[p.Name]
	switch {
	case !ok || info < 0 || info >= len(platform):
		return ""
	case info == platformChip:
		return p.Chip
	}
	return platform[info][column]
}

// Instruction returns the data types of an instruction; "" if it is unknown.
func (p *Product) Instruction(name string) string {
	if p.Name != "A2" && p.Name != "A3" {
		return ""
	}
	return instructions[name]
}
