// Package config turns what an operator wrote (command line flags, as text) into
// one validated struct, or into an error that says which value is wrong, why, and
// what is allowed.
//
// Invariant: a Serve that Parse returned needs no further check by anybody.
//
// cmd/oncemq calls it. It knows names and limits only: it opens no file and no
// socket, and must not know what the values are used for beyond that.
package config
