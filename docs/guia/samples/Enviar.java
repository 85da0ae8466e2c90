// Enviar.java URL CHAVE   (Java 17 ou mais novo; sem biblioteca de JSON, o campo é procurado no texto)
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.regex.Pattern;

public class Enviar {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    static String post(String url, String key, String body) throws Exception {
        HttpRequest call = HttpRequest.newBuilder(URI.create(url))
                .header("X-Partner-Api-Key", key)
                .header("Content-Type", "application/json")
                .timeout(Duration.ofSeconds(60))
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        HttpResponse<String> answer = CLIENT.send(call, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new IllegalStateException(text(answer.body(), "code") + ": " + text(answer.body(), "message"));
        }
        return answer.body();
    }

    static String text(String json, String field) {
        var found = Pattern.compile('"' + field + "\"\\s*:\\s*\"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : "";
    }

    public static void main(String[] args) throws Exception {
        String api = args[0] + "/partners/v1";
        String found = post(api + "/consultas", args[1], Files.readString(Path.of("consulta.json")));
        String proposal = Files.readString(Path.of("proposta.json")).replace("<offerId>", text(found, "offerId"));
        System.out.println(text(post(api + "/proposals", args[1], proposal), "proposal_id"));
    }
}
