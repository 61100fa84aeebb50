import com.alibaba.fastjson2.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/** What any client may ask a broker about a queue. */
final class Asking {
    /** {"names", "topic", "broker", "queue", "time_ms"}: the queue's first and next offset, and the offset at that time. */
    static Map<String, ?> offsets(JSONObject command) throws Exception {
        DefaultMQProducer client = Sending.producer(command);
        MessageQueue queue = new MessageQueue(
            command.getString("topic"), command.getString("broker"), command.getIntValue("queue"));
        return Map.of(
            "min", client.minOffset(queue),
            "max", client.maxOffset(queue),
            "at_time", client.searchOffset(queue, command.getLongValue("time_ms")));
    }

    /** {"names", "group", "topic", "broker", "queue", "user" or none}: one pull from the queue's first offset; its status. */
    static Map<String, ?> pull(JSONObject command) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(command.getString("group"), Credentials.hook(command));
        consumer.setNamesrvAddr(command.getString("names"));
        consumer.setInstanceName("pull-" + System.nanoTime());
        consumer.start();
        try {
            MessageQueue queue = new MessageQueue(
                command.getString("topic"), command.getString("broker"), command.getIntValue("queue"));
            return Map.of("status", consumer.pull(queue, "*", 0, 1, 10_000).getPullStatus().name());
        } finally {
            consumer.shutdown();
        }
    }

    private Asking() {}
}
