package jetstream_test

import (
	"fmt"
	"slices"
	"testing"

	"maestrohub.io/uns/broker/state/jetstream"
)

func TestReplicasBeginWithDifferentServers(t *testing.T) {
	servers := []string{"a", "b", "c"}
	for replica, want := range map[string]string{"uns-0": "a b c", "uns-1": "b c a", "mh-uns-2": "c a b", "uns-3": "a b c", "7": "b c a"} {
		if got := jetstream.Spread(servers, replica); !slices.Equal(got, []string{want[:1], want[2:3], want[4:]}) {
			t.Errorf("%s begins with %v, want %s", replica, got, want)
		}
	}
	first := map[string]int{}
	for i := range 300 {
		got := jetstream.Spread(servers, fmt.Sprintf("replica-%dx", i)) // ends in no number
		if again := jetstream.Spread(servers, fmt.Sprintf("replica-%dx", i)); !slices.Equal(got, again) {
			t.Fatalf("%v, then %v", got, again)
		}
		slices.Sort(got[1:])
		first[got[0]]++
	}
	for server, n := range first {
		if n < 50 {
			t.Errorf("only %d of 300 replicas begin with %s: %v", n, server, first)
		}
	}
	if got := jetstream.Spread([]string{"one"}, "uns-5"); !slices.Equal(got, []string{"one"}) {
		t.Errorf("of one server: %v", got)
	}
}
