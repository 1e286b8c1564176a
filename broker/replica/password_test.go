package replica

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheEarlierPasswordIsTriedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := "first"
		p := passwords{now: func() string { return file }}
		tries := func(n int) string {
			var all []string
			for range n {
				all = append(all, p.next())
			}
			return strings.Join(all, " ")
		}
		for _, c := range []struct{ file, want string }{
			{"first", "first first"},
			{"second", "second first second first"},
			{"third", "third second third second"},
		} {
			file = c.file
			if got := tries(strings.Count(c.want, " ") + 1); got != c.want {
				t.Errorf("file %s: tried %s, want %s", c.file, got, c.want)
			}
		}
		time.Sleep(passwordOverlap + time.Second)
		if got := tries(3); got != "third third third" {
			t.Errorf("after the overlap: %s", got)
		}
	})
}
