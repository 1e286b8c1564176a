// Package planted_test shows that the simulation finds faults: it builds the simulation
// over sources with faults in them (go build -overlay), each of which an environment
// variable switches on, and runs seeds until each is found. No file of the broker knows of
// them. A change of the broker that moves what a fault replaces makes the test name it:
// the fault is then to be put into the new text.
package planted_test
