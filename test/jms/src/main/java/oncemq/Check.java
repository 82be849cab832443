package oncemq;

import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/**
 * An unmodified JMS program against a node: transacted and not, as an application would use them. Prints a
 * line a check, and "N passed, N failed" last; exit status 1 if one failed.
 */
public final class Check {
    interface Story {
        void run() throws Exception;
    }

    private static int passed;
    private static int failed;
    private static Connection connection;

    public static void main(String[] args) throws Exception {
        Flags flags = new Flags("check", args);
        try (Connection c = new JmsConnectionFactory(flags.urls).createConnection()) {
            connection = c;
            c.start();
            story("auto_acknowledge", Check::autoAcknowledge);
            story("client_acknowledge_and_recover", Check::clientAcknowledge);
            story("commit_makes_sends_visible", Check::commitMakesSendsVisible);
            story("rollback_discards_sends_and_returns_receipts_in_order", Check::rollback);
            story("rolled_back_message_is_redelivered", Check::redelivered);
            story("one_transaction_over_two_queues", Check::twoQueues);
            story("thousand_in_one_transaction", Check::thousand);
            story("message_types_and_properties", Check::types);
            story("receive_no_wait", Check::receiveNoWait);
            story("large_message", Check::large);
            story("named_transaction_outcome", Check::named);
            story("selector", Check::selector);
        }
        System.out.printf("%d passed, %d failed%n", passed, failed);
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void story(String name, Story s) {
        try {
            s.run();
            passed++;
            System.out.println("ok   " + name);
        } catch (Exception | AssertionError e) {
            failed++;
            System.out.println("FAIL " + name + ": " + e);
            e.printStackTrace(System.out);
        }
    }

    private static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    private static String name() {
        return "jms." + UUID.randomUUID();
    }

    private static void autoAcknowledge() throws JMSException {
        try (Session s = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Queue q = s.createQueue(name());
            MessageProducer p = s.createProducer(q);
            for (int i = 0; i < 100; i++) {
                p.send(s.createTextMessage("m" + i));
            }
            MessageConsumer c = s.createConsumer(q);
            for (int i = 0; i < 100; i++) {
                TextMessage m = (TextMessage) c.receive(10_000);
                check(m != null && m.getText().equals("m" + i) && !m.getJMSRedelivered(), "message " + i + ": " + m);
            }
            check(c.receive(200) == null, "one more");
        }
    }

    private static void clientAcknowledge() throws JMSException {
        Queue q;
        try (Session s = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE)) {
            q = s.createQueue(name());
            MessageProducer p = s.createProducer(q);
            p.send(s.createTextMessage("a"));
            p.send(s.createTextMessage("b"));
            MessageConsumer c = s.createConsumer(q);
            check(c.receive(10_000) != null, "a");
            c.receive(10_000).acknowledge();
            p.send(s.createTextMessage("c"));
            check(((TextMessage) c.receive(10_000)).getText().equals("c"), "c");
        }
        try (Session s = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            TextMessage m = (TextMessage) s.createConsumer(q).receive(10_000);
            check(m != null && m.getText().equals("c") && m.getJMSRedelivered(), "unacknowledged one comes again, redelivered: " + m);
        }
    }

    private static void commitMakesSendsVisible() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED);
             Session plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Queue q = tx.createQueue(name());
            MessageProducer p = tx.createProducer(q);
            MessageConsumer c = plain.createConsumer(q);
            p.send(tx.createTextMessage("x"));
            check(c.receive(300) == null, "visible before commit");
            tx.commit();
            check(c.receive(10_000) != null, "not visible after commit");
        }
    }

    private static void rollback() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue q = tx.createQueue(name());
            MessageProducer p = tx.createProducer(q);
            for (int i = 0; i < 5; i++) {
                p.send(tx.createTextMessage("m" + i));
            }
            tx.commit();
            MessageConsumer c = tx.createConsumer(q);
            check(c.receive(10_000) != null && c.receive(10_000) != null, "two");
            p.send(tx.createTextMessage("never"));
            tx.rollback();
            List<String> got = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                got.add(((TextMessage) c.receive(10_000)).getText());
            }
            check(got.equals(List.of("m0", "m1", "m2", "m3", "m4")), "order after rollback: " + got);
            check(c.receive(300) == null, "a rolled-back send is visible");
            tx.commit();
        }
    }

    private static void redelivered() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue q = tx.createQueue(name());
            tx.createProducer(q).send(tx.createTextMessage("x"));
            tx.commit();
            MessageConsumer c = tx.createConsumer(q);
            check(!c.receive(10_000).getJMSRedelivered(), "redelivered at first");
            tx.rollback();
            Message m = c.receive(10_000);
            check(m.getJMSRedelivered() && m.getIntProperty("JMSXDeliveryCount") == 2, "count " + m.getIntProperty("JMSXDeliveryCount"));
            tx.commit();
        }
    }

    private static void twoQueues() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue in = tx.createQueue(name());
            Queue out = tx.createQueue(name());
            MessageProducer toIn = tx.createProducer(in);
            MessageProducer toOut = tx.createProducer(out);
            toIn.send(tx.createTextMessage("order"));
            tx.commit();
            MessageConsumer fromIn = tx.createConsumer(in);
            MessageConsumer fromOut = tx.createConsumer(out);
            check(fromIn.receive(10_000) != null, "order");
            toOut.send(tx.createTextMessage("receipt"));
            tx.commit();
            check(((TextMessage) fromOut.receive(10_000)).getText().equals("receipt"), "receipt");
            tx.commit();
            check(fromIn.receive(300) == null && fromOut.receive(300) == null, "something is left");
        }
    }

    private static void thousand() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue q = tx.createQueue(name());
            MessageProducer p = tx.createProducer(q);
            for (int i = 0; i < 1000; i++) {
                p.send(tx.createTextMessage("m" + i));
            }
            tx.commit();
            MessageConsumer c = tx.createConsumer(q);
            for (int i = 0; i < 1000; i++) {
                TextMessage m = (TextMessage) c.receive(10_000);
                check(m != null && m.getText().equals("m" + i), "message " + i);
            }
            tx.commit();
        }
    }

    private static void types() throws JMSException {
        try (Session s = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Queue q = s.createQueue(name());
            MessageProducer p = s.createProducer(q);
            MessageConsumer c = s.createConsumer(q);
            MapMessage map = s.createMapMessage();
            map.setInt("i", 7);
            map.setStringProperty("p", "v");
            map.setJMSCorrelationID("corr");
            map.setJMSType("ty");
            p.send(map);
            MapMessage gotMap = (MapMessage) c.receive(10_000);
            check(gotMap.getInt("i") == 7 && gotMap.getStringProperty("p").equals("v")
                    && gotMap.getJMSCorrelationID().equals("corr") && gotMap.getJMSType().equals("ty")
                    && gotMap.getJMSMessageID().equals(map.getJMSMessageID()) && gotMap.getJMSDestination().equals(q), "map");
            BytesMessage bytes = s.createBytesMessage();
            bytes.writeBytes(new byte[]{1, 2, 3});
            p.send(bytes);
            check(((BytesMessage) c.receive(10_000)).getBodyLength() == 3, "bytes");
            StreamMessage stream = s.createStreamMessage();
            stream.writeInt(1);
            stream.writeString("two");
            p.send(stream);
            StreamMessage gotStream = (StreamMessage) c.receive(10_000);
            check(gotStream.readInt() == 1 && gotStream.readString().equals("two"), "stream");
            p.send(s.createObjectMessage("object"));
            check(c.receive(10_000) instanceof ObjectMessage, "object");
            p.send(s.createMessage());
            check(c.receive(10_000) != null, "no body");
        }
    }

    private static void receiveNoWait() throws JMSException {
        try (Session s = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Queue q = s.createQueue(name());
            MessageConsumer c = s.createConsumer(q);
            check(c.receiveNoWait() == null, "empty");
            s.createProducer(q).send(s.createTextMessage("x"));
            check(c.receiveNoWait() != null, "a stored message isn't there");
            check(c.receiveNoWait() == null, "empty again");
        }
    }

    private static void large() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED)) {
            Queue q = tx.createQueue(name());
            byte[] body = new byte[3 << 20];
            for (int i = 0; i < body.length; i++) {
                body[i] = (byte) (i * 31);
            }
            BytesMessage m = tx.createBytesMessage();
            m.writeBytes(body);
            tx.createProducer(q).send(m);
            tx.commit();
            BytesMessage got = (BytesMessage) tx.createConsumer(q).receive(20_000);
            byte[] back = new byte[body.length];
            check(got != null && got.readBytes(back) == body.length && java.util.Arrays.equals(body, back), "3 MiB");
            tx.commit();
        }
    }

    private static void named() throws JMSException {
        try (Session tx = connection.createSession(true, Session.SESSION_TRANSACTED); Outcomes outcomes = new Outcomes(connection, 10_000)) {
            Queue q = tx.createQueue(name());
            MessageProducer p = tx.createProducer(q);
            MessageProducer names = tx.createProducer(tx.createQueue("$oncemq.tx"));
            String first = outcomes.next();
            p.send(tx.createTextMessage("x"));
            Outcomes.name(tx, names, first, 1);
            tx.commit();
            check(outcomes.outcome(first, 10_000).equals("committed"), "first");
            String wrong = outcomes.next();
            p.send(tx.createTextMessage("y"));
            Outcomes.name(tx, names, wrong, 2);
            try {
                tx.commit();
                throw new AssertionError("a commit with a wrong count succeeded");
            } catch (TransactionRolledBackException e) {
                check(outcomes.outcome(wrong, 10_000).equals("rolled-back"), "wrong count");
            }
            check(outcomes.outcome(outcomes.next(), 10_000).equals("rolled-back"), "never used: decided by asking");
        }
    }

    private static void selector() throws JMSException {
        try (Session s = connection.createSession(false, Session.AUTO_ACKNOWLEDGE)) {
            Queue q = s.createQueue(name());
            MessageProducer p = s.createProducer(q);
            for (int i = 0; i < 6; i++) {
                TextMessage m = s.createTextMessage("" + i);
                m.setIntProperty("n", i);
                m.setStringProperty("region", i % 2 == 0 ? "EU" : "US");
                p.send(m);
            }
            MessageConsumer some = s.createConsumer(q, "n > 1 AND region = 'EU'");
            for (String want : new String[] {"2", "4"}) {
                TextMessage m = (TextMessage) some.receive(10_000);
                check(m != null && m.getText().equals(want), want + ": " + m);
            }
            check(some.receiveNoWait() == null, "one that doesn't fit");
            some.close();
            MessageConsumer all = s.createConsumer(q);
            for (String want : new String[] {"0", "1", "3", "5"}) {
                TextMessage m = (TextMessage) all.receive(10_000);
                check(m != null && m.getText().equals(want), want + ": " + m);
            }
            try {
                s.createConsumer(q, "n >");
                throw new AssertionError("an invalid selector was taken");
            } catch (JMSException e) {
                check(e instanceof jakarta.jms.InvalidSelectorException || e.getMessage().contains("invalid-field"), e.toString());
            }
        }
    }
}
