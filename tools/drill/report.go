package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
	"maestrohub.io/uns/tests/device/fleet"
)

// Report is what a drill found: drill-report.json, and what drill-report.html shows.
type Report struct {
	Site     string    `json:"site"`
	Release  string    `json:"release"`
	Replicas []string  `json:"replicas"`
	Begun    time.Time `json:"begun"`
	// PublishingEnded is when the devices sent their last new value, Ended when all was read back.
	PublishingEnded time.Time `json:"publishingEnded"`
	Ended           time.Time `json:"ended"`
	// Left is when the device lost its connection that did not come back.
	Left        time.Time `json:"left,omitzero"`
	Interrupted bool      `json:"interrupted,omitempty"`

	Promises []Promise `json:"promises"`
	Faults   []Fault   `json:"faults"`
	Devices  []Device  `json:"devices"`
	// Acknowledged and Delivered are by second since Begun.
	Acknowledged []int   `json:"acknowledgedPerSecond"`
	Delivered    []int   `json:"deliveredPerSecond"`
	Wills        []Will  `json:"wills"`
	Pairs        []Pair  `json:"pairs"`
	Topics       []Topic `json:"topics"`
	Sights       []sight `json:"cluster"`
}

// Fault is one that was done. Times in seconds where they are no instants.
type Fault struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Did     string    `json:"did,omitempty"`
	Skipped string    `json:"skipped,omitempty"` // why it was not done
	Unseen  string    `json:"unseen,omitempty"`  // how the cluster shows that it was not done
	Replica string    `json:"replica,omitempty"` // the one the devices were on
	Expect  string    `json:"expect"`
	Begun   time.Time `json:"begun"`
	Ended   time.Time `json:"ended,omitzero"`
	// Whole is when every replica served and was linked again; NotWhole: it did not in time.
	Whole    time.Time `json:"whole,omitzero"`
	NotWhole bool      `json:"notWhole,omitempty"`
	// FlowedAfter is when values had flowed from every device to every saved session again,
	// Within when they should.
	FlowedAfter float64 `json:"flowedAfterSeconds"`
	Within      float64 `json:"withinSeconds"`
}

// Device is one device's connections.
type Device struct {
	ID     string       `json:"id"`
	Kind   string       `json:"kind"` // "publisher, MQTT 5, QoS 1"
	Events []DeviceTime `json:"events"`
	// Gap is the longest time without an acknowledgment or arrival while values were
	// published, in seconds, and when it began.
	Gap      float64   `json:"gapSeconds"`
	GapBegun time.Time `json:"gapBegun,omitzero"`
}

// DeviceTime is something that happened to a connection.
type DeviceTime struct {
	At      time.Time `json:"at"`
	What    string    `json:"what"`
	Address string    `json:"address,omitempty"`
	Replica string    `json:"replica,omitempty"` // where the cluster said the session was, soon after
	Code    byte      `json:"code,omitempty"`
}

// Will is one that was sent.
type Will struct {
	Device string    `json:"device"`
	At     time.Time `json:"at"`
	Left   bool      `json:"left"` // of the device that left
}

// Pair is what one session received of one publisher.
type Pair struct {
	Session   string `json:"session"`
	Publisher string `json:"publisher"`
	Live      bool   `json:"live"`
	device.Record
	// MissingWhileConnected are those of Missing that a live session should have had.
	MissingWhileConnected []int `json:",omitempty"`
}

// Topic is what history has of one publisher.
type Topic struct {
	Publisher    string `json:"publisher"`
	Topic        string `json:"topic"`
	Acknowledged int    `json:"acknowledged"`
	Stored       int    `json:"stored"`
	Missing      []int  `json:"missing,omitempty"`
	Twice        []int  `json:"twice,omitempty"`
}

// fill takes everything down that the report shows.
func (r *Report) fill(f *fleet.Fleet, sights []sight, stored map[string]map[string]int) {
	r.Sights = sights
	seconds := int(r.Ended.Sub(r.Begun)/time.Second) + 1
	r.Acknowledged, r.Delivered = make([]int, seconds), make([]int, seconds)
	second := func(at time.Time) int { return min(max(int(at.Sub(r.Begun)/time.Second), 0), seconds-1) }
	for i, p := range f.Publishers {
		var times []time.Time
		t := Topic{Publisher: p.ID, Topic: f.Topic(i)}
		for n, at := range p.Acked() {
			times = append(times, at)
			r.Acknowledged[second(at)]++
			t.Acknowledged++
			switch count := stored[t.Topic][strconv.Itoa(n)]; {
			case count == 0:
				t.Missing = append(t.Missing, n)
			case count > 1:
				t.Twice = append(t.Twice, n)
			}
		}
		slices.Sort(t.Missing)
		slices.Sort(t.Twice)
		t.Stored = len(stored[t.Topic])
		r.Topics = append(r.Topics, t)
		r.device(&p.Device, kind("publisher", p.Version, p.QoS), times)
	}
	sessions := func(list []*device.Subscriber, what string) {
		for _, s := range list {
			var times []time.Time
			for i, p := range f.Publishers {
				for _, a := range s.Arrivals(f.Received(i)) {
					times = append(times, a.At)
					r.Delivered[second(a.At)]++
				}
				pair := Pair{Session: s.ID, Publisher: p.ID, Live: s.Clean, Record: device.Compare(s, f.Received(i), p)}
				if s.Clean {
					pair.MissingWhileConnected = whileConnected(pair.Missing, p.Begun(), p.Acked(), append(s.Events(), device.Event{At: r.PublishingEnded, What: "ended"}))
				}
				r.Pairs = append(r.Pairs, pair)
			}
			r.device(&s.Device, kind(what, s.Version, s.QoS), times)
		}
	}
	sessions(f.Subscribers, "saved session")
	sessions(f.Live, "live session")
	r.device(&f.Leaver.Device, "the device that leaves", nil)
	if !r.Left.IsZero() {
		r.Left = lostAt(r.Left, f.Leaver.Events())
	}
	for id, arrivals := range f.Wills() {
		for _, a := range arrivals {
			r.Wills = append(r.Wills, Will{Device: id, At: a.At, Left: id == f.Leaver.ID})
		}
	}
	slices.SortFunc(r.Wills, func(a, b Will) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Device, b.Device)) })
}

// lostAt is when a device that was told to leave lost its last connection; when it was
// told, if it did not notice. A fault that is not about its replica leaves it connected
// for long, and its will is due from the loss on.
func lostAt(told time.Time, events []device.Event) time.Time {
	for _, e := range slices.Backward(events) {
		switch e.What {
		case "lost":
			return e.At
		case "connected":
			return told
		}
	}
	return told
}

// device notes a device's connections and its longest gap between two of the times.
func (r *Report) device(d *device.Device, kind string, times []time.Time) {
	row := Device{ID: d.ID, Kind: kind}
	for _, e := range d.Events() {
		row.Events = append(row.Events, DeviceTime{At: e.At, What: e.What, Address: e.Address, Code: byte(e.Code), Replica: r.replicaOf(d.ID, e)})
	}
	slices.SortFunc(times, time.Time.Compare)
	for i := 1; i < len(times) && times[i-1].Before(r.PublishingEnded); i++ {
		if gap := times[i].Sub(times[i-1]).Seconds(); gap > row.Gap {
			row.Gap, row.GapBegun = gap, times[i-1]
		}
	}
	r.Devices = append(r.Devices, row)
}

// replicaOf is where the cluster said a session was at the first look after it connected;
// "" for sessions it does not list.
func (r *Report) replicaOf(id string, e device.Event) string {
	if e.What != "connected" {
		return ""
	}
	for _, s := range r.Sights {
		// A listing may be some seconds old.
		if s.At.After(e.At.Add(overviewAge)) && s.Sessions[id] != "" {
			return s.Sessions[id]
		}
	}
	return ""
}

// overviewAge is how old a listing of sessions may be.
const overviewAge = 5 * time.Second

// whileConnected are the missing values during all of whose way the session was connected,
// from some time before they were sent to some time after they were acknowledged. What was
// on its way when its own connection ended may be missed: the replica that died had it, or
// the drill ended, which waits for saved sessions alone. A device whose replica stopped
// before it could acknowledge a value that it had passed on hears of it much later, where it
// comes back: nobody gets the value again for that.
func whileConnected(missing []int, begun, acked map[int]time.Time, events []device.Event) (list []int) {
	const margin = 3 * time.Second
	for _, n := range missing {
		connected := false
		near := false
		for _, e := range events {
			if e.At.After(begun[n].Add(-margin)) && e.At.Before(acked[n].Add(margin)) {
				near = true
			}
			if !e.At.After(begun[n]) {
				connected = e.What == "connected"
			}
		}
		if connected && !near {
			list = append(list, n)
		}
	}
	return list
}

func kind(what string, v mqtt.Version, qos byte) string {
	version := "5"
	if v != mqtt.V5 {
		version = "3.1.1"
	}
	return fmt.Sprintf("%s, MQTT %s, QoS %d", what, version, qos)
}
