// Package state is the deterministic machine at the heart of the broker:
// addresses, subscriptions, links, sessions, transactions and their outcomes. It
// takes the entries of one group's log and answers with effects (what connections
// and nodes are to be told) and changes (keys and values for the disk).
//
// Invariants:
//   - Equal entries at equal indexes give equal effects and changes on every node
//     [4.3]: no clock, no randomness, no map order. Digest is the running proof.
//   - Load of the keys that Apply has written gives exactly the machine that wrote
//     them; both go on alike. Nothing that decides lives in memory alone.
//   - A command is checked (reads only, may refuse) and then changed (can't fail)
//     [4.4]. A panic in the check is a refusal; a panic in the change stops the node.
//   - An entry costs at most about 10,000 steps (messages touched); what is larger
//     stands as a job and goes on in later entries [4.2].
//   - A message is in exactly one place: waiting in a queue, held by one link, or
//     gone because it was consumed (C13).
//
// What scales with messages, deliveries and outcomes lives in pointer-free slabs
// addressed by uint32 [5.1].
//
// Caller: replica, on its apply goroutine; admin reads there too. The package must
// not know AMQP frames, raft, Pebble or the network. docs/format/state.md draws
// every key and value.
package state
