package memory

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// MemFlush is aclrtMemFlush: it checks and does nothing, for the devices have no cache that a program sees.
func MemFlush(t *core.Thread, devPtr core.Addr, size uint64) *core.Error {
	_, err := checkMemFlush(t, devPtr, size)
	return err
}

// MemInvalidate is aclrtMemInvalidate: it checks and does nothing.
func MemInvalidate(t *core.Thread, devPtr core.Addr, size uint64) *core.Error {
	_, err := checkMemInvalidate(t, devPtr, size)
	return err
}

// GetMemInfo is aclrtGetMemInfo.
func GetMemInfo(t *core.Thread, attr abi.MemAttr, free, total *uint64) *core.Error {
	const api = "aclrtGetMemInfo"
	if err := checkGetMemInfo(t, attr, free, total); err != nil {
		return err
	}
	if attr < 0 || attr > abi.MemAttrMemP2PHuge1G {
		return core.Fail(api, abi.ErrRTInvalidMemoryType, "attr", "%d is not 0 to %d", attr, abi.MemAttrMemP2PHuge1G)
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	q := questions[attr]
	if q.part == gigapages && !t.Runtime.Product.Modern && !t.Runtime.Product.DDR {
		return core.Unsupported(api, "attr", "%v: %s has no pages of 1 GiB; 950, A3 and A2 have", attr,
			t.Runtime.Product.Name)
	}
	dev := c.Device.Opened.Load()
	if dev == nil { // the device was reset since
		return core.NoCurrentContext(api)
	}
	f, all := dev.Memory()
	*free, *total = q.answer(t.Runtime.Product.DDR, f, all)
	return nil
}

// question is the meaning of an aclrtMemAttr. Peers can access all memory, so P2P makes no difference.
type question struct {
	kind kindOfMemory
	part part
}

type kindOfMemory uint8

const (
	ddr    kindOfMemory = iota
	hbm                 // HBM, or DDR on a product with DDR
	either              // HBM or DDR; DDR has no parts
)

type part uint8

const (
	whole part = iota
	hugePages
	normalPages
	gigapages
)

var questions = [...]question{
	abi.MemAttrDDRMem:          {ddr, whole},
	abi.MemAttrHBMMem:          {hbm, whole},
	abi.MemAttrDDRMemHuge:      {ddr, hugePages},
	abi.MemAttrDDRMemNormal:    {ddr, normalPages},
	abi.MemAttrHBMMemHuge:      {hbm, hugePages},
	abi.MemAttrHBMMemNormal:    {hbm, normalPages},
	abi.MemAttrDDRMemP2PHuge:   {ddr, hugePages},
	abi.MemAttrDDRMemP2PNormal: {ddr, normalPages},
	abi.MemAttrHBMMemP2PHuge:   {hbm, hugePages},
	abi.MemAttrHBMMemP2PNormal: {hbm, normalPages},
	abi.MemAttrHBMMemHuge1G:    {either, gigapages},
	abi.MemAttrHBMMemP2PHuge1G: {either, gigapages},
	abi.MemAttrMemNormal:       {either, normalPages},
	abi.MemAttrMemHuge:         {either, hugePages},
	abi.MemAttrMemHuge1G:       {either, gigapages},
	abi.MemAttrMemP2PNormal:    {either, normalPages},
	abi.MemAttrMemP2PHuge:      {either, hugePages},
	abi.MemAttrMemP2PHuge1G:    {either, gigapages},
}

// normalShare is the inverse of the share of memory reported as normal pages. In truth every page can be of every kind;
// but the parts must add up to the whole, and programs divide by totals.
const normalShare = 16

// answer returns the free and total bytes of the kind of memory in question.
func (q question) answer(isDDR bool, free, total uint64) (uint64, uint64) {
	const hugePage, gigapage = 2 << 20, 1 << 30
	switch {
	case q.kind == ddr && !isDDR:
		return 0, 0
	case q.kind == either && isDDR:
		return free, total
	}
	// Normal pages are reported as used first.
	huge := (total - total/normalShare) &^ (hugePage - 1)
	hugeFree := min(free, huge)
	switch q.part {
	case hugePages:
		return hugeFree, huge
	case normalPages:
		return free - hugeFree, total - huge
	case gigapages:
		return free &^ (gigapage - 1), total &^ (gigapage - 1)
	}
	return free, total
}

// GetMemUsageInfo is aclrtGetMemUsageInfo. There is one module, this process.
func GetMemUsageInfo(t *core.Thread, deviceID int32, memUsageInfo *abi.MemUsageInfo, inputNum uint64,
	outputNum *uint64) *core.Error {
	if memUsageInfo != nil && outputNum != nil {
		*outputNum = 0 // even if a later check refuses the call
	}
	d, _, err := checkGetMemUsageInfo(t, deviceID, memUsageInfo, inputNum, outputNum)
	if err != nil {
		return err
	}
	*memUsageInfo = abi.MemUsageInfo{}
	if dev := d.Opened.Load(); dev != nil {
		free, total := dev.Memory()
		memUsageInfo.CurMemSize, memUsageInfo.MemPeakSize = total-free, dev.Peak()
	}
	copy(memUsageInfo.Name[:], "ropeway")
	*outputNum = 1
	return nil
}

// memTypes are the bits of aclrtCheckMemType: device, DVPP, and a reserved one.
const memTypes = abi.MemTypeDev | abi.MemTypeDvpp | 0x20

// knownTypes refuses other bits.
func knownTypes(_ *core.Thread, api string, memType uint32) *core.Error {
	if memType&^memTypes != 0 {
		return core.Refused(api, "memType",
			"%#x has other bits than ACL_RT_MEM_TYPE_DEV (0x2), ACL_RT_MEM_TYPE_DVPP (0x8) and 0x20", memType)
	}
	return nil
}

// CheckMemType is aclrtCheckMemType. All device memory has the type DEV, never DVPP.
func CheckMemType(t *core.Thread, addrList *core.Addr, size, memType uint32, checkResult *uint32,
	reserve uint32) *core.Error {
	if addrList != nil && checkResult != nil {
		*checkResult = 0 // even if a later check refuses the call
	}
	if _, err := checkCheckMemType(t, addrList, size, memType, checkResult, reserve); err != nil {
		return err
	}
	if memType&abi.MemTypeDev == 0 {
		return nil
	}
	for _, a := range core.Array(addrList, uint64(size)) {
		if t.Runtime.Driver.Locate(a).Place != driver.OnDevice {
			return nil
		}
	}
	*checkResult = 1
	return nil
}
