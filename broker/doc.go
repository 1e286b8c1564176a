// Command broker is a replica of the MaestroHub UNS broker and the tools around it.
//
//	broker                      a broker for trying out: ./data, an example model, a client made for you
//	broker run --config FILE    the same program as a service
//	broker check-config FILE    whether a start would take this configuration, and every reason why not
//	broker config reference     every setting, its default, range and meaning
//	broker client ...           API clients: list, add, rotate, disable, enable, delete
//	broker healthcheck          exit status for a container's probe
//	broker secrets ensure       certificates and passwords of a deployment on Kubernetes: make what is missing
//	broker try URL              what a device does, once, and whether it works
//	broker version              what this binary is
//
// The commands are one file each: run.go and trial.go (the start without a
// configuration), check.go, client.go with adminapi.go (how it reaches a broker),
// healthcheck.go, secrets.go, try.go with device.go (the client it is), version.go.
package main
