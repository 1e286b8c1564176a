// Package way leads from this machine to pods and Services of a cluster whose networks it
// need not be part of.
//
//	ways, err := way.Find(ctx, config)
//	address, err := ways.ToService(ctx, "maestrohub", "maestrohub-uns-mqtt", "mqtt")
//
// Of a lab, addresses are reached as they are (Inside). Of another cluster often the API server
// alone is: then an address is one on loopback, and each connection goes through the
// API server to a pod that is chosen when it comes. kubectl port-forward would stay with
// the pod that it began with, and end with it; these tests have pods end.
//
// What listens does so until the process ends: an address may be kept.
package way
