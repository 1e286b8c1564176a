// Package registry serves container images over HTTP from a folder: the registry a
// lab's nodes pull from, in place of every public one.
//
// Layers stay in the folder; which image has which is in memory, and lost when the
// server ends: whoever starts it pushes again, which costs no upload of what is
// there.
package registry
