package finding

// Near returns the name of a rule similar to name, "" if there is none.
func Near(name string) string {
	best, most := "", 2
	for _, r := range Rules {
		head := 0
		for head < min(len(name), len(r.Name)) && name[head] == r.Name[head] {
			head++
		}
		tail := 0
		for tail < min(len(name), len(r.Name))-head && name[len(name)-1-tail] == r.Name[len(r.Name)-1-tail] {
			tail++
		}
		if head+tail > most {
			best, most = r.Name, head+tail
		}
	}
	return best
}

// RuleNames returns the names of all rules, in their order.
func RuleNames() (names []string) {
	for _, r := range Rules {
		names = append(names, r.Name)
	}
	return names
}
