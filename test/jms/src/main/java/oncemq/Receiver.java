package oncemq;

import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * The receiver of the seed pair (rule S7) on Qpid JMS: checks counter == commitCounter+1, commits, and
 * stops hard, with exit status 1, on a gap or a repeat. It ends when nothing has come for 10 s after its
 * duration, so that it reads all that the sender committed.
 */
public final class Receiver {
    private static final long RESOLVE_MILLIS = 60_000;

    public static void main(String[] args) throws Exception {
        Flags flags = new Flags("receiver", args);
        long commitCounter = 0;
        long rolledBack = 0;
        long resolved = 0;
        try (Connection connection = new JmsConnectionFactory(flags.urls).createConnection()) {
            connection.start();
            try (Outcomes outcomes = new Outcomes(connection, RESOLVE_MILLIS)) {
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageConsumer consumer = session.createConsumer(session.createQueue(flags.queue));
                MessageProducer txNames = session.createProducer(session.createQueue("$oncemq.tx"));
                long end = System.nanoTime() + (long) (flags.durationSeconds * 1e9);
                long last = System.nanoTime();
                while (System.nanoTime() < end || System.nanoTime() - last < 10_000_000_000L) {
                    String name = outcomes.next();
                    long counter = 0;
                    boolean committed;
                    try {
                        Message m = consumer.receive(1000);
                        if (m == null) {
                            continue;
                        }
                        counter = m.getLongProperty("counter");
                        if (counter != commitCounter + 1) {
                            System.err.printf("receiver: got counter %d after %d committed (delivery %d): %s%n",
                                    counter, commitCounter, m.getIntProperty("JMSXDeliveryCount"),
                                    counter <= commitCounter ? "repeat" : "gap");
                            flags.report("receiver", commitCounter, rolledBack, resolved);
                            System.exit(1);
                        }
                        Outcomes.name(session, txNames, name, 1);
                        session.commit();
                        committed = true;
                    } catch (JMSException e) {
                        resolved++;
                        committed = outcomes.outcome(name, RESOLVE_MILLIS).equals("committed");
                        Sender.rollback(session);
                    }
                    last = System.nanoTime();
                    if (committed && counter > 0) {
                        commitCounter = counter;
                    } else {
                        rolledBack++;
                    }
                    if (flags.pauseMillis > 0) {
                        Thread.sleep(flags.pauseMillis);
                    }
                }
            }
        }
        flags.report("receiver", commitCounter, rolledBack, resolved);
    }
}
