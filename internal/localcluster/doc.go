// Package localcluster runs nodes as child processes of this one, on loopback ports
// that were free, and speaks to their admin ports: to start, kill, stop and watch
// them.
//
// Invariants: a child dies with its parent (even by SIGKILL); a node that ends
// without having been told to is an error that Unexpected yields; Close leaves no
// process behind. Ports lie outside of the range from which the kernel takes ports
// for outgoing connections, so that nobody takes a dead node's port.
//
// The demo, the benchmark and tests call it. It knows the command line of `oncemq
// serve` and the admin API, nothing else of a node.
package localcluster
