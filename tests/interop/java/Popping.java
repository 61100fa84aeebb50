import com.alibaba.fastjson2.JSONObject;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.PopCallback;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/**
 * Messages popped and never acknowledged. After the invisible time the broker puts each into %RETRY%group_topic: the one way
 * to a topic of more than 127 characters on a stock broker, which refuses such names in every request of a client.
 */
final class Popping {
    /** {"names", "group", "topic", "broker", "count", "invisible_ms"}: how many messages one request popped. */
    static Map<String, ?> pop(JSONObject command) throws Exception {
        MQClientInstance client = Sending.producer(command).getDefaultMQProducerImpl().getMqClientFactory();
        String broker = command.getString("broker");
        client.updateTopicRouteInfoFromNameServer(command.getString("topic"));
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(command.getString("group"));
        header.setTopic(command.getString("topic"));
        header.setQueueId(-1);
        header.setMaxMsgNums(command.getIntValue("count"));
        header.setInvisibleTime(command.getLongValue("invisible_ms"));
        header.setBornTime(System.currentTimeMillis());
        header.setPollTime(5_000);
        header.setInitMode(0);
        header.setBrokerName(broker);
        CompletableFuture<PopResult> popped = new CompletableFuture<>();
        client.getMQClientAPIImpl().popMessageAsync(
            broker, client.findBrokerAddressInPublish(broker), header, 10_000, new PopCallback() {
                @Override
                public void onSuccess(PopResult result) {
                    popped.complete(result);
                }

                @Override
                public void onException(Throwable error) {
                    popped.completeExceptionally(error);
                }
            });
        PopResult result = popped.get(15, TimeUnit.SECONDS);
        return Map.of("count", result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size());
    }

    private Popping() {}
}
