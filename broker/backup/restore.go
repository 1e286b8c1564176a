package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/cluster"
)

// RestoreOptions say what to restore, and over what.
type RestoreOptions struct {
	Dir string
	// Replace deletes streams of the backup that exist, which replicas made since the loss.
	Replace bool
	// Partial: also a backup that lacks what a broker needs.
	Partial bool
	// Logs: the session logs as well.
	Logs bool
	// Copies of each stream; 0: as saved.
	Copies int
	// Wait is how long the entries of replicas that ended may take to expire.
	Wait time.Duration
}

// Restore brings a backup back. No replica may run until it returns.
func (c *Client) Restore(ctx context.Context, o RestoreOptions) error {
	r, err := Check(o.Dir)
	if err != nil {
		return err
	}
	if err := c.restore(ctx, r, o); err != nil {
		return fmt.Errorf("restore %s: %w", r.Dir, err)
	}
	return nil
}

func (c *Client) restore(ctx context.Context, r *Report, o RestoreOptions) error {
	if len(r.Missing) > 0 && !o.Partial {
		return fmt.Errorf("it lacks, and without would be lost:\n  %s\nrestore what there is with --partial", strings.Join(r.Missing, "\n  "))
	}
	if err := readable(r); err != nil {
		return err
	}
	var chosen []checked
	for _, s := range r.folders {
		if o.Logs || rank(s.Name) != rankLog {
			chosen = append(chosen, s)
		}
	}
	slices.SortStableFunc(chosen, func(a, b checked) int { return rank(a.Name) - rank(b.Name) })
	if err := c.AwaitNoReplica(ctx, o.Wait); err != nil {
		return err
	}
	if err := c.makeRoom(ctx, chosen, o.Replace); err != nil {
		return err
	}
	for i, s := range chosen {
		if err := c.bringBack(ctx, s, o.Copies); err != nil {
			return fmt.Errorf("%s: %w; %d of %d streams are restored: repair that and run it again with --replace", s.Name, err, i, len(chosen))
		}
	}
	// One that was started meanwhile has read half of it.
	if err := c.AwaitNoReplica(ctx, 0); err != nil {
		return fmt.Errorf("everything is restored, but a replica was started meanwhile and may have read a part of it: %w", err)
	}
	return nil
}

// readable refuses a backup whose records this release may not read.
func readable(r *Report) error {
	var floor uint64
	if r.Manifest != nil {
		floor = r.Manifest.Floor
	}
	for _, s := range r.folders {
		if rank(s.Name) == rankFloor {
			f, err := floorOf(s.saved)
			if err != nil {
				return err
			}
			floor = max(floor, f)
		}
	}
	if floor != 0 && (floor < uint64(cluster.Oldest) || floor > uint64(cluster.Newest)) {
		taken := "a later one"
		if r.Manifest != nil {
			taken = r.Manifest.Release + ", which took it, or a later one"
		}
		return fmt.Errorf("its format floor is %d and this release reads formats %d to %d: restore with %s, and start replicas of that release", floor, cluster.Oldest, cluster.Newest, taken)
	}
	return nil
}

// makeRoom deletes what is in the way, if it may.
func (c *Client) makeRoom(ctx context.Context, chosen []checked, replace bool) error {
	there, err := c.streams(ctx)
	if err != nil {
		return err
	}
	var inTheWay []string
	for _, s := range chosen {
		if slices.Contains(there, s.Name) {
			inTheWay = append(inTheWay, s.Name)
		}
	}
	if len(inTheWay) == 0 {
		return nil
	}
	if !replace {
		return fmt.Errorf("NATS has %s already, and a stream is only restored where there is none. What is in it is lost when it is replaced: take a backup of it, or run this again with --replace", strings.Join(inTheWay, ", "))
	}
	for _, name := range inTheWay {
		if err := c.remove(ctx, name); err != nil {
			return err
		}
		c.say("deleted %s", name)
	}
	return nil
}

func (c *Client) bringBack(ctx context.Context, s checked, copies int) error {
	switch err := c.upload(ctx, s.saved, copies); {
	case isCode(err, codeStreamExists):
		return fmt.Errorf("it exists: a replica has made it just now: %w", err)
	case err != nil:
		return err
	}
	var st streamState
	for {
		var err error
		if st, err = c.state(ctx, s.Name); err == nil {
			break
		}
		// The leader of the new stream may not be elected yet.
		if !isCode(err, codeNoStream) || wait(ctx, 250*time.Millisecond) != nil {
			return fmt.Errorf("see what NATS made of it: %w", err)
		}
	}
	if st.Last != s.Last || st.Messages > s.Messages {
		return fmt.Errorf("NATS has %d messages up to sequence %d, the backup %d up to %d", st.Messages, st.Last, s.Messages, s.Last)
	}
	expired := ""
	if n := s.Messages - st.Messages; n > 0 {
		expired = fmt.Sprintf(", %d more had expired", n)
	}
	c.say("restored %s: %d messages, sequences %d to %d%s", s.Name, st.Messages, st.First, st.Last, expired)
	return nil
}

// errReplica: a replica is alive.
var errReplica = errors.New("stop all replicas first (kubectl scale statefulset <release>-uns --replicas=0): they make every bucket again, and would write over what is restored")
