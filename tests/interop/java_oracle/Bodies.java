import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** What RocketMQ's body classes are made of, and what they become of a text. */
class Bodies {
    /** Name -> its type, with the names of an enum in their order. */
    static Object fields(String name) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Field field : declared(Class.forName(name))) {
            Class<?> type = field.getType();
            found.put(field.getName(), type.isEnum() ? names(type) : field.getGenericType().getTypeName());
        }
        return found;
    }

    /** "refused", or field by field what was read; by fastjson 1, as older versions, where `old`. */
    static Object read(String name, String json, boolean old) throws Exception {
        Class<?> type = Class.forName(name);
        try {
            return plain(old ? com.alibaba.fastjson.JSON.parseObject(json.getBytes(StandardCharsets.UTF_8), type)
                : RemotingSerializable.decode(json.getBytes(StandardCharsets.UTF_8), type));
        } catch (Throwable error) {
            return "refused";
        }
    }

    private static List<String> names(Class<?> type) {
        List<String> names = new ArrayList<>();
        for (Object each : type.getEnumConstants()) {
            names.add(((Enum<?>) each).name());
        }
        return names;
    }

    private static List<Field> declared(Class<?> type) {
        List<Field> fields = new ArrayList<>();
        for (; type != null && type.getName().startsWith("org.apache.rocketmq"); type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    fields.add(field);
                }
            }
        }
        return fields;
    }

    private static Object plain(Object value) throws Exception {
        if (value instanceof Enum) {
            return ((Enum<?>) value).name();
        }
        if (value instanceof Double) {
            return value.toString(); // no JSON has the infinite ones
        }
        if (value instanceof BitSet) {
            return Base64.getEncoder().encodeToString(((BitSet) value).toByteArray());
        }
        if (value instanceof Collection) {
            List<Object> all = new ArrayList<>();
            for (Object each : (Collection<?>) value) {
                all.add(plain(each));
            }
            return all;
        }
        if (value instanceof Map) {
            List<Object> all = new ArrayList<>();
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                all.add(List.of(named(each.getKey()), named(each.getValue())));
            }
            return all;
        }
        if (value == null || !value.getClass().getName().startsWith("org.apache.rocketmq")) {
            return value;
        }
        Map<String, Object> found = new LinkedHashMap<>();
        for (Field field : declared(value.getClass())) {
            found.put(field.getName(), plain(field.get(value)));
        }
        return found;
    }

    private static Object named(Object value) throws Exception {
        return value == null ? "(null)" : plain(value);
    }
}
