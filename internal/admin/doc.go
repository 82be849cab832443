// Package admin is the node's HTTP interface for operators and programs: status,
// health, and queues, as JSON, on a loopback address.
//
//	GET    /api/v1/status             who leads, how far applied, safety
//	GET    /livez                     200 unless only a restart helps
//	GET    /readyz                    200 only with a leader, this node's epoch applied, and not lagging
//	PUT    /api/v1/queues/NAME        make the queue: 201, or 200 where it was there
//	GET    /api/v1/queues/NAME        depth and messages in flight
//	DELETE /api/v1/queues/NAME        the queue and its messages
//	POST   /api/v1/queues/NAME/purge  the messages that nobody holds
//	GET    /api/v1/queues/NAME/messages  some of its messages, without any effect: JSON lines; ?after=POSITION
//	GET    /api/v1/users              who may connect
//	PUT    /api/v1/users/NAME         make the user: 201, or 409 where it was there
//	DELETE /api/v1/users/NAME         the user, whose connections end
//	PUT    /api/v1/users/NAME/password
//	GET    /api/v1/backup             a backup, as a stream (docs/format/backup.md); ?rate=BYTES a second, ?stale=true: without a majority
//
//	GET    /api/v1/cluster            the members and the tokens that are open
//	POST   /api/v1/cluster/tokens     make a token, with which a node joins: {"lifetime": "24h", "replace": NODE}
//	POST   /api/v1/cluster/remove     {"nodes": [NODE, ...]} are to leave
//	POST   /api/v1/cluster/transfer   leadership to {"to": NODE}
//	POST   /api/v1/cluster/step-down  leadership to another node
//	GET    /api/v1/node               this node's service to clients
//	GET    /api/v1/node/quorum        may this node stop?
//	POST   /api/v1/node/drain         move clients and leadership away: {"over": "10s"}
//	POST   /api/v1/node/revive        the end of a drain
//	POST   /api/v1/node/rebalance     close what is above the average: {"over": "10s"}
//
// The two PUTs of users take {"password": "..."}, or null for a user that comes with a
// certificate only. Every answer but a backup is a JSON object; every error is {"error": "..."} with a 4xx or 5xx
// status. With Config.Dev there is also /debug/pprof, and what Config.Routes adds.
//
// Invariants: it listens on loopback only, refuses requests whose Host isn't loopback
// (a web page that re-binds its name) or that come from another site, and every
// request ends within a time limit. A password is never logged nor repeated. It knows nothing of raft, storage or AMQP: what
// it needs stands in Node, which package replica fulfils through cmd/oncemq.
package admin
