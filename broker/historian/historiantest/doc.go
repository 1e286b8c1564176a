// Package historiantest is the conformance suite of historians: what the promises
// in package historian mean, as tests. An implementation passes all of it or is
// not one.
//
//	func TestConformance(t *testing.T) {
//		base := t.TempDir()
//		historiantest.Run(t, func(t *testing.T, store string) historian.Historian {
//			h, err := pebble.Open(filepath.Join(base, store), pebble.Options{})
//			...
//		})
//	}
//
// What needs faults of a particular kind (a full disk, a kill, a cut network) is
// each implementation's own to test.
package historiantest
