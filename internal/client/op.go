package client

// Op is something that was asked for and ends once. It is embedded in what stands for the operation.
type Op struct {
	// Data is the driver's, such as the channel to close.
	Data any

	done bool
	err  error
	then func() // the core's own continuation, in place of the event Finished
}

// Done says that the operation has ended; Err is how.
func (o *Op) Done() bool { return o.done }

// Err is nil until Done, and for success.
func (o *Op) Err() error { return o.err }

// finish ends an operation, once.
func (c *Core) finish(o *Op, err error) {
	if o.done {
		return
	}
	o.done, o.err = true, err
	if o.then != nil {
		o.then()
		return
	}
	c.emit(Event{Kind: Finished, Op: o})
}
