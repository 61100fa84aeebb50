import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** What takes two: transactions by TransactionMQProducer, request() and its replies. */
final class Dialogue {
    private static final Map<String, Desk> DESKS = new HashMap<>();
    private static final Map<String, DefaultMQPushConsumer> REPLIERS = new HashMap<>();

    /** A transaction producer whose check says what it was last told to say. */
    private static final class Desk implements TransactionListener {
        final TransactionMQProducer producer;
        volatile LocalTransactionState local;
        volatile LocalTransactionState checked;
        final AtomicInteger asked = new AtomicInteger();

        Desk(String names, String group) throws Exception {
            producer = new TransactionMQProducer(group);
            producer.setInstanceName("desk-" + group);
            producer.setNamesrvAddr(names);
            producer.setSendMsgTimeout(60_000);
            producer.setTransactionListener(this);
            producer.start();
        }

        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return local;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            asked.incrementAndGet();
            return checked;
        }
    }

    /** {"names", "group", "topic", "body": base64, "local", "check"}: states by their first word, such as COMMIT. */
    static Map<String, ?> transact(JSONObject command) throws Exception {
        Desk desk = desk(command);
        desk.local = state(command.getString("local"));
        desk.checked = state(command.getString("check"));
        byte[] body = Base64.getDecoder().decode(command.getString("body"));
        Message message = new Message(command.getString("topic"), "vip", "key", body);
        TransactionSendResult result = desk.producer.sendMessageInTransaction(message, null);
        return Map.of("state", result.getLocalTransactionState().name(), "message_id", result.getMsgId());
    }

    /** {"names", "group", "check"}: be a member of the producer group; how often it was asked so far. */
    static Map<String, ?> checked(JSONObject command) throws Exception {
        Desk desk = desk(command);
        desk.checked = state(command.getString("check"));
        desk.producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
        return Map.of("asked", desk.asked.get());
    }

    /** {"names", "topic", "body": base64, "timeout_ms"}: the reply's body. */
    static Map<String, ?> request(JSONObject command) throws Exception {
        DefaultMQProducer producer = Sending.producer(command);
        byte[] body = Base64.getDecoder().decode(command.getString("body"));
        Message reply = producer.request(new Message(command.getString("topic"), body), command.getLongValue("timeout"));
        return Map.of("body", Base64.getEncoder().encodeToString(reply.getBody()));
    }

    /** {"names", "group", "topic"}: a consumer that replies to each message with its body behind "re: ". */
    static Map<String, ?> reply(JSONObject command) throws Exception {
        DefaultMQProducer producer = Sending.producer(command);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(command.getString("group"));
        consumer.setInstanceName("replier-" + command.getString("group"));
        consumer.setNamesrvAddr(command.getString("names"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(command.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    byte[] answer = ("re: " + new String(message.getBody())).getBytes();
                    producer.send(MessageUtil.createReplyMessage(message, answer), 3000);
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        REPLIERS.put(command.getString("group"), consumer);
        return Map.of();
    }

    /** {"names", "topic", "delay_ms"}: send a message for later and take it back; the id that the broker answers. */
    static Map<String, ?> recall(JSONObject command) throws Exception {
        DefaultMQProducer producer = Sending.producer(command);
        Message message = new Message(command.getString("topic"), "later".getBytes());
        message.setDelayTimeMs(command.getLongValue("delay_ms"));
        String handle = producer.send(message).getRecallHandle();
        return Map.of("message_id", producer.recallMessage(command.getString("topic"), handle));
    }

    /** {"names", "topic", "id"}: have a half message that was given up be asked about anew (323); whether it is. */
    static Map<String, ?> resume(JSONObject command) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setNamesrvAddr(command.getString("names"));
        admin.setInstanceName("resume-" + System.nanoTime());
        admin.start();
        try {
            return Map.of("resumed", admin.resumeCheckHalfMessage(command.getString("topic"), command.getString("id")));
        } finally {
            admin.shutdown();
        }
    }

    /** {"group"}: the replier of a group leaves. */
    static Map<String, ?> hush(JSONObject command) {
        REPLIERS.remove(command.getString("group")).shutdown();
        return Map.of();
    }

    private static Desk desk(JSONObject command) throws Exception {
        String group = command.getString("group");
        Desk desk = DESKS.get(group);
        if (desk == null) {
            desk = new Desk(command.getString("names"), group);
            DESKS.put(group, desk);
        }
        return desk;
    }

    private static LocalTransactionState state(String word) {
        List<LocalTransactionState> found = new ArrayList<>();
        for (LocalTransactionState each : LocalTransactionState.values()) {
            if (each.name().startsWith(word)) {
                found.add(each);
            }
        }
        return found.get(0);
    }

    private Dialogue() {}
}
