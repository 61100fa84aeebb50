import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Messages by DefaultMQProducer. The producers used last, one a name server, compression and user, stay open. */
final class Sending {
    private static final int OPEN_MAX = 3;
    private static final Map<String, DefaultMQProducer> PRODUCERS = new LinkedHashMap<>(8, 0.75f, true);
    private static int begun;

    /**
     * {"names", "topic", "how": "one" | "async" | "one-way" | "ordered" | "batch", "compress": "zlib" | "lz4" | "zstd",
     * "over": bytes, "queue": {"broker", "number"}, "messages": [{"body": base64, "tags", "keys", "properties", "level",
     * "delay_ms", "deliver_ms"}]}. Ordered: by SelectMessageQueueByHash of their keys.
     */
    static Map<String, ?> send(JSONObject command) throws Exception {
        DefaultMQProducer producer = producer(command);
        List<Message> messages = new ArrayList<>();
        JSONArray given = command.getJSONArray("messages");
        for (int i = 0; i < given.size(); i++) {
            messages.add(message(command.getString("topic"), given.getJSONObject(i)));
        }
        JSONObject place = command.getJSONObject("queue");
        MessageQueue queue = place == null
            ? null
            : new MessageQueue(command.getString("topic"), place.getString("broker"), place.getIntValue("number"));
        List<Map<String, Object>> results = new ArrayList<>();
        if ("batch".equals(command.getString("how"))) {
            results.add(told(queue == null ? producer.send(messages) : producer.send(messages, queue)));
            return Map.of("results", results);
        }
        for (Message message : messages) {
            switch (command.getString("how")) {
                case "one":
                    results.add(told(queue == null ? producer.send(message) : producer.send(message, queue)));
                    break;
                case "async":
                    results.add(told(async(producer, message)));
                    break;
                case "ordered":
                    results.add(told(producer.send(
                        message,
                        new SelectMessageQueueByHash(),
                        message.getKeys())));
                    break;
                case "one-way":
                    producer.sendOneway(message);
                    break;
                default:
                    throw new IllegalArgumentException("unknown way to send in " + command);
            }
        }
        return Map.of("results", results);
    }

    /** {"names", "topic", "count", "bytes", "batch"}: numbered messages m0, m1, ... padded to size, keys the same text. */
    static Map<String, ?> fill(JSONObject command) throws Exception {
        DefaultMQProducer producer = producer(command);
        int count = command.getIntValue("count");
        int size = command.getIntValue("bytes");
        int batch = command.getIntValue("batch");
        String template = command.getString("template");
        List<Message> waiting = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            byte[] body;
            if (template != null) {
                body = template.replace("@", Integer.toString(i)).getBytes(StandardCharsets.UTF_8);
            } else {
                body = new byte[size];
                Arrays.fill(body, (byte) 'x');
                byte[] name = ("m" + i + " ").getBytes(StandardCharsets.US_ASCII);
                System.arraycopy(name, 0, body, 0, Math.min(size, name.length));
            }
            waiting.add(new Message(command.getString("topic"), "fill", "m" + i, body));
            if (waiting.size() == batch || i == count - 1) {
                producer.send(waiting);
                waiting = new ArrayList<>();
            }
        }
        return Map.of("sent", count);
    }

    static DefaultMQProducer producer(JSONObject command) throws Exception {
        String names = command.getString("names");
        String compress = command.getString("compress");
        String over = command.getString("over");
        String namespace = command.getString("namespace");
        String key = names + " " + compress + " " + over + " " + namespace + " " + command.get("user") + " " + command.get("vip")
            + " " + command.get("traced");
        DefaultMQProducer producer = PRODUCERS.get(key);
        if (producer == null) {
            producer = new DefaultMQProducer("interop-producer", Credentials.hook(command));
            producer.setInstanceName("producer-" + begun++);
            producer.setNamesrvAddr(names);
            producer.setNamespace(namespace);
            producer.setVipChannelEnabled(command.getBooleanValue("vip"));
            producer.setEnableTrace(command.getBooleanValue("traced"));
            producer.setSendMsgTimeout(60_000);
            producer.setMqClientApiTimeout(60_000);  // 3 s as shipped: a busy machine's name server takes longer.
            if (compress != null) {
                producer.setCompressType(CompressionType.of(compress.toUpperCase()));
            }
            if (over != null) {
                producer.setCompressMsgBodyOverHowmuch(Integer.parseInt(over));
            }
            withoutBatching(producer);
            producer.start();
            PRODUCERS.put(key, producer);
            if (PRODUCERS.size() > OPEN_MAX) {  // the others' name servers are mostly gone, and yet asked each second
                String eldest = PRODUCERS.keySet().iterator().next();
                DefaultMQProducer ended = PRODUCERS.remove(eldest);
                new Thread(ended::shutdown, "end of " + eldest).start();
            }
        }
        return producer;
    }

    /** Two threads a producer wake up each 10 ms to look for batches to be made, also where nobody asked for any. */
    private static void withoutBatching(DefaultMQProducer producer) throws ReflectiveOperationException {
        Field accumulator = DefaultMQProducer.class.getDeclaredField("produceAccumulator");
        accumulator.setAccessible(true);
        accumulator.set(producer, null);
    }

    private static Message message(String topic, JSONObject given) {
        Message message = new Message(topic, Base64.getDecoder().decode(given.getString("body")));
        if (given.containsKey("tags")) {
            message.setTags(given.getString("tags"));
        }
        if (given.containsKey("keys")) {
            message.setKeys(given.getString("keys"));
        }
        if (given.containsKey("level")) {
            message.setDelayTimeLevel(given.getIntValue("level"));
        }
        if (given.containsKey("delay_ms")) {
            message.setDelayTimeMs(given.getLongValue("delay_ms"));
        }
        if (given.containsKey("deliver_ms")) {
            message.setDeliverTimeMs(given.getLongValue("deliver_ms"));
        }
        JSONObject properties = given.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, value) -> message.putUserProperty(name, value.toString()));
        }
        return message;
    }

    private static SendResult async(DefaultMQProducer producer, Message message) throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        AtomicReference<SendResult> sent = new AtomicReference<>();
        AtomicReference<Throwable> failed = new AtomicReference<>();
        producer.send(message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                sent.set(result);
                ended.countDown();
            }

            @Override
            public void onException(Throwable error) {
                failed.set(error);
                ended.countDown();
            }
        });
        if (!ended.await(15, TimeUnit.SECONDS)) {
            throw new IllegalStateException("an asynchronous send did not end");
        }
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
        return sent.get();
    }

    private static Map<String, Object> told(SendResult result) {
        Map<String, Object> told = new HashMap<>();
        told.put("status", result.getSendStatus().name());
        told.put("message_id", result.getMsgId());
        told.put("offset_message_id", result.getOffsetMsgId());
        told.put("broker", result.getMessageQueue().getBrokerName());
        told.put("queue", result.getMessageQueue().getQueueId());
        told.put("offset", result.getQueueOffset());
        return told;
    }

    private Sending() {}
}
