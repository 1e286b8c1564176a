package timescale

import (
	"math/rand/v2"
	"strings"
	"testing"

	"maestrohub.io/uns/broker/topic"
)

// The database may leave out only names that the filter does not match.
func TestNarrowingLeavesNoMatchOut(t *testing.T) {
	t.Parallel()
	conn := connect(t, shared.URL("postgres"))
	defer conn.Close(t.Context())
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	levels := []string{"a", "b", "", "a.b", `\`, "%", "_", "[x]", "(", "*", "?", "{2}", "^a$", "|", "ä\n", "$SYS", "a b", "#x"}
	name := func(wild bool) string {
		var parts []string
		for range 1 + random.IntN(4) {
			part := levels[random.IntN(len(levels))]
			if wild && (strings.ContainsAny(part, "#+") || random.IntN(3) == 0) {
				part = "+"
			}
			parts = append(parts, part)
		}
		if wild && random.IntN(3) == 0 {
			parts = append(parts, "#")
		}
		if s := strings.Join(parts, "/"); s != "" {
			return s
		}
		return "a"
	}
	matches := 0
	for range 3000 {
		filter, n := name(true), name(false)
		if topic.ValidateFilter(filter) != nil || !strings.ContainsAny(filter, "+#") || !topic.MatchBelow(filter, n) {
			continue
		}
		matches++
		like, pattern := narrow(filter)
		var kept bool
		if err := conn.QueryRow(t.Context(), "SELECT left($1::text, 250) LIKE $2 AND $1 ~ $3", n, like, pattern).Scan(&kept); err != nil {
			t.Fatalf("filter %q: %v", filter, err)
		}
		if !kept {
			t.Fatalf("seed %d: filter %q matches %q, but %q and %q leave it out", seed, filter, n, like, pattern)
		}
	}
	if matches < 50 {
		t.Errorf("only %d matches were tried", matches)
	}
}
