// Command coredns is CoreDNS with the plugins a cluster's DNS needs and no others:
// a third of the size of the released one.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order in which a query passes them.
	dnsserver.Directives = []string{"reload", "health", "ready", "errors", "log", "cache", "kubernetes"}
	coremain.Run()
}
