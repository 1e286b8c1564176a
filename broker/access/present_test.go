package access

import (
	"errors"
	"testing"
)

func TestAWillIsPublishedByTheGrantsItsClientHasThen(t *testing.T) {
	a := openAccess(t, Options{})
	add(t, a, Client{ID: "press-7", Workspace: "plant", Publish: []string{"line/#"}})
	g, err := a.Present(t.Context(), "press-7")
	if err != nil || !g.MayPublish("line/1") || g.MayPublish("other") || !g.Deadline().IsZero() {
		t.Fatalf("grants %+v, error %v", g, err)
	}
	fatal(t, a.Disable(t.Context(), "press-7"))
	for _, id := range []string{"press-7", "nobody"} {
		if _, err := a.Present(t.Context(), id); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", id, err)
		}
	}
}
