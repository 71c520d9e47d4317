package launch

import (
	"strings"
	"sync"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// areas holds the synchronisation areas of open devices. They end with their device.
type areas struct {
	mu sync.Mutex
	at map[*core.OpenDevice]Addr // guarded by mu
}

// AreaBytes is the size of an area.
const AreaBytes = 4096

// GetHardwareSyncAddr is aclrtGetHardwareSyncAddr: memory of the device for kernels, which nothing else uses.
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
	at, err := stateOf(t.Runtime).areas.of(t, api, dev)
	if err != nil {
		return err
	}
	*addr = at
	return nil
}

// of returns the area of a device, and allocates it if necessary.
func (a *areas) of(t *core.Thread, api string, dev *core.OpenDevice) (Addr, *core.Error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at[dev] == 0 {
		at, err := dev.Alloc(AreaBytes, driver.PageNormal)
		if err != nil {
			return 0, core.FromDriver(api, "", err)
		}
		if err := t.Runtime.Caps.Base.Run(driver.Op{Kind: driver.OpFill, Dst: at, N: AreaBytes,
			Width: 1}); err != nil {
			dev.Free(at) //nolint:errcheck // ours
			return 0, core.FromDriver(api, "", err)
		}
		if a.at == nil {
			a.at = map[*core.OpenDevice]Addr{}
		}
		a.at[dev] = at
	}
	return a.at[dev], nil
}

// architectures lists the architectures of code by prefixes of product names. The first match counts.
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
