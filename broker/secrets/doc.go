// Package secrets makes the certificates and passwords of a deployment on Kubernetes, once, and keeps them.
//
// The chart runs it as `broker secrets ensure`, in a Job before each installation and upgrade. What is there stays as
// it is, byte for byte; what is missing is made; what does not fit together is refused by name before anything is
// written. Nothing it makes belongs to a release: an uninstalled and reinstalled one finds its Secrets again.
//
//  1. The Job reads the Plan that the chart wrote: which Secrets, in which namespace, with which names, for how long.
//  2. Every Secret of the plan is read (Store).
//  3. decide compares the two and says what to write, or everything that is wrong. It reads and writes nothing.
//  4. The writes are made in order: authorities, passwords, certificates, accounts. Each is conditional: a Secret is
//     created where none was or changed at the revision that was read. If another Job was first, all begins at 1 again.
//
// What changes a Secret that is there, and nothing else does:
//
//   - a certificate that this package made, signed by an authority whose key it has, is made anew in the last third of
//     its life, or when the plan's word for it (renew) is another than the one it was last made for;
//   - the bundle of trusted authorities (ca.crt) follows the stages of replacing one: introduce, switch, none;
//   - passwords are made anew for another word, and some minutes later the accounts that know their hashes;
//   - the part of an accounts file or a text that is no secret follows the plan.
//
// A Secret without the label Made is somebody else's: it is checked like the others and never written.
//
// The Kubernetes API is spoken over net/http: three requests on one kind of object. client-go's typed client for the
// core group makes a program of 36 MB of nothing, its bare REST client one of 14 MB; the whole broker is 27 MB.
package secrets
