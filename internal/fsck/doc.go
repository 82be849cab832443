// Package fsck says whether the data directory of a node that isn't running is sound: what is damaged, what is lost by it, and
// what is safe to do. It changes nothing.
//
// What can be read of the files is package store's to say ([store.Inspect]). On top of it the state is loaded as a start would
// load it, every entry of the log is decoded, and log, state and stamp are compared. The rules of what a node does with a
// damaged directory are those of the contract (C14).
package fsck
