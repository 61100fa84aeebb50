import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Members of groups by DefaultMQPushConsumer, each noting what it was given. */
final class Receiving {
    private static final Map<Integer, Receiving> MEMBERS = new HashMap<>();
    private static int started = 0;

    private final BlockingQueue<Map<String, Object>> seen = new LinkedBlockingQueue<>();
    private final DefaultMQPushConsumer consumer;
    private final int failures;

    /**
     * {"names", "group", "topic", "tags" or "sql", "orderly", "broadcast", "divided_by_broker", "strategy" or none, "queues" for
     * by_config, "namespace" and "user" or none, "failures": attempts of each message that fail}
     */
    static Map<String, ?> start(JSONObject command) throws Exception {
        Receiving member = new Receiving(command);
        int number = ++started;
        member.consumer.setInstanceName("member-" + number);
        member.consumer.start();
        MEMBERS.put(number, member);
        return Map.of("member", number);
    }

    /** {"member", "count", "timeout_ms"}: what was handed to it since the last call, as soon as that is `count` messages. */
    static Map<String, ?> received(JSONObject command) throws Exception {
        Receiving member = MEMBERS.get(command.getIntValue("member"));
        int count = command.getIntValue("count");
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(command.getLongValue("timeout_ms"));
        List<Map<String, Object>> messages = new ArrayList<>();
        while (messages.size() < count) {
            Map<String, Object> next = member.seen.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            if (next == null) {
                break;
            }
            messages.add(next);
        }
        return Map.of("messages", messages);
    }

    /**
     * {"member", "topic"}: what it owns of the topic, and what its strategy makes of what it knows: the share of each
     * member that a broker lists.
     */
    static Map<String, ?> share(JSONObject command) {
        Receiving member = MEMBERS.get(command.getIntValue("member"));
        DefaultMQPushConsumerImpl inside = member.consumer.getDefaultMQPushConsumerImpl();
        String topic = command.getString("topic");
        String group = member.consumer.getConsumerGroup();
        List<MessageQueue> owned = new ArrayList<>();
        inside.getRebalanceImpl().getProcessQueueTable().forEach((queue, process) -> {
            if (queue.getTopic().equals(topic) && !process.isDropped()) {
                owned.add(queue);
            }
        });
        List<MessageQueue> queues = new ArrayList<>(inside.getRebalanceImpl().getTopicSubscribeInfoTable().get(topic));
        Collections.sort(queues);
        List<String> members = new ArrayList<>(inside.getmQClientFactory().findConsumerIdList(topic, group));
        Collections.sort(members);
        Map<String, Object> shares = new HashMap<>();
        for (String each : members) {
            shares.put(each, numbers(
                member.consumer.getAllocateMessageQueueStrategy().allocate(group, each, queues, members)));
        }
        return Map.of("client", inside.getmQClientFactory().getClientId(), "owned", numbers(owned), "shares", shares);
    }

    /** {"member", "topic"}: the numbers of the queues that its routes show it. */
    static Map<String, ?> queues(JSONObject command) throws Exception {
        DefaultMQPushConsumer consumer = MEMBERS.get(command.getIntValue("member")).consumer;
        return Map.of("queues", numbers(new ArrayList<>(consumer.fetchSubscribeMessageQueues(command.getString("topic")))));
    }

    private static List<Integer> numbers(List<MessageQueue> queues) {
        return queues.stream().map(MessageQueue::getQueueId).sorted().collect(Collectors.toList());
    }

    private static AllocateMessageQueueStrategy byConfig(JSONObject command) {
        AllocateMessageQueueByConfig fixed = new AllocateMessageQueueByConfig();
        fixed.setMessageQueueList(command.getList("queues", Integer.class).stream()
            .map(number -> new MessageQueue(command.getString("topic"), "broker-a", number))
            .collect(Collectors.toList()));
        return fixed;
    }

    private static AllocateMessageQueueStrategy strategy(String name) {
        switch (name) {
            case "averaging":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "consistent_hash":
                return new AllocateMessageQueueConsistentHash();
            case "machine_room":
                AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
                rooms.setConsumeridcs(Set.of("east"));
                return rooms;
            case "nearby":
                return new AllocateMachineRoomNearby(strategy("circle"),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override
                        public String brokerDeployIn(MessageQueue queue) {
                            return "ours";
                        }

                        @Override
                        public String consumerDeployIn(String client) {
                            return client.contains("#") ? "ours" : "theirs";
                        }
                    });
            default:
                throw new IllegalArgumentException("no strategy " + name);
        }
    }

    /** {"member"}: an orderly shutdown, after which the group goes on without it; what it noted can still be asked for. */
    static Map<String, ?> leave(JSONObject command) {
        MEMBERS.get(command.getIntValue("member")).consumer.shutdown();
        return Map.of();
    }

    private Receiving(JSONObject command) throws Exception {
        failures = command.getIntValue("failures");
        consumer = new DefaultMQPushConsumer(command.getString("group"), Credentials.hook(command));
        consumer.setNamesrvAddr(command.getString("names"));
        consumer.setNamespace(command.getString("namespace"));
        consumer.setVipChannelEnabled(command.getBooleanValue("vip"));
        consumer.setMqClientApiTimeout(60_000);
        consumer.setEnableTrace(command.getBooleanValue("traced"));
        if (!command.getBooleanValue("as_shipped")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        }
        // As shipped, a group's retry topic, which is made when its first member joins, is found half a minute later.
        consumer.setPollNameServerInterval(1000);
        // Nor does its broker know a member before that whose first heartbeat found another one under way.
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setClientRebalance(!command.getBooleanValue("divided_by_broker"));
        if (command.getBooleanValue("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (command.containsKey("strategy")) {
            String name = command.getString("strategy");
            consumer.setAllocateMessageQueueStrategy(name.equals("by_config") ? byConfig(command) : strategy(name));
        }
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        if (command.containsKey("sql")) {
            consumer.subscribe(command.getString("topic"), MessageSelector.bySql(command.getString("sql")));
        } else {
            consumer.subscribe(command.getString("topic"), command.getString("tags"));
        }
        if (command.getBooleanValue("orderly")) {
            consumer.setMessageListener((MessageListenerOrderly) (messages, context) ->
                note(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.setMessageListener((MessageListenerConcurrently) (messages, context) ->
                note(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
    }

    private boolean note(List<MessageExt> messages) {
        boolean good = true;
        for (MessageExt message : messages) {
            Map<String, Object> noted = new HashMap<>();
            noted.put("topic", message.getTopic());
            noted.put("body", Base64.getEncoder().encodeToString(message.getBody()));
            noted.put("message_id", message.getMsgId());
            noted.put("broker", message.getBrokerName());
            noted.put("at_ms", System.currentTimeMillis());
            noted.put("queue", message.getQueueId());
            noted.put("offset", message.getQueueOffset());
            noted.put("reconsumed", message.getReconsumeTimes());
            noted.put("properties", message.getProperties());
            seen.add(noted);
            good &= message.getReconsumeTimes() >= failures;
        }
        return good;
    }
}
