package soft

// pinnedAt lists the preferred addresses of guarded pinned memory. The checker filters system calls by this range, and
// a filter outlives exec: no program should have anything else there. The kernel itself maps nothing below
// 0x5555_5555_4000, the lowest address of position independent programs. ASan (from 0x1000_7fff_8000), TSan (from
// 0x5500_0000_0000) and MSan (from 0x5100_0000_0000) treat it as memory of the program; their shadows, and the Go race
// detector's, lie below.
var pinnedAt = []uintptr{0x5500_0000_0000}
