<?php
// enviar.php URL CHAVE   (PHP 8, extensão curl)
[, $url, $key] = $argv;

function post(string $url, string $key, string $body): array
{
    $call = curl_init($url);
    curl_setopt_array($call, [
        CURLOPT_POSTFIELDS => $body,
        CURLOPT_HTTPHEADER => ["X-Partner-Api-Key: $key", 'Content-Type: application/json'],
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 60,
    ]);
    $told = json_decode(curl_exec($call), true, flags: JSON_THROW_ON_ERROR);
    if (curl_getinfo($call, CURLINFO_RESPONSE_CODE) >= 300) {
        throw new RuntimeException("{$told['code']} em {$told['field']}: {$told['message']}");
    }
    return $told;
}

$found = post("$url/partners/v1/consultas", $key, file_get_contents('consulta.json'));
$offer = $found['proposals'][0];
$proposal = str_replace('<offerId>', $offer['offerId'], file_get_contents('proposta.json'));
echo post("$url/partners/v1/proposals", $key, $proposal)['proposal_id'], PHP_EOL;
