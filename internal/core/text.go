package core

// cString is the text a C string holds; "" for NULL.
func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := uint64(0)
	for array(p, n+1)[n] != 0 {
		n++
	}
	return string(array(p, n))
}

// putString writes text and its terminator into room; false if it does not fit.
func putString(room []byte, text string) bool {
	if len(text) >= len(room) {
		return false
	}
	room[copy(room, text)] = 0
	return true
}
