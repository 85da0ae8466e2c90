<?php
// receber.php   (SEGREDOS no ambiente; um servidor o chama, aqui `php -S 127.0.0.1:PORTA receber.php`)

function is_genuine(array $headers, string $body): bool
{
    $sentAt = $headers['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!preg_match('/^\d{1,11}$/D', $sentAt) || abs(time() - (int) $sentAt) > 300) {
        return false;
    }
    $signed = ($headers['HTTP_WEBHOOK_ID'] ?? '') . ".$sentAt.$body";
    foreach (explode(' ', getenv('SEGREDOS')) as $secret) {
        $key = base64_decode(str_replace('whsec_', '', $secret));
        $expected = 'v1,' . base64_encode(hash_hmac('sha256', $signed, $key, true));
        foreach (explode(' ', $headers['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
            if (hash_equals($expected, $given)) {
                return true;
            }
        }
    }
    return false;
}

// Verdadeiro também se o evento já estava guardado.
function keep(string $id, string $body): bool
{
    if (!is_dir('eventos')) {
        @mkdir('eventos');
    }
    $draft = tempnam('eventos', 'novo');
    $isWritten = file_put_contents($draft, $body) === strlen($body);
    $isKept = $isWritten && (@link($draft, "eventos/$id.json") || file_exists("eventos/$id.json"));
    unlink($draft);
    return $isKept;
}

$body = file_get_contents('php://input');
http_response_code(!is_genuine($_SERVER, $body) ? 401 : (keep($_SERVER['HTTP_WEBHOOK_ID'], $body) ? 204 : 500));
