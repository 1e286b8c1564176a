package session

import (
	"testing"

	"maestrohub.io/uns/broker/value"
)

func item(name string, qos byte) Item {
	return Item{Value: &value.Value{Name: name}, Effect: Effect{QoS: qos}}
}

func TestFullQueueDropsItsOldest(t *testing.T) {
	q := Queue{Limit: 3}
	for _, it := range []Item{item("a", 1), item("b", 0), item("c", 1)} {
		if _, dropped := q.Push(it); dropped {
			t.Fatal("dropped below the limit")
		}
	}
	for _, want := range []string{"a", "b", "c"} {
		oldest, dropped := q.Push(item("new", 0))
		if !dropped || oldest.Value.Name != want {
			t.Fatalf("dropped %v %s, want the oldest, %q", dropped, oldest.Value.Name, want)
		}
	}
	if q.Len() != 3 {
		t.Fatalf("queue holds %d, want its limit of 3", q.Len())
	}
}

func TestQoS0DoesNotWaitForTheWindow(t *testing.T) {
	// [MQTT-3.3.4-10]
	q := Queue{Limit: 10}
	q.Push(item("one", 1))
	q.Push(item("zero", 0))
	if it, ok := q.Pop(false); !ok || it.Value.Name != "zero" {
		t.Fatalf("with a full window %v came, want the QoS 0 item", it.Value)
	}
	if _, ok := q.Pop(false); ok {
		t.Fatal("a QoS 1 item came with a full window")
	}
	if it, ok := q.Pop(true); !ok || it.Value.Name != "one" {
		t.Fatalf("%v came, want the QoS 1 item", it.Value)
	}
}

func TestQueueKeepsOrderAsItGrowsAndShrinks(t *testing.T) {
	q := Queue{Limit: 1000}
	next, want := 0, 0
	name := func(i int) string { return string(rune('a'+i%26)) + string(rune('0'+i/26%10)) }
	for round := range 40 {
		for range 20 + round%7 {
			q.Push(item(name(next), 1))
			next++
		}
		for range 18 {
			it, ok := q.Pop(true)
			if !ok || it.Value.Name != name(want) {
				t.Fatalf("item %d is %v, want %s", want, it.Value, name(want))
			}
			want++
		}
	}
}

func TestDetachKeepsWhatAPersistentSessionIsOwed(t *testing.T) {
	make := func() *Queue {
		q := &Queue{Limit: 10}
		live, retained := item("live", 1), item("retained", 1)
		retained.Source = FromRetained
		q.Push(live)
		q.Push(retained)
		q.Push(item("zero", 0))
		return q
	}
	q := make()
	if dropped := q.Detach(true); len(dropped) != 1 || q.Len() != 1 {
		t.Errorf("persistent: %d dropped and %d kept, want the retained message kept", len(dropped), q.Len())
	}
	q = make()
	if q.Detach(false); q.Len() != 0 {
		t.Errorf("clean: %d items kept", q.Len())
	}
}
