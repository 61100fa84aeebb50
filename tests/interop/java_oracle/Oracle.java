import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.parser.SelectorParser;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/** Answers what RocketMQ's own pure classes answer: one JSON question a line on stdin, one JSON answer a line on stdout. */
public class Oracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever logs to stdout must not stand between the answers
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JSONObject question = JSON.parseObject(line);
            answers.println(JSON.toJSONString(answer(question), JSONWriter.Feature.WriteNulls));
        }
    }

    private static Object answer(JSONObject question) throws Exception {
        if (question.containsKey("fields")) {
            return Bodies.fields(question.getString("fields"));
        }
        if (question.containsKey("body")) {
            return Bodies.read(question.getString("body"), question.getString("json"), question.getBooleanValue("old"));
        }
        if (question.containsKey("header")) {
            return read(question.getString("header").getBytes(StandardCharsets.UTF_8));
        }
        return question.containsKey("sql") ? filtered(question) : allocated(question);
    }

    /** What RocketMQ reads in a JSON header, or "refused". */
    private static Object read(byte[] header) {
        ByteBuffer frame = ByteBuffer.allocate(4 + header.length);
        frame.putInt(RemotingCommand.markProtocolType(header.length, SerializeType.JSON)).put(header).flip();
        RemotingCommand command;
        try {
            command = RemotingCommand.decode(frame);
        } catch (Throwable error) {
            return "refused";
        }
        if (command == null) {
            return "refused";
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("code", command.getCode());
        answer.put("language", command.getLanguage() == null ? null : command.getLanguage().name());
        answer.put("version", command.getVersion());
        answer.put("opaque", command.getOpaque());
        answer.put("flag", command.getFlag());
        answer.put("remark", command.getRemark());
        answer.put("fields", command.getExtFields());
        return answer;
    }

    /** "refused", or for each message "true", "false", "unknown" or "throws". */
    private static Object filtered(JSONObject question) {
        Expression expression;
        try {
            expression = SelectorParser.parse(question.getString("sql"));
        } catch (Exception error) {
            return "refused";
        }
        List<String> results = new ArrayList<>();
        for (Object message : question.getJSONArray("messages")) {
            results.add(evaluated(expression, (JSONObject) message));
        }
        return results;
    }

    private static String evaluated(Expression expression, JSONObject properties) {
        try {
            Object value = expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.getString(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            });
            return value == null ? "unknown" : value.toString();
        } catch (Exception error) {
            return "throws";
        }
    }

    /** The places, on the list of queues, of those that each member owns. */
    private static Object allocated(JSONObject question) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object each : question.getJSONArray("queues")) {
            JSONArray queue = (JSONArray) each;
            queues.add(new MessageQueue(queue.getString(0), queue.getString(1), queue.getIntValue(2)));
        }
        List<String> members = question.getList("members", String.class);
        AllocateMessageQueueStrategy strategy = strategy(question.getString("strategy"), question);
        List<List<Integer>> shares = new ArrayList<>();
        for (String member : members) {
            List<Integer> share = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("group", member, queues, members)) {
                share.add(queues.indexOf(queue));
            }
            shares.add(share);
        }
        return shares;
    }

    private static AllocateMessageQueueStrategy strategy(String name, JSONObject question) {
        switch (name) {
            case "averaging":
                return new AllocateMessageQueueAveragely();
            case "circle":
                return new AllocateMessageQueueAveragelyByCircle();
            case "consistent_hash":
                return new AllocateMessageQueueConsistentHash(question.getIntValue("virtual_nodes"));
            case "machine_room":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new HashSet<>(question.getList("rooms", String.class)));
                return room;
            case "nearby":
                return new AllocateMachineRoomNearby(strategy(question.getString("over"), question),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override
                        public String brokerDeployIn(MessageQueue queue) {
                            return queue.getBrokerName().split("-")[0];
                        }

                        @Override
                        public String consumerDeployIn(String clientId) {
                            return clientId.split("-")[0];
                        }
                    });
            default:
                throw new IllegalArgumentException("no strategy " + name);
        }
    }
}
