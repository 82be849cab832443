// Package failover tests what Qpid JMS, unmodified and with failover:(a,b,c), sees of three nodes of the real binary
// when one of them is killed, cut off, or restarted at an exact moment. Each test is named by its row of docs/amqp.md:
// TestRow102….
//
// The JMS program is test/jms's Remote: it does one call at a time, as the test says, so that a fault happens between
// two calls or within one. Proxies stand before each node and, where a test asks for it, between the nodes; they hold
// bytes until a condition is met, so nothing here hangs on how fast anything is.
package failover
