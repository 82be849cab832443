package oncemq;

import jakarta.jms.*;
import java.util.UUID;

/**
 * Names a JMS program's transactions by a token and asks what became of them (contract C4), by hand:
 * what it takes is a producer to $oncemq.tx in the transacted session, and one request and reply on
 * $oncemq.outcome. The number of operations guards against acknowledgements that the JMS client
 * swallows after a failover.
 *
 * Not safe for use by several threads, like the JMS sessions that it holds.
 */
final class Outcomes implements AutoCloseable {
    private final Connection connection;
    private final String token;
    private final String replyQueue = "reply." + UUID.randomUUID();
    private Session session;
    private MessageProducer asker;
    private MessageConsumer answers;
    private long number;

    Outcomes(Connection connection, long deadlineMillis) throws JMSException {
        this.connection = connection;
        this.token = request(null, deadlineMillis);
    }

    /** The name of the next transaction: token/n. Every try of a transaction takes a new one. */
    String next() {
        return token + "/" + ++number;
    }

    /** Sends the name, with the number of operations, as the transaction's last send. */
    static void name(Session transacted, MessageProducer txNames, String name, int operations) throws JMSException {
        txNames.send(transacted.createTextMessage(name + "/" + operations));
    }

    /** "committed" or "rolled-back": decides an undecided transaction, so that the answer stays true. */
    String outcome(String name, long deadlineMillis) throws JMSException {
        return request(name, deadlineMillis);
    }

    private String request(String name, long deadlineMillis) throws JMSException {
        long end = System.currentTimeMillis() + deadlineMillis;
        JMSException last = new JMSException("no answer from $oncemq.outcome within " + deadlineMillis + " ms");
        while (System.currentTimeMillis() < end) {
            try {
                String answer = ask(name);
                if (answer != null) {
                    return answer;
                }
            } catch (JMSException e) {
                last = e;
            }
            closeSession();
        }
        throw last;
    }

    private String ask(String name) throws JMSException {
        if (session == null) {
            session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            asker = session.createProducer(session.createQueue("$oncemq.outcome"));
            answers = session.createConsumer(session.createQueue(replyQueue));
        }
        Message question = session.createMessage();
        if (name == null) {
            question.setBooleanProperty("token", true);
        } else {
            question.setStringProperty("tx", name);
            question.setBooleanProperty("decide", true);
        }
        question.setJMSReplyTo(session.createQueue(replyQueue));
        asker.send(question);
        for (Message m; (m = answers.receive(3000)) != null; ) {
            if (!question.getJMSMessageID().equals(m.getJMSCorrelationID())) {
                continue; // the answer to an earlier try
            }
            if (m.getStringProperty("error") != null) {
                throw new JMSException("outcome of " + name + ": " + m.getStringProperty("error") + ": " + m.getStringProperty("description"));
            }
            return name == null ? m.getBody(String.class) : m.getStringProperty("outcome");
        }
        return null;
    }

    private void closeSession() {
        try {
            if (session != null) {
                session.close();
            }
        } catch (JMSException e) {
            // It is given up in any case; the next try opens another.
        }
        session = null;
    }

    @Override
    public void close() {
        closeSession();
    }
}
