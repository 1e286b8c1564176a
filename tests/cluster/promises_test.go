package cluster_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// promise is one line of the failure table: what is measured of an event, what the
// broker promises of it, and what this run has seen.
//
// In promised, {T}, {beat}, {fence}, {cut}, {gone}, {grace} and {slow N} stand for what they
// are at the run's T.
type promise struct {
	event, what, promised string

	mu       sync.Mutex
	measured []time.Duration
	counted  []string
	load     string
}

// The table, in the order of the page.
var (
	stopTakes  = say("UNS pod stopped", "from SIGTERM to the end of its process: everything is handed over", "within 5 s")
	stopFlows  = say("UNS pod stopped", "every device publishes and every session receives again, from SIGTERM", "a reconnect")
	stopLive   = say("UNS pod stopped", "live QoS 1 values a persistent session of another replica missed", "0")
	stopWill   = say("UNS pod stopped", "will of a device that stays away, from SIGTERM", "{grace}")
	stopNoWill = say("UNS pod stopped", "wills of devices that are back within the grace", "0")

	killFlows    = say("UNS pod killed", "every device publishes and every session receives again, from the kill", "2 s after its reconnect")
	killGone     = say("UNS pod killed", "taken for gone by the others, from its last write", "{gone}")
	killWill     = say("UNS pod killed", "will of a device that stays away, from when the others took it for gone", "{grace}")
	killNoWill   = say("UNS pod killed", "wills of devices that are back within the grace", "0")
	killAgain    = say("UNS pod killed", "the same pod serves again, from the kill", "-")
	sweeperWill  = say("UNS pod killed", "will of a device of the pod that swept, from when the others took it for gone", "{grace}")
	killForeign  = say("UNS pod killed", "Paho Python, MQTT.js and mosquitto_sub receive again, from the kill", "2 s after their reconnect")
	storm        = say("UNS pod killed", "5,000 devices reconnect at once to two replicas: all are back", "30 s")
	stormFlows   = say("UNS pod killed", "5,000 devices: a value reaches every one of them, from its publish once all are back", "-")
	lostFlows    = say("One NATS server lost", "every device publishes and every session receives again, from the kill of the session log's leader", "15 s, elections waited out")
	lostDevices  = say("One NATS server lost", "devices disconnected", "0")
	hungFence    = say("One NATS server hangs", "the replica whose shared-state connection is on it fences, from the hang", "15 to 17 s")
	hungOthers   = say("One NATS server hangs", "other replicas that fence", "0")
	hungBack     = say("One NATS server hangs", "that replica serves again, from its fence", "3 s after NATS answers")
	hungFlows    = say("One NATS server hangs", "every device publishes and every session receives again, from the fence", "a few seconds")
	allFence     = say("Every NATS server lost", "every replica fences, from the kill", "about {cut}")
	allNATS      = say("Every NATS server lost", "NATS answers again, from its start", "-")
	allBack      = say("Every NATS server lost", "every replica serves again, from when NATS answers", "back when NATS is")
	allFlows     = say("Every NATS server lost", "every device publishes and every session receives again, from when NATS answers", "-")
	allWill      = say("Every NATS server lost", "will of a device that stays away, from when every replica serves", "{grace}, standing still until {budget} after the last CONNECT refused")
	allNoWill    = say("Every NATS server lost", "wills of devices that are back within the grace", "0")
	slow2Fences  = say("NATS slow, {slow 2} a reply", "fences", "0")
	slow2Flows   = say("NATS slow, {slow 2} a reply", "every device is acknowledged and every session receives, from then on", "full service, late")
	slow2Lost    = say("NATS slow, {slow 2} a reply", "connections lost", "0")
	slow4Fences  = say("NATS slow, {slow 4} a reply", "fences", "0")
	slow6Fences  = say("NATS slow, {slow 6} a reply", "fences", "0")
	slow8Fences  = say("NATS slow, {slow 8} a reply", "fences of all replicas", "repeatedly")
	slow10Fences = say("NATS slow, {slow 10} a reply", "fences of all replicas", "repeatedly")
	slowBack     = say("NATS slow, then healed", "every replica serves, from the healing", "recovers")
	slowFlows    = say("NATS slow, then healed", "every device publishes and every session receives again, from the healing", "nothing lost")
	refusedWill  = say("NATS slow, devices refused", "wills sent while they are refused", "0")
	refusedBack  = say("NATS slow, devices refused", "wills of devices that are back once NATS answers", "0")
	refusedAway  = say("NATS slow, devices refused", "will of a device that stays away, from the healing", "once; {grace}, standing still until {budget} after the last CONNECT refused")
	cutFence     = say("UNS pod cut off from NATS", "it fences, from its last write that landed", "{cut}")
	cutRefused   = say("UNS pod cut off from NATS", "a CONNECT under way there is refused, from the cut", "at its fence, {cut}")
	cutGone      = say("UNS pod cut off from NATS", "taken for gone by the others, from its last write that landed", "{gone}")
	cutFlows     = say("UNS pod cut off from NATS", "every device publishes and every session receives again, from the fence", "2 s after its reconnect")
	cutBack      = say("UNS pod cut off from NATS", "it serves again, from the healing", "once a write of its entry lands")
	meshSeen     = say("Mesh cut between two pods", "both replicas see it", "3 s of silence")
	meshPublish  = say("Mesh cut between two pods", "one publish", "not affected")
	meshSessions = say("Mesh cut between two pods", "every persistent session gets values, from then on", "not affected")
	meshDevices  = say("Mesh cut between two pods", "devices disconnected", "0")
	meshHealed   = say("Mesh cut between two pods", "a live subscriber has what was buffered, from the healing", "sent when the link is back")
	rollDevices  = say("Rolling upgrade", "every device publishes and every session receives again, from the stop of each replica", "a reconnect, one replica at a time")
	rollOld      = say("Rolling upgrade", "format written while an old replica is there", "the old one")
	rollNew      = say("Rolling upgrade", "the newer format is written, from the start of the last new replica", "once the last old replica is gone")
	rollBack     = say("Rolling upgrade", "an old release under the newer floor", "refuses to serve")
	rollMesh     = say("Rolling upgrade", "two releases without a common mesh version", "do not link")
	hop          = say("Nothing fails", "from a publish on one replica to the delivery on another, median", "one hop")
	takeover     = say("Nothing fails", "takeover of a client identifier on another replica", "at once")
)

var promises []*promise

func say(event, what, promised string) *promise {
	p := &promise{event: event, what: what, promised: promised}
	promises = append(promises, p)
	return p
}

// took records a measured time.
func (p *promise) took(t testing.TB, d time.Duration) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measured = append(p.measured, d)
	p.print(t, seconds(d))
}

// was records anything else.
func (p *promise) was(t testing.TB, what any) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted = append(p.counted, fmt.Sprint(what))
	p.print(t, fmt.Sprint(what))
}

func (p *promise) print(t testing.TB, measured string) {
	t.Helper()
	p.load = loadAverage()
	t.Logf("| %s | %s | %s | %s |", scaled(p.event), p.what, scaled(p.promised), measured)
}

// cell is what the page says was measured; "" if nothing was.
func (p *promise) cell() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.measured); {
	case n == 1:
		return seconds(p.measured[0])
	case n > 1:
		least, most := p.measured[0], p.measured[0]
		for _, d := range p.measured {
			least, most = min(least, d), max(most, d)
		}
		return fmt.Sprintf("%s to %s (%d times)", seconds(least), seconds(most), n)
	case len(p.counted) > 0:
		return strings.Join(distinct(p.counted), ", ")
	}
	return ""
}

func distinct(texts []string) (all []string) {
	seen := map[string]bool{}
	for _, text := range texts {
		if !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	return all
}

// seconds is a time with three figures.
func seconds(d time.Duration) string {
	switch s := d.Seconds(); {
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", s*1000)
	case s < 100:
		return fmt.Sprintf("%.3g s", s)
	default:
		return fmt.Sprintf("%.0f s", s)
	}
}

// scaled puts in the figures of the run's T.
func scaled(text string) string {
	text = strings.NewReplacer("{T}", seconds(ttl), "{beat}", seconds(ttl/10), "{fence}", seconds(fenceAfter), "{grace}", seconds(grace), "{budget}", seconds(*connectBudget),
		"{cut}", seconds(cutAfter), "{gone}", seconds(ttl*15/10)+" to "+seconds(ttl*17/10)).Replace(text)
	for n := 2; n <= 10; n += 2 {
		text = strings.ReplaceAll(text, fmt.Sprintf("{slow %d}", n), seconds(slowBy(n)))
	}
	return text
}

// slowBy is a delay of every reply of NATS that is n seconds at the default T of 10 s.
func slowBy(n int) time.Duration { return time.Duration(n) * ttl / 10 }
