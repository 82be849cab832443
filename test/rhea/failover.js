// rhea, as it is, through a failover: node failover.js HOST:PORT…
//
// It connects to the first address, says "kill", and waits until its connection is lost and is there again, at another
// address, with its sender and its receiver, which it doesn't open again. A selector and a durable subscription that was left
// with a message in it come before and behind that. Exit status 1 where something isn't as it should be.
'use strict';

const assert = require('node:assert/strict');
const rhea = require('rhea');

const addresses = process.argv.slice(2).map((address) => {
    const [host, port] = address.split(':');
    return {host, port: Number(port)};
});
const patience = 60_000;

const container = rhea.create_container({id: 'rhea-failover'});
for (const event of ['disconnected', 'connection_error', 'error']) {
    container.on(event, () => {}); // or rhea throws
}
let tried = 0;
const connection = container.connect({
    connection_details: () => addresses[tried++ % addresses.length],
    initial_reconnect_delay: 20, max_reconnect_delay: 100,
});

/** Waits for an event. */
function once(emitter, event) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${event} within ${patience} ms`)), patience);
        emitter.once(event, (context) => {
            clearTimeout(timer);
            resolve(context);
        });
    });
}

/** Sends and waits until all are accepted. */
async function send(sender, ...messages) {
    if (!sender.sendable()) {
        await once(sender, 'sendable');
    }
    for (const message of messages) {
        const accepted = once(sender, 'accepted');
        sender.send({durable: true, ...message});
        await accepted;
    }
}

/** The bodies of the next messages of a receiver. */
function bodies(receiver) {
    const waiting = [];
    receiver.on('message', (context) => waiting.push(context.message.body));
    return async (count) => {
        while (waiting.length < count) {
            await once(receiver, 'message');
        }
        return waiting.splice(0, count);
    };
}

function subscribe() {
    return connection.open_receiver({
        name: 'subscription', source: {address: 'rhea.topic', durable: 2, expiry_policy: 'never', capabilities: ['topic']},
    });
}

async function story() {
    await once(connection, 'connection_open');
    const sender = connection.open_sender('rhea.queue');
    const receiver = connection.open_receiver({source: 'rhea.queue'});
    const received = bodies(receiver);
    await send(sender, {body: 'before'});
    assert.deepEqual(await received(1), ['before']);

    const some = connection.open_sender('rhea.selected');
    await send(some, ...['red', 'green', 'blue', 'green'].map((colour) => ({body: colour, application_properties: {colour}})));
    const green = connection.open_receiver({source: {address: 'rhea.selected', filter: rhea.filter.selector("colour = 'green'")}});
    assert.deepEqual(await bodies(green)(2), ['green', 'green']);
    green.close();
    some.close();

    const subscription = subscribe();
    await once(subscription, 'receiver_open');
    const left = once(subscription, 'receiver_close');
    subscription.detach();
    await left;
    const topic = connection.open_sender({target: {address: 'rhea.topic', capabilities: ['topic']}});
    await send(topic, {body: 'kept'});
    const closed = once(topic, 'sender_close');
    topic.close();
    await closed;

    const lost = once(connection, 'disconnected');
    const again = Promise.all([once(connection, 'connection_open'), once(sender, 'sendable')]);
    console.log('kill');
    await lost;
    await again;
    await send(sender, {body: 'behind'});
    assert.deepEqual(await received(1), ['behind']);
    const kept = bodies(subscribe());
    assert.deepEqual(await kept(1), ['kept']);
    connection.close();
    await once(connection, 'connection_close');
}

story().then(() => process.exit(0), (error) => {
    console.error(error);
    process.exit(1);
});
