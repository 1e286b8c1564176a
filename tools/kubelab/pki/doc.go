// Package pki makes the keys and certificates of a cluster: two authorities (one
// for the cluster, one for requests the API server passes on), a certificate for
// each part that serves or signs in, the key of service account tokens, and a
// kubeconfig for each part that talks to the API server.
//
// Everything is written once into a folder and found there by name; it lives as
// long as the cluster does and is deleted with it.
package pki
