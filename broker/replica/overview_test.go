package replica

import "testing"

func TestRunbooksAreThoseOfTheRelease(t *testing.T) {
	for version, want := range map[string]string{
		"3.0.0": "https://maestrohub.io/uns/v3.0.0/runbooks", "v3.1.2-rc.1": "https://maestrohub.io/uns/v3.1.2-rc.1/runbooks",
		"unreleased": "https://maestrohub.io/uns/runbooks", "": "https://maestrohub.io/uns/runbooks", "3.0": "https://maestrohub.io/uns/runbooks",
	} {
		if got := runbooks(version); got != want {
			t.Errorf("version %q: %s, want %s", version, got, want)
		}
	}
}
