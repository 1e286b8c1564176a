package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
)

// AwaitNoReplica waits until no replica's entry is left but of those that have stopped,
// for at most so long: an entry outlives a killed replica by memberTTL. It fails at once
// when one is written again.
func (c *Client) AwaitNoReplica(ctx context.Context, most time.Duration) error {
	if present, err := c.present(ctx); err != nil || len(present) > 0 {
		if err == nil {
			err = fmt.Errorf("replicas run (%s): %w", strings.Join(present, " and "), errReplica)
		}
		return err
	}
	deadline := time.Now().Add(most)
	first := map[string]uint64{}
	for told := false; ; {
		alive, err := c.alive(ctx)
		if err != nil {
			return fmt.Errorf("see whether a replica runs: %w", err)
		}
		if len(alive) == 0 {
			return nil
		}
		var names, running []string
		for replica, sequence := range alive {
			names = append(names, replica)
			if before, known := first[replica]; known && before != sequence {
				running = append(running, replica)
			}
			first[replica] = sequence
		}
		slices.Sort(names)
		slices.Sort(running)
		switch {
		case len(running) > 0:
			return fmt.Errorf("replicas run (%s): %w", strings.Join(running, " and "), errReplica)
		case !time.Now().Before(deadline):
			return fmt.Errorf("%s is alive by its entry in %s: %w", strings.Join(names, " and "), state.Members, errReplica)
		case !told:
			c.say("waiting for the entries of %s to expire", strings.Join(names, " and "))
			told = true
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

// alive is the replicas with an entry that does not say that they have stopped, with
// the entry's sequence.
func (c *Client) alive(ctx context.Context) (map[string]uint64, error) {
	stream := state.BucketStream + state.Members
	var info struct {
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	err := c.request(ctx, "$JS.API.STREAM.INFO."+stream, map[string]string{"subjects_filter": ">"}, &info)
	if isCode(err, codeNoStream) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	alive := map[string]uint64{}
	for subject := range info.State.Subjects {
		var m struct {
			Message struct {
				Sequence uint64 `json:"seq"`
				Header   []byte `json:"hdrs"`
				Data     []byte `json:"data"`
			} `json:"message"`
		}
		err := c.request(ctx, "$JS.API.STREAM.MSG.GET."+stream, map[string]string{"last_by_subj": subject}, &m)
		if isCode(err, codeNoMessage) {
			continue // expired meanwhile
		}
		if err != nil {
			return nil, err
		}
		if len(m.Message.Data) == 0 {
			continue // deleted
		}
		replica := subject[strings.LastIndexByte(subject, '.')+1:]
		e, err := cluster.DecodeEntry(m.Message.Data)
		if err == nil && (e.Phase == cluster.Stopped || e.Phase == cluster.Gone) {
			continue
		}
		// One that cannot be read is of another release, and counts.
		alive[replica] = m.Message.Sequence
	}
	return alive, nil
}

// presentFor is how long the replicas have to answer that they are there.
const presentFor = 2 * time.Second

// present asks which replicas are connected, serving or not. One that is fenced has no
// entry, and NATS that has lost everything no bucket of entries.
func (c *Client) present(ctx context.Context) (replicas []string, err error) {
	inbox := c.nc.NewRespInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err == nil {
		err = c.nc.PublishRequest(state.PresenceSubject, inbox, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for replicas: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, cancel := context.WithTimeout(ctx, presentFor)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err != nil: // no responders, or no more of them
			slices.Sort(replicas)
			return slices.Compact(replicas), nil
		case len(m.Data) > 0:
			replicas = append(replicas, string(m.Data))
		}
	}
}
