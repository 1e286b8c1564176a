package main

import "testing"

func TestCollectionsAreMadeSeldomUnderLoadOnly(t *testing.T) {
	for _, c := range []struct {
		percent, collections, want int
	}{
		{100, 0, 100}, {100, 2, 100}, {100, 3, 200}, {200, 9, 400}, {400, 9, 400},
		{400, 2, 400}, {400, 1, 400}, {400, 0, 200}, {200, 0, 100},
	} {
		if got := nextPercent(c.percent, uint64(c.collections)); got != c.want {
			t.Errorf("at %d %%, after %d collections in a second: %d %%, want %d %%", c.percent, c.collections, got, c.want)
		}
	}
}
