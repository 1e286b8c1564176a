package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"maestrohub.io/uns/broker/state"
)

// buckets are what a backup holds, in the order in which it is taken.
var buckets = []struct {
	name     string
	optional bool // a backup without it can be restored whole
	loses    string
}{
	{name: state.SessionCursor, loses: "sessions would be fed live only: nothing kept for them is delivered"},
	{name: state.SessionState, loses: "every persistent session would be gone"},
	{name: state.SessionWill, loses: "wills that wait would not be sent"},
	{name: state.SessionQoS2, optional: true},
	{name: state.Retained, loses: "retained messages would be gone"},
	{name: state.APIClients, optional: true},
	{name: state.ClusterFloor, loses: "a replica of an older release could misread what is restored"},
}

// all is the names of the streams a backup of them holds: the buckets' that exist, in
// order, then the logs'.
func (c *Client) all(ctx context.Context, logs bool) ([]string, error) {
	there, err := c.streams(ctx)
	if err != nil {
		return nil, err
	}
	var names, missing []string
	for _, b := range buckets {
		switch name := state.BucketStream + b.name; {
		case slices.Contains(there, name):
			names = append(names, name)
		case !b.optional:
			missing = append(missing, name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("NATS has none of the broker's streams in this account (%s): the broker's are made when a replica starts, in the account of the user it signs in as", listed(there))
	case len(missing) > 0:
		return nil, fmt.Errorf("NATS has no %s: somebody deleted it. The replicas make it again when they restart; what was in it is gone", strings.Join(missing, " and no "))
	}
	if logs {
		for _, name := range there {
			if strings.HasPrefix(name, state.LogStream) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// ours: the account may hold streams of others when natsAuth is off.
func ours(stream string) bool {
	if strings.HasPrefix(stream, state.LogStream) {
		return true
	}
	for _, b := range buckets {
		if stream == state.BucketStream+b.name {
			return true
		}
	}
	return false
}

// The ranks of streams, in the order of a restore: the floor first, so that no replica can
// join below it, and the logs before the cursors into them.
const (
	rankFloor = iota
	rankLog
	rankBucket
)

func rank(stream string) int {
	switch {
	case stream == state.BucketStream+state.ClusterFloor:
		return rankFloor
	case strings.HasPrefix(stream, state.LogStream):
		return rankLog
	}
	return rankBucket
}

func listed(names []string) string {
	switch {
	case len(names) == 0:
		return "it holds none at all"
	case len(names) > 5:
		return fmt.Sprintf("it holds %s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return "it holds " + strings.Join(names, ", ")
}
