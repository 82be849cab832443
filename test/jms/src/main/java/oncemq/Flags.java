package oncemq;

import java.util.HashMap;
import java.util.Map;

/** The flags that both programs of the seed pair take. */
final class Flags {
    final String urls;
    final String queue;
    final double durationSeconds;
    final long pauseMillis;
    final boolean json;

    Flags(String program, String[] args) {
        Map<String, String> given = new HashMap<>();
        boolean wantJson = false;
        for (int i = 0; i < args.length; i++) {
            if (args[i].equals("--json")) {
                wantJson = true;
            } else if (args[i].startsWith("--") && i + 1 < args.length) {
                given.put(args[i].substring(2), args[++i]);
            } else {
                usage(program, args[i]);
            }
        }
        urls = given.getOrDefault("urls", "failover:(amqp://127.0.0.1:5672)");
        queue = given.getOrDefault("queue", "seed");
        durationSeconds = Double.parseDouble(given.getOrDefault("duration", "60"));
        pauseMillis = Long.parseLong(given.getOrDefault("pause", "0"));
        json = wantJson;
    }

    private static void usage(String program, String word) {
        System.err.println(program + ": unknown argument " + word
                + "; want --urls 'failover:(amqp://…,amqp://…)' --queue NAME --duration SECONDS --pause MILLIS --json");
        System.exit(2);
    }

    /** The last line of output, as the Go pair prints it. */
    void report(String program, long committed, long rolledBack, long resolved) {
        if (json) {
            System.out.printf("{\"committed\":%d,\"rolled_back\":%d,\"resolved\":%d,\"counter\":%d}%n",
                    committed, rolledBack, resolved, committed);
        } else {
            System.out.printf("%s: %d committed, %d rolled back, %d resolved by token%n", program, committed, rolledBack, resolved);
        }
    }
}
