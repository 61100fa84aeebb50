import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * The peer: a DefaultMQProducer that sends as ours does.
 *
 * Arguments: name servers, topic, mode, how many messages, bytes of a body, how many at once. Prints one line of JSON when all
 * are sent and answered.
 */
public final class ProduceBench {
    private static final int BATCH = 100;
    private static final AtomicReference<Throwable> FAILED = new AtomicReference<>();

    public static void main(String[] arguments) throws Exception {
        String mode = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        DefaultMQProducer producer = new DefaultMQProducer("benchmark");
        producer.setNamesrvAddr(arguments[0]);
        producer.setSendMsgTimeout(10_000);
        if (mode.equals("accumulated")) {
            producer.setAutoBatch(true);
            producer.batchMaxDelayMs(10);
        }
        producer.start();
        byte[] body = new byte[Integer.parseInt(arguments[4])];
        Arrays.fill(body, (byte) 'x');
        int inFlight = Integer.parseInt(arguments[5]);
        int warm = count / 10 / BATCH * BATCH;
        send(producer, arguments[1], mode, warm, body, inFlight);
        long first = System.nanoTime();
        send(producer, arguments[1], mode, count, body, inFlight);
        long last = System.nanoTime();
        System.out.printf("{\"sent\": %d, \"first_ns\": %d, \"last_ns\": %d}%n", warm + count, first, last);
        System.out.flush();
        Thread.sleep(1_000);
        producer.shutdown();
    }

    private static void send(DefaultMQProducer producer, String topic, String mode, int count, byte[] body, int inFlight)
        throws Exception {
        switch (mode) {
            case "batch":
                for (int i = 0; i < count / BATCH; i++) {
                    List<Message> batch = new ArrayList<>();
                    for (int j = 0; j < BATCH; j++) {
                        batch.add(new Message(topic, body));
                    }
                    producer.send(batch);
                }
                break;
            case "single":
                for (int i = 0; i < count; i++) {
                    producer.send(new Message(topic, body));
                }
                break;
            case "one-way":
                for (int i = 0; i < count; i++) {
                    producer.sendOneway(new Message(topic, body));
                }
                break;
            default:
                atOnce(producer, topic, count, body, inFlight);
        }
        if (FAILED.get() != null) {
            FAILED.get().printStackTrace();
            System.exit(1);
        }
    }

    private static void atOnce(DefaultMQProducer producer, String topic, int count, byte[] body, int inFlight)
        throws Exception {
        Semaphore places = new Semaphore(inFlight);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                places.release();
            }

            @Override
            public void onException(Throwable error) {
                FAILED.set(error);
                places.release();
            }
        };
        for (int i = 0; i < count; i++) {
            places.acquire();
            producer.send(new Message(topic, body), callback);
        }
        places.acquire(inFlight);
    }
}
