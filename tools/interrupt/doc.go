// Package interrupt is how a program ends that a person runs and that has something to put
// right first.
//
//  1. The first Ctrl-C (SIGINT), SIGTERM or closed terminal (SIGHUP) ends a first context:
//     the program ends what it broke, and says what it has found.
//  2. The second ends a second one: the program only ends what it broke and takes back what
//     it made.
//  3. The third ends the process at once, after a last word about what is left.
//
// Whoever reads what the program prints may be gone before it: Ctrl-C in a terminal ends
// `program | tee` as a whole, and tee first. Writing to nobody is an error then, not the end.
package interrupt
