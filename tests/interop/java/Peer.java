import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/**
 * The other side in interop tests: RocketMQ's own admin tool, producer and push consumer in one JVM that starts once.
 *
 * A command is one line of JSON on standard input, its answer one line on standard output: {"ok": true, ...} or {"ok":
 * false, "error": stack trace}. Commands run one after the other; consumers work on in the background. The end of the
 * input ends the JVM.
 */
public final class Peer {
    private static final PrintStream ANSWERS = System.out;

    public static void main(String[] arguments) throws Exception {
        // Nothing but answers may stand on the standard output: libraries print there too.
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = commands.readLine()) != null) {
            Map<String, Object> answer = new TreeMap<>();
            try {
                answer.putAll(run(JSON.parseObject(line)));
                answer.put("ok", true);
            } catch (Throwable error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer.put("ok", false);
                answer.put("error", trace.toString());
            }
            ANSWERS.println(JSON.toJSONString(answer, JSONWriter.Feature.BrowserCompatible));
            ANSWERS.flush();
        }
        // Clients leave threads behind that keep a JVM alive, even after an orderly shutdown.
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, ?> run(JSONObject command) throws Exception {
        switch (command.getString("do")) {
            case "ping":
                return Map.of();
            case "admin":
                return Admin.run(command);
            case "send":
                return Sending.send(command);
            case "fill":
                return Sending.fill(command);
            case "transact":
                return Dialogue.transact(command);
            case "checked":
                return Dialogue.checked(command);
            case "request":
                return Dialogue.request(command);
            case "reply":
                return Dialogue.reply(command);
            case "recall":
                return Dialogue.recall(command);
            case "resume":
                return Dialogue.resume(command);
            case "hush":
                return Dialogue.hush(command);
            case "offsets":
                return Asking.offsets(command);
            case "pull":
                return Asking.pull(command);
            case "queues":
                return Receiving.queues(command);
            case "pop":
                return Popping.pop(command);
            case "lite":
                return LitePulling.pull(command);
            case "consume":
                return Receiving.start(command);
            case "received":
                return Receiving.received(command);
            case "share":
                return Receiving.share(command);
            case "leave":
                return Receiving.leave(command);
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private Peer() {}
}
