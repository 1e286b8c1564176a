package timescale

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// What PostgreSQL refuses without naming the row: here a constraint that somebody
// added to the table.
func TestValueTheDatabaseRefusesIsFound(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	h := open(t, url, Options{})
	exec(t, url, "ALTER TABLE maestrohub.value ADD CONSTRAINT no_poison CHECK (position('poison' in encode(body, 'escape')) = 0)")
	now := time.Now()
	for _, size := range []int{1, 2, 3, 7, 100} {
		for _, bad := range []int{0, size / 2, size - 1} {
			var batch []*value.Value
			for i := range size {
				body := fmt.Sprintf("%d/%d/%d", size, bad, i)
				if i >= bad { // all after the first too
					body += " poison"
				}
				batch = append(batch, at("a", now.Add(time.Duration(i)*time.Microsecond), body))
			}
			err := h.Append(t.Context(), batch)
			var fault *historian.ValueError
			if !errors.As(err, &fault) || fault.Index != bad {
				t.Fatalf("value %d of %d refused: error %v", bad, size, err)
			}
			if !strings.Contains(fault.Error(), "no_poison") {
				t.Errorf("error %q does not say why", fault)
			}
			for i, v := range batch {
				if v.Position != 0 {
					t.Errorf("value %d of a refused batch has Position %d", i, v.Position)
				}
			}
		}
	}
	if got := bodies(t, h, "#"); len(got) != 0 {
		t.Errorf("refused batches left %q", got)
	}
	mustAppend(t, h, at("a", now, "good"))
}

func TestNamesTheDatabaseCannotHoldAreRefusedBeforeIt(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{})
	for name, spoil := range map[string]func(*value.Value){
		"a zero byte in the publisher": func(v *value.Value) { v.Publisher = "a\x00b" },
		"a publisher that is not text": func(v *value.Value) { v.Publisher = "\xff" },
		"a topic that is not text":     func(v *value.Value) { v.Topic = "a/\xc3" },
		"a workspace too long":         func(v *value.Value) { v.Workspace = strings.Repeat("w", 1025) },
		"a time after 2262":            func(v *value.Value) { v.Timestamp = 1<<63 - 1 },
	} {
		bad := at("a", time.Now(), "2")
		spoil(bad)
		var fault *historian.ValueError
		if err := h.Append(t.Context(), []*value.Value{at("a", time.Now(), "1"), bad}); !errors.As(err, &fault) || fault.Index != 1 {
			t.Errorf("%s: error %v, want a ValueError for value 1", name, err)
		}
	}
	if err := h.Append(t.Context(), []*value.Value{nil}); err == nil {
		t.Error("no value at all was stored")
	}
}

func TestLongestNamesAndEveryByteAreStored(t *testing.T) {
	t.Parallel()
	h := open(t, database(t, shared), Options{})
	v := at(strings.Repeat("ä/", 65_535/3), time.Unix(0, maxTimestamp), "")
	v.Workspace = strings.Repeat("w", maxWorkspace)
	v.Publisher = strings.Repeat("p", maxTopic)
	for b := range 256 {
		v.Body = append(v.Body, byte(b))
	}
	mustAppend(t, h, v)
	for _, filter := range []string{v.Topic, "#", "ä/#", strings.Repeat("ä/", 200) + "#"} {
		page, err := h.Read(t.Context(), historian.Query{Workspace: v.Workspace, Topic: filter, From: 0, To: 1<<63 - 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Rows) != 1 || page.Rows[0].Topic != v.Topic || page.Rows[0].Publisher != v.Publisher ||
			string(page.Rows[0].Body) != string(v.Body) || page.Rows[0].Timestamp != v.Timestamp {
			t.Errorf("filter of %d bytes: %d rows, want the one as it was", len(filter), len(page.Rows))
		}
	}
}
