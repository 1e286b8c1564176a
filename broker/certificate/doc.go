// Package certificate follows certificates in files: a chain with its key, and the authorities beside them (ca.crt).
// Kubernetes and cert-manager renew such files while programs run.
//
// A Follower always has a Set that fits together, the files' newest one that did: what cannot be read, a key that is not
// the certificate's, or a certificate that has ended is logged, and the earlier Set stays in use. Who makes connections
// asks for Current at each handshake, so that a renewal reaches the next one; connections that stand are not touched.
//
//  1. Open reads the files, which must fit together.
//  2. A change in their directories is announced (a Secret changes by a symlink swap there), and they are read again
//     when nothing more has changed for a moment; without announcements, every 30 s.
//  3. Options.Taken is told of each Set that has become Current, of the first one too.
//  4. Close stops following.
package certificate
