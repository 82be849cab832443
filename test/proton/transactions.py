"""python-proton as an unmodified client: transactions with symbolic descriptors and unsettled transactional accepts.

usage: transactions.py HOST:PORT

Prints a line a story and "N passed, N failed" last; exit status 1 if one failed. Each story runs in a container of its
own and is given 20 s.
"""

import sys
import traceback
import uuid

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

LIMIT_S = 20


class Story(MessagingHandler, TransactionHandler):
    """A script of steps on one connection, ended by done() or by the time limit."""

    def __init__(self, broker, **kw):
        MessagingHandler.__init__(self, prefetch=0, auto_accept=False, auto_settle=kw.pop("auto_settle", True))
        TransactionHandler.__init__(self)
        self.broker = broker
        self.failure = "not finished within %d s" % LIMIT_S

    def on_start(self, event):
        self.container = event.container
        self.conn = event.container.connect("amqp://" + self.broker, reconnect=False)
        self.timer = event.container.schedule(LIMIT_S, self)
        self.begin()

    def on_timer_task(self, event):
        self.conn.close()

    def done(self, failure=None):
        self.failure = failure
        self.timer.cancel()
        self.conn.close()

    def on_transaction_declare_failed(self, event):
        self.done("declare failed")

    def on_transaction_commit_failed(self, event):
        self.done("commit failed")

    def on_link_error(self, event):
        self.done("link error: %s" % event.link.remote_condition)

    def on_connection_error(self, event):
        self.done("connection error: %s" % event.connection.remote_condition)


class SendStory(Story):
    """Three sends in a transaction that ends by end ("commit" or "abort")."""

    def __init__(self, broker, queue, end):
        super().__init__(broker)
        self.queue, self.end, self.transaction, self.sent = queue, end, None, False

    def begin(self):
        self.sender = self.container.create_sender(self.conn, self.queue)
        self.container.declare_transaction(self.conn, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.work()

    def on_sendable(self, event):
        self.work()

    def work(self):
        if self.transaction is None or self.sent or self.sender.credit < 3:
            return
        self.sent = True
        for i in range(3):
            self.transaction.send(self.sender, Message(id=str(i), body="m%d" % i))
        getattr(self.transaction, self.end)()

    def on_transaction_committed(self, event):
        self.done(None if self.end == "commit" else "committed")

    def on_transaction_aborted(self, event):
        self.done(None if self.end == "abort" else "aborted")


class ReceiveStory(Story):
    """Two messages accepted, unsettled, in a transaction that ends by end."""

    def __init__(self, broker, queue, end):
        super().__init__(broker, auto_settle=False)
        self.queue, self.end, self.got = queue, end, []

    def begin(self):
        self.receiver = self.container.create_receiver(self.conn, self.queue)
        self.container.declare_transaction(self.conn, handler=self, settle_before_discharge=False)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.receiver.flow(2)

    def on_message(self, event):
        self.got.append(event.message.body)
        self.transaction.accept(event.delivery)
        if len(self.got) == 2:
            getattr(self.transaction, self.end)()

    def on_transaction_committed(self, event):
        self.done(None if self.end == "commit" else "committed")

    def on_transaction_aborted(self, event):
        # Unsettled, they stay with the receiver (T16): it releases them.
        for delivery in list(getattr(self.transaction, "_pending", [])):
            delivery.update(delivery.RELEASED)
            delivery.settle()
        self.done(None if self.end == "abort" else "aborted")


class WorkStory(Story):
    """Receive one, send one to another queue, commit: consume and produce in one transaction."""

    def __init__(self, broker, source, target):
        super().__init__(broker)
        self.source, self.target = source, target

    def begin(self):
        self.receiver = self.container.create_receiver(self.conn, self.source)
        self.sender = self.container.create_sender(self.conn, self.target)
        self.container.declare_transaction(self.conn, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.receiver.flow(1)

    def on_message(self, event):
        self.transaction.accept(event.delivery)
        self.transaction.send(self.sender, Message(body="did " + event.message.body))
        self.transaction.commit()

    def on_transaction_committed(self, event):
        self.done()

    def on_transaction_aborted(self, event):
        self.done("aborted")


def put(broker, queue, *bodies):
    conn = BlockingConnection(broker, timeout=10)
    sender = conn.create_sender(queue)
    for body in bodies:
        sender.send(Message(body=body))
    conn.close()


def take(broker, queue):
    """Everything in the queue, in order."""
    conn = BlockingConnection(broker, timeout=10)
    receiver = conn.create_receiver(queue, credit=100)
    bodies = []
    try:
        while True:
            message = receiver.receive(timeout=0.7)
            bodies.append(str(message.body))
            receiver.accept()
    except Exception as e:  # proton.Timeout where nothing more comes
        if type(e).__name__ != "Timeout":
            raise
    conn.close()
    return bodies


def run(story):
    Container(story).run()
    if story.failure:
        raise AssertionError(story.failure)


def expect(got, want):
    if got != want:
        raise AssertionError("got %r, want %r" % (got, want))


def send_commit(broker, queue):
    run(SendStory(broker, queue, "commit"))
    expect(take(broker, queue), ["m0", "m1", "m2"])


def send_abort(broker, queue):
    run(SendStory(broker, queue, "abort"))
    expect(take(broker, queue), [])


def receive_commit(broker, queue):
    put(broker, queue, "a", "b", "c")
    run(ReceiveStory(broker, queue, "commit"))
    expect(take(broker, queue), ["c"])


def receive_abort(broker, queue):
    put(broker, queue, "a", "b", "c")
    run(ReceiveStory(broker, queue, "abort"))
    expect(take(broker, queue), ["a", "b", "c"])


def consume_and_produce(broker, queue):
    put(broker, queue, "work")
    run(WorkStory(broker, queue, queue + ".out"))
    expect(take(broker, queue), [])
    expect(take(broker, queue + ".out"), ["did work"])


def main():
    passed = failed = 0
    for story in (send_commit, send_abort, receive_commit, receive_abort, consume_and_produce):
        try:
            story(sys.argv[1], "proton." + str(uuid.uuid4()))
            passed += 1
            print("ok   " + story.__name__)
        except Exception:
            failed += 1
            print("FAIL " + story.__name__)
            traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()
