package oncemq;

import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsConnectionListener;
import org.apache.qpid.jms.message.JmsInboundMessageDispatch;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.logging.LogManager;

/**
 * JMS programs that do what the standard input says, a call a line, so that a test can let a fault happen between two
 * calls, or within one. Each has one connection.
 *
 * <pre>ID PROGRAM/SESSION VERB [WORD…]</pre> is a call; each session has a thread of its own, so that one may wait in a
 * call while others go on. <pre>ID ok [WORD…]</pre> or <pre>ID error CLASS MESSAGE</pre> answers it. What happens to a
 * connection and its links is told by <pre>event PROGRAM NAME [DETAIL]</pre>. All end with the standard input.
 */
public final class Remote {
    private static final long RESOLVE_MILLIS = 60_000;

    private final String name;
    private final Map<String, Work> sessions = new HashMap<>();
    private volatile Connection connection;

    private Remote(String name) {
        this.name = name;
    }

    public static void main(String[] args) throws Exception {
        LogManager.getLogManager().reset(); // Netty logs each connection that is reset while it is made
        Map<String, Remote> programs = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String[] whose = words[1].split("/");
            Remote remote = programs.computeIfAbsent(whose[0], Remote::new);
            Work work = remote.sessions.computeIfAbsent(whose[1], session -> remote.new Work());
            work.thread.execute(() -> answer(work, words));
        }
        System.exit(0);
    }

    private static void answer(Work work, String[] words) {
        String result;
        try {
            result = ("ok " + work.call(words[2], Arrays.copyOfRange(words, 3, words.length))).trim();
        } catch (Exception e) {
            result = "error " + e.getClass().getSimpleName() + " " + e.getMessage();
        }
        say(words[0] + " " + result);
    }

    private static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    /** What is done on one session, by its thread. */
    private final class Work {
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final Map<String, MessageProducer> producers = new HashMap<>();
        private final Map<String, MessageConsumer> consumers = new HashMap<>();
        private Session session;
        private Message last;
        private Outcomes outcomes;

        String call(String verb, String[] args) throws Exception {
            switch (verb) {
                case "connect":
                    connect(args[0]);
                    return "";
                case "close":
                    connection.close();
                    return "";
                case "session":
                    session = connection.createSession(mode(args[0]));
                    return "";
                case "send":
                    return send(args[0], args[1], args.length > 2 ? Integer.parseInt(args[2]) : 0);
                case "receive":
                    return receive(args[0], Long.parseLong(args[1]));
                case "acknowledge":
                    last.acknowledge();
                    return "";
                case "commit":
                    session.commit();
                    return "";
                case "rollback":
                    session.rollback();
                    return "";
                case "next": // a name for the next transaction
                    if (outcomes == null) {
                        outcomes = new Outcomes(connection, RESOLVE_MILLIS);
                    }
                    return outcomes.next();
                case "outcome":
                    return outcomes.outcome(args[0], RESOLVE_MILLIS);
                default:
                    throw new IllegalArgumentException("no such verb: " + verb);
            }
        }

        /** Sends a persistent message; what fills it up to a size is not part of its text. Answers its id. */
        private String send(String queue, String text, int size) throws JMSException {
            Message m = session.createTextMessage(text + ".".repeat(Math.max(0, size - text.length())));
            producer(queue).send(m);
            return m.getJMSMessageID();
        }

        private MessageProducer producer(String queue) throws JMSException {
            if (!producers.containsKey(queue)) {
                producers.put(queue, session.createProducer(session.createQueue(queue)));
            }
            return producers.get(queue);
        }

        /** Answers text and delivery count, or nothing where no message came; 0 ms only attach the consumer. */
        private String receive(String queue, long millis) throws JMSException {
            if (!consumers.containsKey(queue)) {
                consumers.put(queue, session.createConsumer(session.createQueue(queue)));
            }
            Message m = millis == 0 ? null : consumers.get(queue).receive(millis);
            if (m == null) {
                return "";
            }
            last = m;
            int count = m.getIntProperty("JMSXDeliveryCount");
            if (m.getJMSRedelivered() != count > 1) {
                throw new JMSException("redelivered is " + m.getJMSRedelivered() + " with a count of " + count);
            }
            return ((TextMessage) m).getText().replace(".", "") + " " + count;
        }
    }

    private static int mode(String word) {
        switch (word) {
            case "transacted":
                return Session.SESSION_TRANSACTED;
            case "client":
                return Session.CLIENT_ACKNOWLEDGE;
            case "auto":
                return Session.AUTO_ACKNOWLEDGE;
            default:
                throw new IllegalArgumentException("no such mode: " + word);
        }
    }

    private void connect(String uri) throws JMSException {
        Connection c = new JmsConnectionFactory(uri).createConnection();
        c.setExceptionListener(e -> event("exception", e));
        ((JmsConnection) c).addConnectionListener(new Events());
        c.start();
        connection = c;
    }

    private void event(String what, Object detail) {
        say("event " + name + " " + what + " " + detail);
    }

    private final class Events implements JmsConnectionListener {
        @Override
        public void onConnectionEstablished(URI uri) {
            event("established", uri);
        }

        @Override
        public void onConnectionFailure(Throwable error) {
            event("failed", error);
        }

        @Override
        public void onConnectionInterrupted(URI uri) {
            event("interrupted", uri);
        }

        @Override
        public void onConnectionRestored(URI uri) {
            event("restored", uri);
        }

        @Override
        public void onInboundMessage(JmsInboundMessageDispatch envelope) {
        }

        @Override
        public void onSessionClosed(Session session, Throwable error) {
            event("closed session", error);
        }

        @Override
        public void onConsumerClosed(MessageConsumer consumer, Throwable error) {
            event("closed consumer", error);
        }

        @Override
        public void onProducerClosed(MessageProducer producer, Throwable error) {
            event("closed producer", error);
        }
    }
}
