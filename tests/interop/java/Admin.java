import com.alibaba.fastjson2.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin, called where it lives instead of as a program: a JVM start a command would take five seconds. */
final class Admin {
    /** {"words": ["clusterList", ...]}: what the command printed on both its outputs. */
    static Map<String, ?> run(JSONObject command) throws Exception {
        String[] words = command.getList("words", String.class).toArray(new String[0]);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream into = new PrintStream(printed, true, StandardCharsets.UTF_8);
        PrintStream out = System.out;
        PrintStream err = System.err;
        System.setOut(into);
        System.setErr(into);
        try {
            toItsEnd(words);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return Map.of("printed", printed.toString(StandardCharsets.UTF_8));
    }

    private static void toItsEnd(String[] words) throws Exception {
        AtomicReference<Throwable> failed = new AtomicReference<>();
        Thread worker = new Thread(() -> MQAdminStartup.main0(words, null));
        worker.setUncaughtExceptionHandler((thread, error) -> failed.set(error));
        worker.start();
        for (worker.join(10); worker.isAlive(); worker.join(10)) {
            if (isClosing(worker)) {
                hurry();
            }
        }
        if (failed.get() != null) {
            throw new IllegalStateException(failed.get());
        }
    }

    private static boolean isClosing(Thread worker) {
        for (StackTraceElement frame : worker.getStackTrace()) {
            if (frame.getClassName().equals(NettyRemotingClient.class.getName()) && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    /**
     * A client that closes waits for a thread of its own which sleeps three seconds at a time and is not woken. Interrupted,
     * that thread looks whether it should end; those of other clients in this JVM look and sleep on.
     */
    private static void hurry() {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("NettyEventExecutor")) {
                thread.interrupt();
            }
        }
    }

    private Admin() {}
}
