import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A member of a group by DefaultLitePullConsumer, for as long as one command lasts. */
final class LitePulling {
    /**
     * {"names", "group", "topic", "tags", "count", "timeout_ms"}: joins, polls `count` messages or until the time is over,
     * commits, leaves. Answers their bodies.
     */
    static Map<String, ?> pull(JSONObject command) throws Exception {
        DefaultLitePullConsumer consumer =
            new DefaultLitePullConsumer(command.getString("group"), Credentials.hook(command));
        consumer.setNamesrvAddr(command.getString("names"));
        consumer.setMqClientApiTimeout(60_000);
        consumer.setInstanceName("lite-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.subscribe(command.getString("topic"), command.getString("tags"));
        consumer.start();
        List<String> bodies = new ArrayList<>();
        try {
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(command.getLongValue("timeout_ms"));
            while (bodies.size() < command.getIntValue("count") && System.nanoTime() < deadline) {
                for (MessageExt message : consumer.poll(200)) {
                    bodies.add(Base64.getEncoder().encodeToString(message.getBody()));
                }
            }
            consumer.commit();
        } finally {
            consumer.shutdown();
        }
        return Map.of("bodies", bodies);
    }

    private LitePulling() {}
}
