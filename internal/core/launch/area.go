package launch

import (
	"strings"
	"sync"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// areas are the synchronisation areas of open devices. They go with their device.
type areas struct {
	mu sync.Mutex
	at map[*core.OpenDevice]Addr // guarded by mu
}

// areaBytes is the size of one.
const areaBytes = 4096

// GetHardwareSyncAddr is aclrtGetHardwareSyncAddr: memory of the device that nothing else uses, for kernels that pass
// it on.
func GetHardwareSyncAddr(t *core.Thread, addr *Addr) *core.Error {
	const api = "aclrtGetHardwareSyncAddr"
	c, err := checkGetHardwareSyncAddr(t, addr)
	if err != nil {
		return err
	}
	dev := c.Device.Opened.Load()
	if dev == nil {
		return core.NoCurrentContext(api)
	}
	a := &stateOf(t.Runtime).areas
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at[dev] == 0 {
		at, err := dev.Alloc(areaBytes, driver.PageNormal)
		if err != nil {
			return core.FromDriver(api, "", err)
		}
		if err := driver.Base(t.Runtime.Driver).Run(driver.Op{Kind: driver.OpFill, Dst: at, N: areaBytes,
			Width: 1}); err != nil {
			dev.Free(at) //nolint:errcheck // ours
			return core.FromDriver(api, "", err)
		}
		if a.at == nil {
			a.at = map[*core.OpenDevice]Addr{}
		}
		a.at[dev] = at
	}
	*addr = a.at[dev]
	return nil
}

// architectures are what code is compiled for, by the beginning of the names of products. The first that fits counts.
var architectures = []struct {
	prefix string
	number int
}{{"Ascend910B", 2201}, {"Ascend910_93", 2201}, {"Ascend950", 3510}, {"Ascend310B", 3002}, {"Ascend310P",
	2002}, {"Ascend910", 1001}}

func archOf(chip string) int {
	for _, a := range architectures {
		if strings.HasPrefix(chip, a.prefix) {
			return a.number
		}
	}
	return 0
}

// CheckArchCompatibility is aclrtCheckArchCompatibility.
func CheckArchCompatibility(t *core.Thread, socVersion *byte, canCompatible *int32) *core.Error {
	const api = "aclrtCheckArchCompatibility"
	if err := checkCheckArchCompatibility(t, socVersion, canCompatible); err != nil {
		return err
	}
	name := core.CString(socVersion)
	if name == "" {
		return core.Refused(api, "socVersion", "is empty")
	}
	wanted := archOf(name)
	if wanted == 0 {
		return core.Refused(api, "socVersion", "%q is no product", name)
	}
	*canCompatible = 0
	if wanted == archOf(t.Runtime.Product.Chip) {
		*canCompatible = 1
	}
	return nil
}
