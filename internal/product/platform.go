package product

// What the vendor's platform library knows of products: one text for each aclplatformDevInfo, "" where it has none. The
// chip's name is Product.Chip.
var platforms = map[string][17]string{
	"A2":   p910B,
	"A3":   p910B,
	"950":  {"36", "253952", "36", "72", "134217728", "137438953472", "1800", "1800", "4096", "65536", "65536", "262144", "524288", chip, "AIC-C-310", "3510", "0"},
	"310B": {"1", "253952", "1", "1", "4194304", "34359738368", "1224", "1224", "1024", "65536", "65536", "131072", "1048576", chip, "AIC-M-300", "3002", "0"},
	"310P": {"8", "262144", "", "7", "16777216", "24000000000", "1060", "1000", "", "65536", "65536", "262144", "1048576", chip, "AIC-M-200", "2002", "0"},
	"910":  {"32", "262144", "", "0", "33554432", "", "1000", "", "", "65536", "65536", "262144", "1048576", chip, "AIC-C-100", "1001", ""},
}

var p910B = [17]string{"24", "196608", "24", "48", "201326592", "68719476736", "1850", "", "1024", "65536", "65536", "131072", "524288", chip, "AIC-C-220", "2201", ""}

// chip stands for the name of the chip.
const chip = "chip"

// instructions are the data types of instructions, by name; those of others are not known.
var instructions = map[string]string{
	"Intrinsic_vadd": "float16,float32,int32,int16",
	"Intrinsic_vrec": "float16,float32",
}

// Platform is what the platform library says about the product; "" if it has no such value.
func (p *Product) Platform(info int) string {
	values, ok := platforms[p.Name]
	if !ok || info < 0 || info >= len(values) {
		return ""
	}
	if values[info] == chip {
		return p.Chip
	}
	return values[info]
}

// Instruction is the data types of an instruction; "" if it is not known.
func (p *Product) Instruction(name string) string {
	if p.Name != "A2" && p.Name != "A3" {
		return ""
	}
	return instructions[name]
}
