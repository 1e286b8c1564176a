package main

import (
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"maestrohub.io/uns/tests/device/fleet"
)

// drill is one drill, from begin to verdict.
type drill struct {
	hurried context.Context // ends when nobody waits for a verdict any more
	remains *traces

	site   site
	at     places
	rest   *rest
	dial   func(address string) (net.Conn, error)
	say    *progress
	faults []fault
	every  time.Duration // between two values of a publisher
	calm   time.Duration // before and after each fault
	// version begins every topic.
	version string

	id        string // of this drill: of its API client, devices and topics
	replicas  []string
	workspace string
	secret    string
	left      error // why the API client could not be deleted
	fleet     *fleet.Fleet
	observer  *observer
}

// wholeWithin is how long an installation may take until every replica serves again
// after a fault has ended: a pod that is started, two leases.
const wholeWithin = 3 * time.Minute

// willsWithin is how long the will of the device that left may take: its replica is judged
// gone (1.7 T), willStopGrace, and a sweep; T of 20 s and some room.
const willsWithin = 2 * time.Minute

// takenBack bounds how long it may take to delete the drill's API client, hurriedBack what
// is taken back once it was interrupted twice.
const (
	takenBack   = time.Minute
	hurriedBack = 15 * time.Second
)

// run does the drill and returns its report. A drill that could not be begun, or whose own
// devices failed, is an error; what the broker did is in the report.
func (d *drill) run(ctx context.Context) (r *Report, err error) {
	r = &Report{Site: d.site.name(), Begun: time.Now()}
	id := make([]byte, 4)
	if _, err := crand.Read(id); err != nil {
		return r, err
	}
	d.id = "drill-" + hex.EncodeToString(id)
	// The verdict comes also when interrupted, unless interrupted again.
	after := d.hurried

	d.say.event("asking the REST API at %s how the cluster is", strings.Join(d.at.HTTP, ", "))
	v, err := d.rest.reached(ctx)
	if err != nil {
		return r, fmt.Errorf("ask the broker how it is: %w", err)
	}
	d.say.event("connecting to %s, once", strings.Join(d.at.MQTT, ", "))
	if err := d.dialed(ctx); err != nil {
		return r, err
	}
	for _, m := range v.Replicas {
		d.replicas = append(d.replicas, m.Replica)
		r.Replicas = append(r.Replicas, m.Replica)
		if m.Report != nil {
			r.Release = m.Report.Version
		}
	}
	if why := unlinked(v); why != "" {
		return r, fmt.Errorf("the cluster is not whole before the drill: %s; the page at %s/ says more", why, d.at.HTTP[0])
	}
	deleted := d.remains.leave("the API client %s: `broker client delete %s` where a replica runs, or DELETE /api/v1/api-clients/%s, deletes it; its saved sessions end when they expire", d.id, d.id, d.id)
	defer func() {
		if refused := (*problem)(nil); d.secret == "" && errors.As(err, &refused) { // there is none
			deleted()
			return
		}
		if d.left = d.deleteClient(); d.left == nil {
			deleted()
		}
		err = errors.Join(err, d.left)
	}()
	// Waited for, also when interrupted: whether it was made would not be known.
	if d.secret, d.workspace, err = d.rest.addClient(d.hurried, d.id); err != nil {
		return r, fmt.Errorf("make an API client for the devices: %w", err)
	}
	told := context.AfterFunc(ctx, func() {
		d.say.event("interrupted: what is broken is ended, what there is is judged; once more: without a verdict")
	})
	defer told()
	hurried := context.AfterFunc(d.hurried, func() {
		d.say.event("interrupted again: what is broken is ended, the API client %s deleted; once more ends the drill at once", d.id)
	})
	defer hurried()
	if err := d.answered(ctx); err != nil {
		return r, err
	}
	names := d.version + "/" + d.workspace + "/"
	d.say.event("connecting the devices as %s", d.id)
	starting, started := context.WithTimeout(ctx, time.Minute)
	d.fleet, err = fleet.Start(starting, fleet.Options{Name: d.id, User: d.id, Secret: d.secret, Inbox: names + "_ingress/" + d.id + "/", Data: names,
		Address: func(home, attempt int) string { return d.at.MQTT[(home+attempt)%len(d.at.MQTT)] }, Dial: d.dial, Every: d.every,
		Seed: rand.Uint64(), Timestamps: true, Live: true, Wills: true, Pings: 5 * time.Second})
	started()
	if err != nil {
		return r, fmt.Errorf("start the devices: %w", err)
	}
	defer d.endSessions()
	defer d.fleet.Close()
	watching, stop := context.WithCancel(after)
	defer stop()
	d.observer = &observer{rest: d.rest}
	go d.observer.run(watching)
	go d.say.follow(watching, d.fleet)
	d.say.event("%d devices publish, %d saved and %d live sessions take all of it", len(d.fleet.Publishers), len(d.fleet.Subscribers), len(d.fleet.Live))
	d.say.event("waiting until values flow from each to all")
	if err = d.flows(ctx, time.Now(), time.Minute); err == nil {
		err = pause(ctx, d.calm)
	}
	for i, f := range d.faults {
		if err != nil {
			break
		}
		if i == 0 {
			r.Left = time.Now()
			d.fleet.Leave()
		}
		var done Fault
		done, err = d.fault(ctx, f)
		d.fleet.CutOff()
		r.Faults = append(r.Faults, done)
	}
	r.Interrupted = ctx.Err() != nil || errors.Is(err, errGone)
	if r.Interrupted && ctx.Err() == nil {
		d.say.event("%v: what is broken is ended, what there is is judged", errGone)
	}
	if err != nil && !r.Interrupted {
		return r, err
	}
	if !r.Interrupted && !r.Left.IsZero() {
		d.say.event("waiting for the will of the device that left")
		if e := d.until(ctx, time.Now().Add(willsWithin), func() bool { return len(d.fleet.Wills()[d.fleet.Leaver.ID]) > 0 }); e != nil && ctx.Err() != nil {
			r.Interrupted = true
		}
	}
	return r, d.finish(after, r)
}

// fault does one fault, waits until it is over, and says how it went.
func (d *drill) fault(ctx context.Context, f fault) (done Fault, err error) {
	var ids []string
	for _, dev := range d.fleet.Devices() {
		ids = append(ids, dev.ID)
	}
	var replica string
	var members int
	// The cluster says some seconds late where its sessions are.
	err = d.until(ctx, time.Now().Add(time.Minute), func() bool {
		replica, members = d.observer.busiest(ids)
		return replica != ""
	})
	if err != nil {
		return done, fmt.Errorf("%s: which replica the devices are on is not known: %w", f.Name, err)
	}
	done = Fault{Name: f.Name, Title: f.Title, Expect: f.Expect, Replica: replica, Within: f.Within.Seconds()}
	if strings.Contains(f.Ask, "%s") { // one that harms a replica
		d.say.event("%s (%s)", f.Title, replica)
	} else {
		d.say.event("%s", f.Title)
	}
	ended := func() {}
	if f.Undo != "" {
		ended = d.remains.leave("%s: %s", done.Title, on(f.Undo, replica))
	}
	done.Begun = time.Now()
	did, heal, err := d.site.harm(ctx, f, replica)
	if err != nil || heal == nil { // it is not broken, or ends by itself
		ended()
	}
	if errors.Is(err, errCannot) || errors.Is(err, errLeftOut) {
		done.Skipped = err.Error()
		d.say.event("  left out: %v", err)
		return done, nil
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", f.Name, err)
	}
	done.Did = did
	// Ended whatever comes: nothing stays broken.
	healed := heal == nil
	defer func() {
		if !healed {
			if e := heal(context.WithoutCancel(ctx)); e == nil {
				ended()
			} else if !errors.Is(e, errGone) { // who has left was told
				err = errors.Join(err, e)
			}
		}
	}()
	since := done.Begun
	if f.Lasts > 0 {
		if err := pause(ctx, f.Lasts); err != nil {
			return done, err
		}
	}
	if !healed {
		healed = true
		if err := heal(context.WithoutCancel(ctx)); err != nil {
			return done, fmt.Errorf("%s: end it: %w", f.Name, err)
		}
		ended()
	}
	done.Ended = time.Now()
	if f.Blocks || f.Name == "upgrade" {
		since = done.Ended
	}
	d.say.event("  ended; waiting until values flow from every device to every saved session, and every replica serves and is linked")
	if err := d.flows(ctx, since, wholeWithin); err != nil {
		return done, err
	}
	flow := d.fleet.Flows(since)
	done.FlowedAfter = flow.At.Sub(since).Seconds()
	if err := d.until(ctx, time.Now().Add(wholeWithin), func() bool { return d.observer.whole(done.Ended, members) }); err != nil {
		if ctx.Err() != nil {
			return done, err
		}
		done.NotWhole = true
	}
	done.Whole = time.Now()
	switch {
	case done.NotWhole: // one that was ended may not be back
	case f.Ends == theReplica:
		done.Unseen = d.observer.ranOn([]string{replica}, done.Begun)
	case f.Ends == everyReplica:
		done.Unseen = d.observer.ranOn(d.replicas, done.Begun)
	}
	if done.Unseen != "" {
		d.say.event("  %s", done.Unseen)
		return done, pause(ctx, d.calm)
	}
	d.say.event("  values flowed from every device to every saved session after %.1f s; the cluster is whole", done.FlowedAfter)
	return done, pause(ctx, d.calm)
}

// flows waits until every device and saved session has had something since.
func (d *drill) flows(ctx context.Context, since time.Time, within time.Duration) error {
	err := d.until(ctx, since.Add(within), func() bool { return d.fleet.Flows(since).Missing == "" })
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("values do not flow %v after: %s", within, d.fleet.Flows(since).Missing)
	}
	return err
}

var errLate = errors.New("not in time")

func (d *drill) until(ctx context.Context, deadline time.Time, condition func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			return errLate
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish ends the devices, reads what was stored, and judges.
func (d *drill) finish(ctx context.Context, r *Report) error {
	d.say.event("ending: everything owed is delivered, then history is read back")
	r.PublishingEnded = time.Now()
	mine := d.rest.as(d.id, d.secret)
	stored := map[string]map[string]int{}
	// A second of slack: history's clock is not this machine's.
	_, err := d.fleet.Finish(ctx, func(ctx context.Context, topic string) (map[string]bool, error) {
		counts, err := mine.stored(ctx, d.workspace, topic, r.Begun.Add(-time.Minute))
		stored[topic] = counts
		have := make(map[string]bool, len(counts))
		for v := range counts {
			have[v] = true
		}
		return have, err
	})
	if err != nil {
		return err
	}
	r.Ended = time.Now()
	r.fill(d.fleet, d.observer.all(), stored)
	r.judge(d.fleet)
	return nil
}

// deleteClient deletes the drill's API client.
func (d *drill) deleteClient() error {
	ctx, cancel := context.WithTimeout(context.Background(), takenBack)
	defer cancel()
	defer context.AfterFunc(d.hurried, func() { time.AfterFunc(hurriedBack, cancel) })()
	if err := d.rest.deleteClient(ctx, d.id); err != nil {
		return fmt.Errorf("delete the API client %s: %w", d.id, err)
	}
	return nil
}

// endSessions takes the saved sessions back, which the end of their API client does not.
func (d *drill) endSessions() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	defer context.AfterFunc(d.hurried, func() { time.AfterFunc(hurriedBack, cancel) })()
	if err := d.fleet.EndSessions(ctx); err != nil {
		d.say.event("%v", err)
	}
}
