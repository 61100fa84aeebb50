import java.util.function.Supplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/** Starts a consumer that on a busy machine finds its name server's connection timed out at first, which Java's client fails of. */
final class Starting {
    private static final int ATTEMPTS = 5;

    static DefaultMQPushConsumer patiently(Supplier<DefaultMQPushConsumer> made) throws Exception {
        for (int attempt = 1;; attempt++) {
            DefaultMQPushConsumer consumer = made.get();
            try {
                consumer.start();
                return consumer;
            } catch (Exception error) {
                if (attempt == ATTEMPTS) {
                    throw error;
                }
                consumer.shutdown();
                Thread.sleep(1_000);
            }
        }
    }

    private Starting() {}
}
