package oncemq;

import jakarta.jms.*;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * The sender of the seed pair (rule S7) on Qpid JMS: numbers its messages and commits each. A commit
 * that ends with an exception is resolved by its token, since Qpid JMS reports a lost reply as rolled back.
 */
public final class Sender {
    private static final long RESOLVE_MILLIS = 60_000;

    public static void main(String[] args) throws Exception {
        Flags flags = new Flags("sender", args);
        long commitCounter = 0;
        long rolledBack = 0;
        long resolved = 0;
        try (Connection connection = new JmsConnectionFactory(flags.urls).createConnection()) {
            connection.start();
            try (Outcomes outcomes = new Outcomes(connection, RESOLVE_MILLIS)) {
                Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
                MessageProducer producer = session.createProducer(session.createQueue(flags.queue));
                MessageProducer txNames = session.createProducer(session.createQueue("$oncemq.tx"));
                long end = System.nanoTime() + (long) (flags.durationSeconds * 1e9);
                while (System.nanoTime() < end) {
                    long counter = commitCounter + 1;
                    String name = outcomes.next();
                    boolean committed;
                    try {
                        Message m = session.createTextMessage("message " + counter);
                        m.setLongProperty("counter", counter);
                        producer.send(m);
                        Outcomes.name(session, txNames, name, 1);
                        session.commit();
                        committed = true;
                    } catch (JMSException e) {
                        resolved++;
                        committed = outcomes.outcome(name, RESOLVE_MILLIS).equals("committed");
                        rollback(session);
                    }
                    if (committed) {
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
        flags.report("sender", commitCounter, rolledBack, resolved);
    }

    /** S7: after another error than a rollback the session is rolled back too. */
    static void rollback(Session session) {
        try {
            session.rollback();
        } catch (JMSException e) {
            System.err.println("rollback: " + e.getMessage());
        }
    }
}
