import com.alibaba.fastjson2.JSONObject;
import java.util.Map;
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

    private Asking() {}
}
