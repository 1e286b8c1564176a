// Package volume makes PersistentVolumes of folders of this machine, for claims of
// the StorageClasses that name it as their provisioner.
//
// The volumes are of the kind "local", not "hostPath": the kubelet applies a pod's
// fsGroup to the former only. A volume is bound to the node its first pod was
// scheduled to, as a local disk is; those of a class with the parameter "mobile:
// true" follow their pods to any node, as a network disk does, since all nodes are
// this machine.
//
// The life of a volume:
//
//  1. A claim appears; where its class waits for the first consumer, the scheduler
//     has written the node on it.
//  2. The folder is made and a PersistentVolume that names it.
//  3. The claim asks for more, where its class allows that: the volume says that it
//     has it, at once and in use. A folder has no size of its own.
//  4. The claim is deleted and the volume released: with the reclaim policy Delete
//     both are removed, with Retain nothing happens.
package volume
