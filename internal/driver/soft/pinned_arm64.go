package soft

// pinnedAt is where guarded pinned memory lies if it can; see pinned_amd64.go. Programs begin at 0xaaaa_aaaa_a000 with
// 48 bits of address, at 0x55_5555_5000 with 39, where Go's heap is at 0x40_0000_0000.
var pinnedAt = []uintptr{0xaa00_0000_0000, 0x30_0000_0000}
