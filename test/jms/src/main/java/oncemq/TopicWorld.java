package oncemq;

import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** What the stories of topics share: connections to the nodes in turn, a publisher, and what they want of consumers. */
abstract class TopicWorld {
    static final long MILLIS = 20_000;

    interface Story {
        void run() throws Exception;
    }

    private static String[] nodes;
    private static int connections;
    static Session publisher;
    private static int passed;
    private static int failed;

    /** The publisher's connection; the others begin at the nodes of the failover URI in turn. */
    static Connection open(String urls) throws JMSException {
        nodes = urls.substring(urls.indexOf('(') + 1, urls.lastIndexOf(')')).split(",");
        Connection c = connect(null);
        publisher = session(c);
        return c;
    }

    static void end() {
        System.out.printf("%d passed, %d failed%n", passed, failed);
        System.exit(failed == 0 ? 0 : 1);
    }

    static void story(String name, Story s) {
        long start = System.nanoTime();
        try {
            s.run();
            passed++;
            System.out.println("ok   " + name + " " + (System.nanoTime() - start) / 1_000_000 + " ms");
        } catch (Exception | AssertionError e) {
            failed++;
            System.out.println("FAIL " + name + ": " + e);
            e.printStackTrace(System.out);
        }
    }

    static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    static String newName() {
        return "jms." + UUID.randomUUID();
    }

    /** A started connection, at the next node. */
    static Connection connect(String clientID) throws JMSException {
        List<String> list = new ArrayList<>(Arrays.asList(nodes));
        Collections.rotate(list, connections++);
        Connection c = new JmsConnectionFactory("failover:(" + String.join(",", list) + ")").createConnection();
        if (clientID != null) {
            c.setClientID(clientID);
        }
        c.start();
        return c;
    }

    static Session session(Connection c) throws JMSException {
        return c.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static Session newTx(Connection c) throws JMSException {
        return c.createSession(true, Session.SESSION_TRANSACTED);
    }

    static Topic topic() throws JMSException {
        return publisher.createTopic(newName());
    }

    static void send(Session s, Destination d, String... texts) throws JMSException {
        MessageProducer p = s.createProducer(d);
        for (String text : texts) {
            TextMessage m = s.createTextMessage(text);
            m.setStringProperty("kind", text.split(" ")[0]);
            p.send(m);
        }
        p.close();
    }

    static void publish(Topic t, String... texts) throws JMSException {
        send(publisher, t, texts);
    }

    /** These come, for the first time, and nothing else does. */
    static void wants(MessageConsumer c, String... texts) throws JMSException {
        wants(c, 1, texts);
    }

    static void wants(MessageConsumer c, int count, String... texts) throws JMSException {
        for (String text : texts) {
            TextMessage m = (TextMessage) c.receive(MILLIS);
            check(m != null && m.getText().equals(text), text + " is wanted, not " + (m == null ? null : m.getText()));
            check(m.getIntProperty("JMSXDeliveryCount") == count && m.getJMSRedelivered() == count > 1,
                    text + " has the delivery count " + m.getIntProperty("JMSXDeliveryCount"));
        }
        TextMessage m = (TextMessage) c.receiveNoWait();
        check(m == null, "nothing is wanted, not " + (m == null ? null : m.getText()));
    }

    /** Consumers get these together, each once. */
    static void share(List<MessageConsumer> consumers, int messages) throws JMSException {
        List<String> got = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MILLIS);
        while (got.size() < messages && System.nanoTime() < end) {
            for (MessageConsumer c : consumers) {
                TextMessage m = (TextMessage) c.receive(20);
                if (m != null) {
                    got.add(m.getText());
                }
            }
        }
        for (MessageConsumer c : consumers) {
            check(c.receiveNoWait() == null, "one more");
        }
        Collections.sort(got);
        check(got.equals(numbers(messages)), "they got " + got);
    }

    static List<String> numbers(int n) {
        List<String> list = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            list.add(String.format("%03d", i));
        }
        return list;
    }

    static String[] some(int n) {
        return numbers(n).toArray(new String[0]);
    }

    interface Call {
        Object call() throws Exception;
    }

    static void refused(Call call, String condition) throws Exception {
        Object given;
        try {
            given = call.call();
        } catch (JMSException e) {
            check(e.getMessage().contains(condition), condition + " is wanted: " + e);
            return;
        }
        throw new AssertionError(condition + " is wanted, not " + given);
    }
}
