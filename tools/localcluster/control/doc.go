// Package control is how a running local cluster is told what to do: through a Unix socket,
// for its user alone.
//
//  1. The cluster listens on Socket, or on another path it was given.
//  2. Ask connects, sends the words of one command as a JSON array, and waits for its
//     Answer. A command may take long: a start, an upgrade.
//  3. Find asks for the Place, which is all a device must know.
//
// What the commands are is package deployment's to say.
package control
