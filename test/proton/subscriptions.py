"""python-proton as an unmodified client: a durable subscription as DurableSubscription asks for it.

usage: subscriptions.py HOST:PORT HOST:PORT

The subscriber comes back at the second node. Exit status 1 if something else came than was published.
"""

import sys
import uuid

from proton import Message
from proton.reactor import Container, DurableSubscription
from proton.utils import BlockingConnection

LIMIT_S = 20


def connect(broker, container_id):
    container = Container()
    container.container_id = container_id
    return BlockingConnection(broker, timeout=LIMIT_S, container=container)


def subscribe(conn, topic):
    return conn.create_receiver(topic, credit=10, name="sub", options=[DurableSubscription()])


def publish(broker, topic, *bodies):
    conn = BlockingConnection(broker, timeout=LIMIT_S)
    sender = conn.create_sender(topic)
    for body in bodies:
        sender.send(Message(body=body, durable=True))
    conn.close()


def expect(receiver, *bodies):
    for body in bodies:
        got = receiver.receive(timeout=LIMIT_S).body
        if got != body:
            raise AssertionError("got %r, want %r" % (got, body))
        receiver.accept()


def main():
    first, second = sys.argv[1:]
    topic, me = "topic://proton." + str(uuid.uuid4()), "proton." + str(uuid.uuid4())
    publish(first, topic, "before")
    conn = connect(first, me)
    receiver = subscribe(conn, topic)
    publish(second, topic, "a", "b")
    expect(receiver, "a", "b")
    receiver.detach()
    conn.close()
    publish(first, topic, "c")
    conn = connect(second, me)
    receiver = subscribe(conn, topic)
    publish(first, topic, "d")
    expect(receiver, "c", "d")
    receiver.close()  # which ends it
    publish(first, topic, "e")
    receiver = subscribe(conn, topic)
    publish(first, topic, "f")
    expect(receiver, "f")
    conn.close()


main()
