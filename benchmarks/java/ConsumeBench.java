import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The peer: a DefaultMQPushConsumer whose listener counts and adds offsets, as our handler does.
 *
 * Arguments: name servers, group, topic, how many messages, pull size, listener batch, and `orderly` for a listener in order.
 * Prints one line of JSON when that many were handled and one when it was told to end and has left the group.
 */
public final class ConsumeBench {
    private static final AtomicLong HANDLED = new AtomicLong();
    private static final LongAdder OFFSETS = new LongAdder();
    private static volatile long first = 0;
    private static volatile long last = 0;

    public static void main(String[] arguments) throws Exception {
        long count = Long.parseLong(arguments[3]);
        DefaultMQPushConsumer consumer = Starting.patiently(() -> made(arguments, count));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.shutdown();
            tell("left");
        }));
    }

    private static DefaultMQPushConsumer made(String[] arguments, long count) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments[1]);
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(Integer.parseInt(arguments[4]));
        consumer.setConsumeMessageBatchMaxSize(Integer.parseInt(arguments[5]));
        subscribe(consumer, arguments[2]);
        if (arguments.length > 6 && arguments[6].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                handle(messages, count);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                handle(messages, count);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        return consumer;
    }

    private static void subscribe(DefaultMQPushConsumer consumer, String topic) {
        try {
            consumer.subscribe(topic, "*");
        } catch (MQClientException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void handle(List<MessageExt> messages, long count) {
        for (MessageExt message : messages) {
            OFFSETS.add(message.getQueueOffset());
        }
        long before = HANDLED.getAndAdd(messages.size());
        if (before == 0) {
            first = System.nanoTime();
        }
        if (before < count && before + messages.size() >= count) {
            last = System.nanoTime();
            tell("reached");
        }
    }

    private static void tell(String event) {
        System.out.printf(
            "{\"event\": \"%s\", \"handled\": %d, \"offsets\": %d, \"first_ns\": %d, \"last_ns\": %d}%n",
            event, HANDLED.get(), OFFSETS.sum(), first, last);
        System.out.flush();
    }

    private ConsumeBench() {}
}
