import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/**
 * A Spring Boot application as rocketmq-spring's starter makes it: a template, two listeners, a transaction listener.
 *
 * A command is one line on standard input, `HOW TOPIC TEXT [MORE]`, its answer one line of JSON on standard output.
 */
@EnableAutoConfiguration
public class SpringPeer {
    private static final PrintStream ANSWERS = System.out;
    private static final LinkedBlockingQueue<String> RECEIVED = new LinkedBlockingQueue<>();
    private static final long TIMEOUT_MS = 20_000;

    /** The end that `transaction` was told for its local one; the check says the second. */
    private static volatile RocketMQLocalTransactionState local;
    private static volatile RocketMQLocalTransactionState checked;

    @RocketMQMessageListener(topic = "${peer.topic}", consumerGroup = "${peer.group}")
    public static class Reader implements RocketMQListener<String> {
        @Override
        public void onMessage(String text) {
            RECEIVED.add(text);
        }
    }

    @RocketMQMessageListener(topic = "${peer.asked}", consumerGroup = "${peer.group}-asked")
    public static class Replier implements RocketMQReplyListener<String, String> {
        @Override
        public String onMessage(String text) {
            return "spring: " + text;
        }
    }

    @RocketMQTransactionListener
    public static class Local implements RocketMQLocalTransactionListener {
        @Override
        public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return local;
        }

        @Override
        public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
            return checked;
        }
    }

    @Bean
    public Reader reader() {
        return new Reader();
    }

    @Bean
    public Replier replier() {
        return new Replier();
    }

    @Bean
    public Local local() {
        return new Local();
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);  // nothing but answers may stand on the standard output
        SpringApplication application = new SpringApplication(SpringPeer.class);
        application.setWebApplicationType(WebApplicationType.NONE);
        ConfigurableApplicationContext context = application.run(arguments);
        RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
        ObjectMapper json = new ObjectMapper();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = commands.readLine()) != null) {
            Map<String, Object> answer = new TreeMap<>();
            try {
                answer.put("answer", run(template, line.split(" ")));
            } catch (Throwable error) {
                error.printStackTrace();
                answer.put("error", error.toString());
            }
            ANSWERS.println(json.writeValueAsString(answer));
            ANSWERS.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Object run(RocketMQTemplate template, String[] words) throws Exception {
        String topic = words[1];
        String text = words[2];
        switch (words[0]) {
            case "sync":
                return place(template.syncSend(topic, text));
            case "async":
                CompletableFuture<Object> done = new CompletableFuture<>();
                template.asyncSend(topic, text, new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        done.complete(place(result));
                    }

                    @Override
                    public void onException(Throwable error) {
                        done.completeExceptionally(error);
                    }
                });
                return done.get(TIMEOUT_MS, TimeUnit.MILLISECONDS);
            case "one-way":
                template.sendOneWay(topic, text);
                return "";
            case "ordered":
                return place(template.syncSendOrderly(topic, text, words[3]));
            case "batch":
                List<Message<String>> batch = new ArrayList<>();
                for (String each : text.split(",")) {
                    batch.add(MessageBuilder.withPayload(each).build());
                }
                return place(template.syncSend(topic, batch, TIMEOUT_MS));
            case "level":
                return place(template.syncSend(
                        topic, MessageBuilder.withPayload(text).build(), TIMEOUT_MS, Integer.parseInt(words[3])));
            case "delay":
                return place(template.syncSendDelayTimeMills(topic, text, Long.parseLong(words[3])));
            case "request":
                return template.sendAndReceive(topic, text, String.class, TIMEOUT_MS);
            case "transaction":
                local = RocketMQLocalTransactionState.valueOf(words[3]);
                checked = RocketMQLocalTransactionState.valueOf(words[4]);
                TransactionSendResult result =
                        template.sendMessageInTransaction(topic, MessageBuilder.withPayload(text).build(), null);
                return result.getLocalTransactionState().name();
            case "received":
                List<String> received = new ArrayList<>();
                long until = System.currentTimeMillis() + Long.parseLong(text);
                while (received.size() < Integer.parseInt(words[3]) && System.currentTimeMillis() < until) {
                    String next = RECEIVED.poll(100, TimeUnit.MILLISECONDS);
                    if (next != null) {
                        received.add(next);
                    }
                }
                return received;
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private static String place(SendResult result) {
        return result.getSendStatus() + " " + result.getMessageQueue().getQueueId();
    }
}
