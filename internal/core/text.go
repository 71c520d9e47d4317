package core

// CString is the text a C string holds; "" for NULL.
func CString(p *byte) string {
	if p == nil {
		return ""
	}
	n := uint64(0)
	for Array(p, n+1)[n] != 0 {
		n++
	}
	return string(Array(p, n))
}

// PutString writes text and its terminator into room; false if it does not fit.
func PutString(room []byte, text string) bool {
	if len(text) >= len(room) {
		return false
	}
	room[copy(room, text)] = 0
	return true
}
