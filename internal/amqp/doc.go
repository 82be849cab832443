// Package amqp is the AMQP 1.0 codec: bytes to values and back, nothing else.
//
// It holds the type system (OASIS AMQP 1.0 part 1), frames and performatives (part 2), message sections and delivery
// states (part 3), transactions (part 4) and SASL (part 5). It does no I/O, reads no clock, starts no goroutine, keeps
// no state between two calls (but for a [Decoder]'s own reused structs) and knows nothing of sessions, links or queues.
// The engine, the frontend and the client call it.
//
// # Invariants
//
//   - Bytes from outside never panic and never make it allocate what they merely declare: every decode runs under a
//     budget of elements, bytes and nesting depth ([Limits]).
//   - Every refusal is a [*DecodeError] that carries the condition with which the connection is to be closed; the only
//     other error of a decode is [ErrShort].
//   - Every encoding that the specification allows is accepted, numeric and symbolic descriptors alike, and a single
//     value where a field may be multiple. The smallest encoding is written, trailing absent fields are left out.
//   - What is written can be read: strings are made valid UTF-8 and symbols ASCII on the way out.
//
// # Ownership
//
// Decoded []byte fields, payloads and section ranges alias the bytes that were decoded; who keeps one copies it. Strings
// and symbols are copies. With the build tag "invariants" [Mangle] overwrites buffers that are given back, and a Decoder
// overwrites its reused structs, so that a forgotten copy shows.
//
// # Values
//
// A field or body of any type is a Go any:
//
//	null            nil                         char        Char
//	boolean         bool                        timestamp   Timestamp
//	ubyte … ulong   uint8 uint16 uint32 uint64  uuid        UUID
//	byte … long     int8 int16 int32 int64      binary      []byte
//	float, double   float32 float64             string      string
//	decimal32…128   Decimal32 64 128            symbol      Symbol
//	list            List                        map         Map
//	array           Array                       described   *Described
//
// AppendValue takes, besides these, an int (written as long) and any composite of this package, such as *Declare.
package amqp
