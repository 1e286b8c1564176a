package replica

import (
	"fmt"
	"testing"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/server"
)

// Devices that only publish keep sessions too, and there are many of them.
func TestASessionThatReadsNothingIsListedLast(t *testing.T) {
	var all []server.SessionOverview
	for i := range api.MaxSessions {
		all = append(all, server.SessionOverview{ClientID: fmt.Sprint("publisher-", i), Behind: 6000})
	}
	all = append(all, server.SessionOverview{ClientID: "far", Subscriptions: 2, Behind: 9}, server.SessionOverview{ClientID: "near", Subscriptions: 1, Behind: 3})
	got := listed(all)
	if len(got) != api.MaxSessions || got[0].ClientID != "far" || got[1].ClientID != "near" || got[2].ClientID != "publisher-0" {
		t.Errorf("%d listed, first %s, %s, %s; want %d, those that subscribe before the others", len(got), got[0].ClientID, got[1].ClientID, got[2].ClientID, api.MaxSessions)
	}
	r := &Replica{}
	if s := r.sharedSession(&got[2]); s.Behind != nil {
		t.Errorf("a session without a subscription is %d behind, want nothing said of it", *s.Behind)
	}
	if s := r.sharedSession(&got[0]); s.Behind == nil || *s.Behind != 9 {
		t.Errorf("a session with subscriptions is %v behind, want 9", s.Behind)
	}
}

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
