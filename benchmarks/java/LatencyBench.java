import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * The peer of `latency_handler.py`: a DefaultMQPushConsumer that notes how long after its sending each message came.
 *
 * Arguments: name servers, group, topic, how many messages, a file. The file gets the number of messages that came, and when
 * that is all of them, each one's nanoseconds by its number, as longs of eight bytes.
 */
public final class LatencyBench {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        Path file = Path.of(arguments[4]);
        long[] taken = new long[count];
        AtomicInteger handled = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            String body = new String(messages.get(0).getBody(), 0, 32, StandardCharsets.US_ASCII);
            int number = Integer.parseInt(body.substring(0, 11).trim());
            if (number < 0) {
                System.out.println("here " + -number);
            } else {
                taken[number] = now - Long.parseLong(body.substring(12, 32).trim());
                if (handled.incrementAndGet() == count) {
                    write(file, taken);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        consumer.start();
    }

    private static void write(Path file, long[] taken) {
        ByteBuffer bytes = ByteBuffer.allocate(8 * taken.length).order(java.nio.ByteOrder.LITTLE_ENDIAN);
        bytes.asLongBuffer().put(taken);
        try {
            Path made = Path.of(file + ".made");
            Files.write(made, bytes.array());
            Files.move(made, file);
        } catch (IOException error) {
            throw new RuntimeException(error);
        }
    }

    private LatencyBench() {}
}
