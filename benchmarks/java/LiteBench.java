import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The peer that polls: a DefaultLitePullConsumer with its own defaults, whose caller counts.
 *
 * Arguments: name servers, group, topic, how many messages. Prints one line of JSON when that many were polled.
 */
public final class LiteBench {
    public static void main(String[] arguments) throws Exception {
        long count = Long.parseLong(arguments[3]);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments[2], "*");
        Runtime.getRuntime().addShutdownHook(new Thread(consumer::shutdown));
        consumer.start();
        long handled = 0;
        long offsets = 0;
        long first = 0;
        while (true) {
            List<MessageExt> messages = consumer.poll();
            for (MessageExt message : messages) {
                offsets += message.getQueueOffset();
            }
            if (handled == 0 && !messages.isEmpty()) {
                first = System.nanoTime();
            }
            long before = handled;
            handled += messages.size();
            if (before < count && handled >= count) {
                System.out.printf(
                    "{\"event\": \"reached\", \"handled\": %d, \"offsets\": %d, \"first_ns\": %d, \"last_ns\": %d}%n",
                    handled, offsets, first, System.nanoTime());
                System.out.flush();
            }
        }
    }

    private LiteBench() {}
}
