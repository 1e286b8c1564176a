package jetstream_test

import (
	"testing"
	"time"

	"maestrohub.io/uns/broker/state/jetstream"
	"maestrohub.io/uns/broker/state/statetest"
)

const (
	logMaxBytes = 256 << 10
	memberTTL   = 5 * time.Second
)

func bounds(o *jetstream.Options) { o.LogMaxBytes, o.MemberTTL = logMaxBytes, memberTTL }

func TestThreeServersKeepTheLaws(t *testing.T) {
	statetest.Run(t, sharedSite(t).opener(bounds),
		statetest.Options{LogMaxBytes: logMaxBytes, LogOverhead: 64, MembersTTL: memberTTL, Patience: 20 * time.Second})
}

func TestSlowWatchesStartAgain(t *testing.T) {
	statetest.Run(t, sharedSite(t).opener(func(o *jetstream.Options) { o.WatchBuffer, o.RingBytes = 3, 1000 }),
		statetest.Options{Patience: 20 * time.Second, Only: func(promise string) bool {
			switch promise {
			case "no change is missing while many write", "a watch nobody reads holds up no write", "a tail gives every entry in order, slow or fast":
				return true
			}
			return false
		}})
}
