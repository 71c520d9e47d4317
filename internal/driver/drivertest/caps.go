package drivertest

import (
	"reflect"
	"testing"

	"ropeway/internal/driver"
)

// capabilities are the tests of each field of [driver.Caps].
var capabilities = map[string][]test{
	"Base": nil, // drivers in front of others have tests of their own
	"Map": {
		{"Reserve", testReserve},
		{"Mapping", testMapping},
		{"Growth", testGrowth},
		{"MapDeferredFree", testMapDeferredFree},
		{"MapHost", testMapHost},
		{"MapDeviceClose", testMapDeviceClose},
		{"MapPages", testMapPages},
	},
	"Share": {
		{"Share", testShare},
		{"ShareAt", testShareAt},
		{"ShareSmall", testShareSmall},
		{"ShareRunning", testShareRunning},
		{"ShareFreed", testShareFreed},
		{"ImportHostile", testImportHostile},
	},
	"Fabric": nil, // tested in internal/driver/far: it takes two servers
	"Managed": {
		{"Managed", testManaged},
	},
	"Words": {
		{"Words", testWords},
	},
	"View": {
		{"View", testView},
	},
	"Launch": {
		{"Launch", testLaunch},
		{"LaunchAtRandom", testLaunchAtRandom},
		{"LaunchArgs", testLaunchArgs},
		{"LaunchGlobal", testLaunchGlobal},
		{"LaunchUnload", testLaunchUnload},
		{"LaunchDrop", testLaunchDrop},
		{"LaunchRefused", testLaunchRefused},
		{"LaunchAllocatesNothing", testLaunchAllocs},
	},
	"Guard":       nil, // tested in internal/driver/soft
	"KernelSteps": nil, // tested in internal/driver/cuda
	"Sole": {
		{"Sole", testSole},
	},
	"GPU":   nil, // tested in internal/driver/cuda
	"Fence": nil, // tested in internal/driver/soft
	"End":   nil, // tested in internal/driver/far
}

// offeredBy returns the tests of the capabilities that a driver has.
func offeredBy(t *testing.T, open func(t *testing.T) driver.Driver) (list []test) {
	d := open(t)
	defer d.Close() //nolint:errcheck // nothing is open on it
	caps := reflect.ValueOf(d.Caps())
	if caps.FieldByName("Base").IsZero() {
		t.Error("Caps does not say which driver has the memory")
	}
	for i := range caps.NumField() {
		name := caps.Type().Field(i).Name
		tests, known := capabilities[name]
		if !known {
			t.Errorf("drivertest has no tests of driver.Caps.%s", name)
		}
		if !caps.Field(i).IsZero() {
			list = append(list, tests...)
		}
	}
	return list
}
