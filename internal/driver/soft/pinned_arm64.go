package soft

// pinnedAt lists the preferred addresses of guarded pinned memory; see pinned_amd64.go. Programs begin at
// 0xaaaa_aaaa_a000 with addresses of 48 bits, at 0x55_5555_5000 with 39 bits; Go's heap is then at 0x40_0000_0000.
var pinnedAt = []uintptr{0xaa00_0000_0000, 0x30_0000_0000}
