package command

// QueueCreate makes a queue, or a topic, or finds it there (Existed in the answer). Conn is
// zero for a request of the admin API. Answer: EffectQueue.
type QueueCreate struct {
	Conn    ConnID
	Request uint64
	Name    string
	Routing Routing
}

// Kind implements Command.
func (*QueueCreate) Kind() Kind { return KindQueueCreate }

func (c *QueueCreate) append(dst []byte) []byte {
	return append(appendQueue(dst, c.Conn, c.Request, c.Name), byte(c.Routing))
}

func (c *QueueCreate) decode(r *reader) {
	c.Conn, c.Request, c.Name = r.queue()
	c.Routing = r.routing()
}

// QueueDelete deletes a queue with all its messages; its links end with
// amqp:resource-deleted. Large ones go in steps, as a job [4.2]. Answer: EffectQueue
// when it is gone for everybody.
type QueueDelete struct {
	Conn    ConnID
	Request uint64
	Name    string
}

// Kind implements Command.
func (*QueueDelete) Kind() Kind { return KindQueueDelete }

func (c *QueueDelete) append(dst []byte) []byte { return appendQueue(dst, c.Conn, c.Request, c.Name) }
func (c *QueueDelete) decode(r *reader)         { c.Conn, c.Request, c.Name = r.queue() }

// QueuePurge removes the messages that are in the queue now and in nobody's hands.
// Answer: EffectQueue with the number removed in Number, once the job has ended.
type QueuePurge struct {
	Conn    ConnID
	Request uint64
	Name    string
}

// Kind implements Command.
func (*QueuePurge) Kind() Kind { return KindQueuePurge }

func (c *QueuePurge) append(dst []byte) []byte { return appendQueue(dst, c.Conn, c.Request, c.Name) }
func (c *QueuePurge) decode(r *reader)         { c.Conn, c.Request, c.Name = r.queue() }

func appendQueue(dst []byte, conn ConnID, request uint64, name string) []byte {
	dst = appendUint(dst, uint64(conn))
	dst = appendUint(dst, request)
	return appendString(dst, name)
}

func (r *reader) queue() (ConnID, uint64, string) {
	return ConnID(r.uint()), r.uint(), r.string()
}
