package cluster

import (
	"reflect"
	"testing"
)

func TestOnlyNamedSubscriptionsChange(t *testing.T) {
	sub := func(filter string, qos byte, since uint64) Subscription {
		return Subscription{Filter: filter, QoS: qos, Since: Position{Sequence: since}}
	}
	stored := []Subscription{sub("a", 1, 7), sub("b", 2, 8)}
	for name, c := range map[string]struct {
		next        []Subscription
		named, kept []string
		want        []Subscription
	}{
		"the same":                       {next: []Subscription{sub("a", 1, 7), sub("b", 2, 8)}, want: []Subscription{sub("a", 1, 7), sub("b", 2, 8)}},
		"only a position moved":          {next: []Subscription{sub("a", 1, 0), sub("b", 2, 8)}, want: []Subscription{sub("a", 1, 0), sub("b", 2, 8)}},
		"one forgotten":                  {next: []Subscription{sub("b", 2, 8)}, kept: []string{"a"}, want: stored},
		"all forgotten":                  {kept: []string{"a", "b"}, want: stored},
		"one that nobody made":           {next: []Subscription{sub("a", 1, 7), sub("b", 2, 8), sub("c", 0, 9)}, kept: []string{"c"}, want: stored},
		"another QoS":                    {next: []Subscription{sub("a", 0, 7), sub("b", 2, 8)}, kept: []string{"a"}, want: stored},
		"subscribed":                     {next: []Subscription{sub("a", 1, 7), sub("b", 2, 8), sub("c", 1, 9)}, named: []string{"c"}, want: []Subscription{sub("a", 1, 7), sub("b", 2, 8), sub("c", 1, 9)}},
		"subscribed anew":                {next: []Subscription{sub("a", 2, 7), sub("b", 2, 8)}, named: []string{"a"}, want: []Subscription{sub("a", 2, 7), sub("b", 2, 8)}},
		"unsubscribed":                   {next: []Subscription{sub("b", 2, 8)}, named: []string{"a", "x"}, want: []Subscription{sub("b", 2, 8)}},
		"subscribed, another forgotten":  {next: []Subscription{sub("b", 2, 8), sub("c", 1, 9)}, named: []string{"c"}, kept: []string{"a"}, want: []Subscription{sub("a", 1, 7), sub("b", 2, 8), sub("c", 1, 9)}},
		"unsubscribed, another made up":  {next: []Subscription{sub("b", 2, 8), sub("c", 1, 9)}, named: []string{"a"}, kept: []string{"c"}, want: []Subscription{sub("b", 2, 8)}},
		"the last unsubscribed":          {named: []string{"a", "b"}, want: nil},
		"subscribed anew to a forgotten": {next: []Subscription{sub("a", 0, 9)}, named: []string{"a"}, kept: []string{"b"}, want: []Subscription{sub("a", 0, 9), sub("b", 2, 8)}},
	} {
		next := &Session{ID: id(1), Subscriptions: c.next}
		before := append([]Subscription(nil), stored...)
		kept := next.KeepSubscriptions(&Session{ID: id(1), Subscriptions: before}, c.named)
		if !reflect.DeepEqual(kept, c.kept) || !reflect.DeepEqual(next.Subscriptions, c.want) {
			t.Errorf("%s: kept %q of %v, want %q of %v", name, kept, next.Subscriptions, c.kept, c.want)
		}
		if !reflect.DeepEqual(before, stored) {
			t.Errorf("%s: what is stored was changed", name)
		}
	}
}

func TestRecordsOfANewerFormatAreCounted(t *testing.T) {
	for _, r := range records {
		b := r.encode(Oldest)
		before := NewerMet()
		b[0] = byte(Newest) + 1
		if _, err := r.decode(b); err == nil {
			t.Errorf("%s: a record of format %d was read", r.name, Newest+1)
		}
		b[0] = 0 // no format there ever was: damaged, and not newer
		if _, err := r.decode(b); err == nil {
			t.Errorf("%s: a record of format 0 was read", r.name)
		}
		if got := NewerMet() - before; got != 1 {
			t.Errorf("%s: counted %d records of a newer format, want 1", r.name, got)
		}
	}
}

func TestAnAttemptToJoinBelowTheFloorIsCounted(t *testing.T) {
	b := floors(t)
	if _, err := b.Create(t.Context(), FloorKey, Floor{Format: Newest + 1}.Encode()); err != nil {
		t.Fatal(err)
	}
	before := NewerMet()
	if _, err := joinFloor(t.Context(), b, life1("uns-0", 1), Oldest, Newest); err == nil {
		t.Fatal("joined below the floor")
	}
	if got := NewerMet() - before; got != 1 {
		t.Errorf("counted %d, want 1", got)
	}
}
