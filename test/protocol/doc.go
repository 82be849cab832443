// Package protocol tests what a client sees of a node on the wire: one lone node of the real binary, and a peer that
// speaks frames, so that a test says exactly which ones. Each test is named by its row of docs/amqp.md: TestRow042…
// for a row of the list of behaviours, TestRowT18… for one of the transactions' list.
package protocol
