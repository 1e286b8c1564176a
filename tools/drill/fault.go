package main

import (
	"fmt"
	"strings"
	"time"
)

// fault is one thing that is done to an installation.
type fault struct {
	Name string
	// Title says what is done, Ask how a person does it and Undo how they end it ("" where
	// there is nothing to end). %s is the replica the devices are on.
	Title, Ask, Undo string
	// Lasts is how long it is kept up before it is ended.
	Lasts time.Duration
	// Expect is what the devices see of it, by the product's failure table.
	Expect string
	// Within is how long after its begin (after its end, where Blocks) values flow again
	// from every device to every saved session, reconnects included.
	Within time.Duration
	// Ends: the replica's process, or every one's, is another one afterwards.
	Ends ends
	// Blocks: values need not flow while it lasts.
	Blocks bool
}

// ends is whose processes a fault ends.
type ends byte

const (
	nobody ends = iota
	theReplica
	everyReplica
)

// faults are what a drill can do, in the order in which `all` does them.
var faults = []fault{
	{Name: "kill", Title: "Kill the replica the devices are on", Ask: "Kill replica %s at once (kill -9, power off).", Undo: "Start replica %s again, if nothing else does.",
		Lasts: 5 * time.Second, Within: 15 * time.Second, Ends: theReplica,
		Expect: "Devices reconnect to another replica and find their sessions there. No will of a device that is back within willStopGrace is sent."},
	{Name: "stop", Title: "Stop the replica the devices are on, as an upgrade does", Ask: "Stop replica %s in order (SIGTERM, delete the pod).", Undo: "Start replica %s again, if nothing else does.",
		Lasts: 5 * time.Second, Within: 15 * time.Second, Ends: theReplica,
		Expect: "Devices are told (MQTT 5: 0x8B) and reconnect to another replica, which takes their sessions over."},
	{Name: "nats-kill", Title: "Kill one NATS server", Ask: "Kill one of the three NATS servers at once.", Undo: "Start that NATS server again, if nothing else does.",
		Lasts: 10 * time.Second, Within: 20 * time.Second,
		Expect: "Nothing, but a wait for a leader election (3 to 9 s) where that server led."},
	{Name: "nats-cut", Title: "Cut the replica the devices are on from NATS", Ask: "Cut the network between replica %s and every NATS server.", Undo: "Join that network again.",
		Lasts: 20 * time.Second, Within: 30 * time.Second,
		Expect: "The replica steps aside after 7/6 memberTTL; its devices reconnect to the others. It serves again once it reaches NATS."},
	{Name: "nats-slow", Title: "Let NATS answer 2 s late", Ask: "Make every answer of NATS 2 s late.", Undo: "Let NATS answer at once again.",
		Lasts: 20 * time.Second, Within: 30 * time.Second,
		Expect: "Everything some seconds late, and fewer values a second: a device waits for its acknowledgments. No replica steps aside."},
	{Name: "mesh-cut", Title: "Cut the mesh between the replicas", Ask: "Cut the network between the replicas (mesh port 7884).", Undo: "Join that network again.",
		Lasts: 10 * time.Second, Within: 15 * time.Second,
		Expect: "Saved sessions notice nothing. Live subscribers get the values of the other side when the link is back."},
	{Name: "upgrade", Title: "Roll an upgrade: stop and start one replica after the other", Ask: "Restart every replica, one after the other, as an upgrade does.",
		Within: 15 * time.Second, Ends: everyReplica,
		Expect: "As a stopped replica, one replica at a time."},
}

// chosen are the faults of these names, each once, in the order of faults; "all" is all.
func chosen(names []string) ([]fault, error) {
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	var list []fault
	for _, f := range faults {
		if want["all"] || want[f.Name] {
			list = append(list, f)
		}
		delete(want, f.Name)
	}
	delete(want, "all")
	for n := range want {
		return nil, fmt.Errorf("no fault %q: one or more of %s, or all", n, strings.Join(faultNames(), ", "))
	}
	return list, nil
}

func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return names
}

// on names the replica in a text that may have a place for it.
func on(text, replica string) string {
	if strings.Contains(text, "%s") {
		return fmt.Sprintf(text, replica)
	}
	return text
}
