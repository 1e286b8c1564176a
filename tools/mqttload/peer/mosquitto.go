package peer

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

const mosquittoProgram = "/usr/sbin/mosquitto"

// Mosquitto is Debian's mosquitto with persistence, which saves its database when it
// stops and every half an hour, as it comes; with TCP_NODELAY set (without it its
// acknowledgments wait for the client's) and queues that drop nothing.
func Mosquitto() Kind {
	return Kind{
		Name:  "mosquitto",
		Means: "it is in the broker's memory; the database is saved when the broker stops and every 30 minutes, so a kill takes what came since",
		Version: func() (string, error) {
			line, err := printed(mosquittoProgram, "-h") // "mosquitto version 2.0.11"
			return strings.TrimPrefix(line, "mosquitto version "), err
		},
		Start: func(ctx context.Context, dir string) (*Running, error) {
			port, err := reserve()
			if err != nil {
				return nil, err
			}
			return startSingle(ctx, "mosquitto", mosquittoProgram, dir, port, fmt.Sprintf(`listener %d 127.0.0.1
allow_anonymous true
persistence true
persistence_location %s/
set_tcp_nodelay true
max_queued_messages 0
max_inflight_messages 1000
log_type error
user %s
`, port, dir, owner()), "-c")
		},
	}
}

// owner returns the user mosquitto is to run as: started as root it would become
// "mosquitto" and lose sight of the folder.
func owner() string {
	if id := os.Getuid(); id != 0 {
		return strconv.Itoa(id) // not root: mosquitto ignores the setting
	}
	return "root"
}
