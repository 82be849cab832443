// Package bench measures a running cluster: how fast it takes and gives messages, and
// what raw replication on the same machine can do, so that the two can be compared.
//
// Invariants: every run reports what it measured and nothing else (a warm-up is left
// out, errors are counted, never retried silently); all runs of one comparison happen
// in the same minute on the same machine, interleaved.
//
// cmd/oncemq calls it; the node's admin port mounts RawHandler with --dev. Clients go
// through package oncemq, as any program would. It must not know how a node works,
// but for the encoding of the one command that the raw run repeats.
package bench
