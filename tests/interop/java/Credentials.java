import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Who a client is, where a command says so: {"user": {"name", "password"}}. */
final class Credentials {
    /** What signs each request, or null. */
    static RPCHook hook(JSONObject command) {
        JSONObject user = command.getJSONObject("user");
        return user == null
            ? null
            : new AclClientRPCHook(new SessionCredentials(user.getString("name"), user.getString("password")));
    }

    private Credentials() {}
}
