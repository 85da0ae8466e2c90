// Receber.java PORTA   (SEGREDOS no ambiente; Java 17 ou mais novo)
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.UUID;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receber {
    private static final String[] SECRETS = System.getenv("SEGREDOS").split(" ");

    static String header(HttpExchange call, String name) {
        String value = call.getRequestHeaders().getFirst(name);
        return value == null ? "" : value;
    }

    static String signature(String secret, String start, byte[] body) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.replace("whsec_", "")), "HmacSHA256"));
        mac.update(start.getBytes());
        return "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
    }

    static boolean isGenuine(HttpExchange call, byte[] body) throws GeneralSecurityException {
        String sentAt = header(call, "webhook-timestamp");
        if (!sentAt.matches("[0-9]{1,11}")) return false;
        if (Math.abs(System.currentTimeMillis() / 1000 - Long.parseLong(sentAt)) > 300) return false;
        String start = header(call, "webhook-id") + "." + sentAt + ".";
        for (String secret : SECRETS) {
            byte[] expected = signature(secret, start, body).getBytes();
            for (String given : header(call, "webhook-signature").split(" ")) {
                if (MessageDigest.isEqual(expected, given.getBytes())) return true;
            }
        }
        return false;
    }

    static void keep(String id, byte[] body) throws IOException {
        Path draft = Path.of("eventos", UUID.randomUUID() + ".tmp");
        try {
            Files.write(draft, body, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, StandardOpenOption.SYNC);
            Files.createLink(Path.of("eventos", id + ".json"), draft);
            System.out.println("novo " + id);
        } catch (FileAlreadyExistsException already) {
            // uma repetição
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    static int status(HttpExchange call) {
        try {
            byte[] body = call.getRequestBody().readAllBytes();
            if (!isGenuine(call, body)) return 401;
            keep(header(call, "webhook-id"), body);
            return 204;
        } catch (IOException | GeneralSecurityException fault) {
            return 500;
        }
    }

    public static void main(String[] args) throws IOException {
        Files.createDirectories(Path.of("eventos"));
        HttpServer server = HttpServer.create(new InetSocketAddress(Integer.parseInt(args[0])), 0);
        server.createContext("/", call -> {
            call.sendResponseHeaders(status(call), -1);
            call.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
    }
}
