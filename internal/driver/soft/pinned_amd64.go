package soft

// pinnedAt is where guarded pinned memory lies if it can. The checker filters system calls by this range, and a filter
// outlives exec: no program should have anything else there. Up to 0x5555_5555_4000, where position independent
// programs begin at the lowest, the kernel puts nothing by itself. It is memory of the program for ASan (from
// 0x1000_7fff_8000 on), TSan (from 0x5500_0000_0000) and MSan (from 0x5100_0000_0000), whose shadows, and the Go race
// detector's, lie below.
var pinnedAt = []uintptr{0x5500_0000_0000}
