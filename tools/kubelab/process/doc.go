// Package process starts programs that outlive whoever started them, and ends them
// later from another process.
//
// A Table is a folder with one record per program: its process id, the moment it
// was started at and the boot that was in. A process counts as the recorded one only
// if all three agree, so that an id the kernel has given away again is never
// signalled.
//
// Programs run in a session of their own, write to <name>.log in the folder of logs,
// and inherit nothing.
package process
