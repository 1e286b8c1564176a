package main

import (
	"fmt"
	"io"
	"net"

	"maestrohub.io/uns/tools/localcluster/deployment"
)

// greet says where everything is, and what to try.
func greet(w io.Writer, d *deployment.Deployment, client, secret string) {
	fmt.Fprintf(w, "%-9s mqtt://%s   whichever replica is ready\n", "all", d.Address())
	for _, r := range d.Replicas {
		fmt.Fprintf(w, "%-9s mqtt://%s   http://%s   %s\n", r.ID, r.TCP, r.HTTP, r.Dir)
	}
	for _, s := range d.NATS.Servers {
		fmt.Fprintf(w, "%-9s nats://%s   http://%s\n", s.Name, s.Address, s.Monitor)
	}
	fmt.Fprintf(w, "%-9s %s\n\n", "postgres", d.Postgres.URL("postgres"))
	first := d.Replicas[0]
	host, port, _ := net.SplitHostPort(d.Address())
	fmt.Fprintf(w, "Subscribe with a persistent session; mosquitto_sub connects again by itself:\n")
	fmt.Fprintf(w, "  mosquitto_sub -V 5 -h %s -p %s -u %s -P %s -i reader -c -x 3600 -q 1 -v -t 'mHv1.0/acme/#'\n", host, port, client, secret)
	fmt.Fprintf(w, "Publish:\n")
	fmt.Fprintf(w, "  mosquitto_pub -V 5 -h %s -p %s -u %s -P %s -q 1 -t mHv1.0/acme/_ingress/%s/line/1 -m 21.5\n", host, port, client, secret, client)
	fmt.Fprintf(w, "Read it back from the historian:\n")
	fmt.Fprintf(w, "  curl -u %s:%s 'http://%s/api/v1/uns/acme/history?topic=line/1'\n", client, secret, first.HTTP)
	fmt.Fprintf(w, "Status of the cluster as %s sees it:\n", first.ID)
	fmt.Fprintf(w, "  curl -u %s:%s http://%s/api/v1/system/uns/settings/status\n", client, secret, first.HTTP)
	fmt.Fprintf(w, "The MQTT Broker page, as %s or any other serves it; sign in as %s with the secret above:\n  http://%s/\n\n", first.ID, client, first.HTTP)
	fmt.Fprint(w, `Have devices publish and sessions receive all the while, and a verdict at the end:
  go run ./tools/localcluster check               Ctrl-C ends it; or: check --for 1m
Have everything below done by itself, judged and reported:
  go run ./tools/drill all --cluster

Break it, from another shell:
  go run ./tools/localcluster status              and: log uns-0
  go run ./tools/localcluster kill uns-0          kill -9; then: restart uns-0
  go run ./tools/localcluster stop uns-0          a planned stop; then: restart uns-0
  go run ./tools/localcluster kill nats-1         then: restart nats-1
  go run ./tools/localcluster pause nats-1        a hung server; then: resume nats-1
  go run ./tools/localcluster slow nats 4s        then: heal nats; heal alone heals everything
  go run ./tools/localcluster cut uns-1/nats      then: heal uns-1/nats
  go run ./tools/localcluster cut uns-0/mesh      all its links to others; mesh: every link
  go run ./tools/localcluster upgrade uns-0 bin/broker   after: go build -o bin/broker ./broker
  go run ./tools/localcluster down                or Ctrl-C here

`)
}
