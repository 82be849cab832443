package oncemq;

import jakarta.jms.*;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Topics as JMS programs use them: plain, durable, shared and global subscriptions, their ends and changes. Each connection
 * begins at another node. Prints a line a story, and "N passed, N failed" last; exit status 1 if one failed.
 */
public final class Topics extends TopicWorld {
    public static void main(String[] args) throws Exception {
        try (Connection c = open(new Flags("topics", args).urls)) {
            story("row 28: a queue asked for as a topic, and the other way round", Topics::otherKind);
            story("row 34: no-local", Topics::noLocal);
            story("row 58: a producer without a destination sends to topics", Topics::anonymous);
            story("row 73: plain consumers", Topics::plain);
            story("row 73: message listeners", Topics::listeners);
            story("row 74: a durable subscription over connections", Topics::durable);
            story("row 74: a durable subscription within a session", Topics::durableAgain);
            story("row 75: another selector, no-local or topic, idle", Topics::changedIdle);
            story("row 75: another selector, active", Topics::changedActive);
            story("row 76: unsubscribe", Topics::unsubscribe);
            story("row 76: unsubscribe without a client id", Topics::unsubscribeGlobal);
            story("row 77: shared durable consumers of a client id", () -> sharedDurable(newName()));
            story("row 77: shared durable consumers without a client id", () -> sharedDurable(null));
            story("row 77: global consumers over connections", Topics::global);
            story("row 78: shared volatile consumers of a client id", () -> sharedVolatile(newName()));
            story("row 78: shared volatile consumers without a client id", () -> sharedVolatile(null));
            story("row 79: another client id, another subscription", Topics::others);
            story("transactions: transacted consumers and a rollback", Topics::transacted);
            story("transactions: transacted sends", Topics::transactedSends);
        }
        end();
    }

    private static void otherKind() throws Exception {
        try (Connection c = connect(null)) {
            Session s = session(c);
            String queue = newName();
            send(s, s.createQueue(queue), "a");
            Topic t = topic();
            publish(t, "never kept");
            refused(() -> s.createConsumer(s.createTopic(queue)), "not-allowed");
            refused(() -> s.createSharedConsumer(s.createTopic(queue), "sub"), "not-allowed");
            refused(() -> s.createProducer(s.createTopic(queue)), "not-allowed");
            refused(() -> s.createConsumer(s.createQueue(t.getTopicName())), "not-allowed");
            refused(() -> s.createProducer(s.createQueue(t.getTopicName())), "not-allowed");
            wants(s.createConsumer(s.createQueue(queue)), "a");
        }
    }

    private static void noLocal() throws Exception {
        try (Connection c = connect(newName())) {
            Session s = session(c);
            Topic t = topic();
            MessageConsumer some = s.createConsumer(t, null, true);
            MessageConsumer durable = s.createDurableSubscriber(t, "sub", "kind <> 'x'", true);
            MessageConsumer all = s.createConsumer(t);
            publish(t, "1");
            send(s, t, "own");
            publish(t, "x");
            publish(t, "2");
            wants(some, "1", "x", "2");
            wants(durable, "1", "2");
            wants(all, "1", "own", "x", "2");
            durable.close();
            send(s, t, "own");
            publish(t, "3");
            durable = s.createDurableSubscriber(t, "sub", "kind <> 'x'", true);
            wants(durable, "3");
        }
    }

    private static void anonymous() throws Exception {
        try (Connection c = connect(null)) {
            Session s = session(c);
            MessageProducer p = s.createProducer(null);
            Topic t = topic();
            p.send(t, s.createTextMessage("makes it a topic, and is kept by nobody"));
            MessageConsumer a = s.createConsumer(t);
            MessageConsumer b = s.createSharedConsumer(t, "sub");
            p.send(t, s.createTextMessage("1"));
            TextMessage m = (TextMessage) a.receive(MILLIS);
            check(m != null && m.getText().equals("1") && t.equals(m.getJMSDestination()), "1 of " + t + ": " + m);
            wants(b, "1");
            refused(() -> s.createConsumer(s.createQueue(t.getTopicName())), "not-allowed");
            Session tx = newTx(c);
            MessageProducer q = tx.createProducer(null);
            Topic u = topic();
            q.send(u, tx.createTextMessage("makes it a topic"));
            q.send(t, tx.createTextMessage("2"));
            tx.commit();
            wants(a, "2");
            wants(b, "2");
            wants(s.createConsumer(u));
        }
    }

    private static void plain() throws Exception {
        try (Connection c = connect(null)) {
            Session s = session(c);
            Topic t = topic();
            publish(t, "before");
            MessageConsumer a = s.createConsumer(t);
            MessageConsumer b = s.createConsumer(t);
            MessageConsumer red = s.createConsumer(t, "kind = 'red'");
            publish(t, "red 1", "blue 2", "red 3");
            wants(a, "red 1", "blue 2", "red 3");
            wants(red, "red 1", "red 3");
            b.close();
            b = s.createConsumer(t);
            publish(t, "4");
            wants(b, "4");
            wants(a, "4");
            wants(red);
        }
    }

    private static void listeners() throws Exception {
        try (Connection c = connect(newName())) {
            Topic t = topic();
            BlockingQueue<String> got = new LinkedBlockingQueue<>();
            BlockingQueue<String> kept = new LinkedBlockingQueue<>();
            session(c).createConsumer(t).setMessageListener(m -> put(got, m));
            session(c).createDurableSubscriber(t, "sub").setMessageListener(m -> put(kept, m));
            publish(t, some(50));
            for (String want : numbers(50)) {
                check(want.equals(got.poll(MILLIS, TimeUnit.MILLISECONDS)), "got: " + want);
                check(want.equals(kept.poll(MILLIS, TimeUnit.MILLISECONDS)), "kept: " + want);
            }
            check(got.isEmpty() && kept.isEmpty(), "more: " + got + kept);
        }
    }

    private static void put(BlockingQueue<String> list, Message m) {
        try {
            list.add(((TextMessage) m).getText());
        } catch (JMSException e) {
            list.add(e.toString());
        }
    }

    private static void durable() throws Exception {
        Topic t = topic();
        String id = newName();
        try (Connection c = connect(id)) {
            MessageConsumer r = session(c).createDurableConsumer(t, "sub");
            publish(t, "1", "2");
            check(((TextMessage) r.receive(MILLIS)).getText().equals("1"), "1");
            r.close();
            publish(t, "3");
        }
        publish(t, "4");
        try (Connection c = connect(id)) {
            wants(session(c).createDurableSubscriber(t, "sub"), "2", "3", "4");
            publish(t, "5"); // on its way, or not
        }
        try (Connection c = connect(id)) {
            Session s = c.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            MessageConsumer r = s.createDurableSubscriber(t, "sub");
            check(((TextMessage) r.receive(MILLIS)).getText().equals("5"), "5");
        }
        try (Connection c = connect(id)) {
            wants(session(c).createDurableSubscriber(t, "sub"), 2, "5");
        }
    }

    private static void durableAgain() throws Exception {
        try (Connection c = connect(newName())) {
            Session s = session(c);
            Topic t = topic();
            MessageConsumer r = s.createDurableConsumer(t, "sub");
            publish(t, "1", "2", "3");
            check(((TextMessage) r.receive(MILLIS)).getText().equals("1"), "1");
            r.close(); // with 2 and 3 on their way to it
            publish(t, "4");
            r = s.createDurableConsumer(t, "sub");
            wants(r, "2", "3", "4");
            r.close();
            wants(s.createDurableConsumer(t, "sub"));
        }
    }

    private static void changedIdle() throws Exception {
        try (Connection c = connect(newName())) {
            Session s = session(c);
            Topic t = topic();
            Topic u = topic();
            MessageConsumer r = s.createDurableSubscriber(t, "sub");
            publish(t, "red 0");
            r.close();
            r = s.createDurableSubscriber(t, "sub", "kind = 'red'", false);
            publish(t, "blue 1", "red 2");
            wants(r, "red 2");
            r.close();
            r = s.createDurableSubscriber(t, "sub", "kind = 'red'", true);
            send(s, t, "red own");
            publish(t, "red 3");
            wants(r, "red 3");
            r.close();
            publish(t, "red 4");
            r = s.createDurableSubscriber(u, "sub", "kind = 'red'", true);
            publish(t, "red 5");
            publish(u, "red 6");
            wants(r, "red 6");
        }
    }

    private static void changedActive() throws Exception {
        try (Connection c = connect(null); Connection d = connect(null); Connection e = connect(newName())) {
            Topic t = topic();
            String name = newName();
            MessageConsumer r = session(c).createSharedDurableConsumer(t, name);
            Session s = session(d);
            refused(() -> s.createSharedDurableConsumer(t, name, "kind = 'red'"), "resource-locked");
            refused(() -> s.createSharedDurableConsumer(topic(), name), "resource-locked");
            Session own = session(e);
            MessageConsumer q = own.createDurableConsumer(t, "sub");
            refused(() -> own.createDurableConsumer(t, "sub", "kind = 'red'", false), "");
            refused(() -> own.createSharedDurableConsumer(t, "sub"), "");
            publish(t, "1");
            wants(r, "1");
            wants(q, "1");
            r.close();
            MessageConsumer changed = s.createSharedDurableConsumer(t, name, "kind = 'red'");
            publish(t, "blue 2", "red 3");
            wants(changed, "red 3");
        }
    }

    private static void unsubscribe() throws Exception {
        String id = newName();
        Topic t = topic();
        try (Connection c = connect(id)) {
            Session s = session(c);
            unknown(s, "sub");
            MessageConsumer r = s.createDurableConsumer(t, "sub");
            refused(() -> unsubscribed(s, "sub"), "");
            r.close();
            MessageConsumer shared = s.createSharedDurableConsumer(t, "shared");
            shared.close();
            publish(t, "1");
        }
        try (Connection c = connect(id); Connection other = connect(newName()); Connection none = connect(null)) {
            unknown(session(other), "sub");
            unknown(session(none), "sub");
            Session s = session(c);
            s.unsubscribe("sub");
            s.unsubscribe("shared");
            unknown(s, "sub");
            unknown(s, "shared");
            wants(s.createDurableConsumer(t, "sub"));
            wants(s.createSharedDurableConsumer(t, "shared"));
        }
    }

    private static void unknown(Session s, String name) throws JMSException {
        try {
            s.unsubscribe(name);
        } catch (InvalidDestinationException e) {
            check(e.getMessage().contains("not-found"), e.toString());
            return;
        }
        throw new AssertionError(name + " was found");
    }

    private static Object unsubscribed(Session s, String name) throws JMSException {
        s.unsubscribe(name);
        return name + " ended";
    }

    private static void unsubscribeGlobal() throws Exception {
        Topic t = topic();
        String name = newName();
        try (Connection c = connect(null); Connection d = connect(null)) {
            Session s = session(c);
            Session other = session(d);
            MessageConsumer r = s.createSharedDurableConsumer(t, name);
            refused(() -> unsubscribed(other, name), "resource-locked");
            r.close();
            publish(t, "1");
            other.unsubscribe(name);
            unknown(s, name);
            wants(s.createSharedDurableConsumer(t, name));
        }
    }

    private static void sharedDurable(String id) throws Exception {
        Topic t = topic();
        String name = newName();
        try (Connection c = connect(id)) {
            Session s = session(c);
            List<MessageConsumer> three = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                three.add(session(c).createSharedDurableConsumer(t, name));
            }
            MessageConsumer whole = s.createConsumer(t);
            publish(t, some(60));
            share(three, 60);
            wants(whole, some(60));
            three.get(1).close();
            publish(t, some(5));
            share(List.of(three.get(0), three.get(2)), 5);
            MessageConsumer fourth = s.createSharedDurableConsumer(t, name);
            three.get(0).close();
            three.get(2).close();
            publish(t, "1", "2");
            wants(fourth, "1", "2");
        }
        publish(t, "3", "4");
        try (Connection c = connect(id)) {
            wants(session(c).createSharedDurableConsumer(t, name), "3", "4");
        }
    }

    private static void global() throws Exception {
        Topic t = topic();
        String name = newName();
        try (Connection c = connect(null); Connection d = connect(null); Connection e = connect(newName())) {
            MessageConsumer a = session(c).createSharedDurableConsumer(t, name);
            MessageConsumer b = session(d).createSharedDurableConsumer(t, name);
            MessageConsumer own = session(e).createSharedDurableConsumer(t, name);
            publish(t, some(40));
            share(List.of(a, b), 40);
            wants(own, some(40));
            c.close();
            publish(t, "1");
            wants(b, "1");
        }
    }

    private static void sharedVolatile(String id) throws Exception {
        Topic t = topic();
        String name = newName();
        try (Connection c = connect(id)) {
            Session s = session(c);
            MessageConsumer a = s.createSharedConsumer(t, name);
            MessageConsumer b = session(c).createSharedConsumer(t, name);
            publish(t, some(40));
            share(List.of(a, b), 40);
            a.close();
            publish(t, "1");
            wants(b, "1");
            b.close();
            publish(t, "2");
            MessageConsumer again = s.createSharedConsumer(t, name);
            publish(t, "3");
            wants(again, "3");
            MessageConsumer durable = s.createSharedDurableConsumer(t, name); // of the same name, another subscription
            publish(t, "4");
            wants(again, "4");
            wants(durable, "4");
        }
        publish(t, "5");
        try (Connection c = connect(id)) {
            wants(session(c).createSharedConsumer(t, name));
        }
    }

    private static void others() throws Exception {
        Topic t = topic();
        try (Connection c = connect(newName()); Connection d = connect(newName())) {
            MessageConsumer a = session(c).createDurableConsumer(t, "sub");
            MessageConsumer b = session(d).createDurableConsumer(t, "sub", "kind <> '1'", false);
            publish(t, "1", "2");
            wants(a, "1", "2");
            wants(b, "2");
        }
    }

    private static void transacted() throws Exception {
        Topic t = topic();
        String id = newName();
        try (Connection c = connect(id)) {
            Session tx = newTx(c);
            MessageConsumer plain = tx.createConsumer(t);
            MessageConsumer durable = tx.createDurableConsumer(t, "sub");
            MessageConsumer whole = session(c).createConsumer(t);
            publish(t, "1", "2");
            wants(plain, "1", "2");
            wants(durable, "1", "2");
            tx.rollback();
            wants(plain, 2, "1", "2");
            wants(durable, 2, "1", "2");
            tx.commit();
            wants(plain);
            wants(durable);
            wants(whole, "1", "2");
            publish(t, "3");
            wants(durable, "3"); // and never commits
        }
        try (Connection c = connect(id)) {
            wants(session(c).createDurableConsumer(t, "sub"), 2, "3");
        }
    }

    private static void transactedSends() throws Exception {
        Topic t = topic();
        try (Connection c = connect(null); Connection d = connect(null)) {
            Session s = session(d);
            MessageConsumer a = s.createConsumer(t);
            MessageConsumer b = s.createSharedDurableConsumer(t, newName());
            Session tx = newTx(c);
            send(tx, t, "never");
            tx.rollback();
            send(tx, t, "1", "2");
            wants(a);
            tx.commit();
            wants(a, "1", "2");
            wants(b, "1", "2");
        }
    }
}
