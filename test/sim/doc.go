// Package sim runs package internal/sim's worlds from seeds, and its mutants: here, and not there, because the checkers of
// small objects need a module that nothing but a test needs.
package sim
