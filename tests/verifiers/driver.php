
// Stands behind the PHP of docs/webhooks.md: one case a line in, one verdict a line out.
while (($line = fgets(STDIN)) !== false) {
    $one = json_decode($line, true, 16, JSON_THROW_ON_ERROR);
    $body = base64_decode($one['body'], true);
    try {
        verify($one['secret'], $one['headers'], $body);
        $standard = 'ours';
    } catch (InvalidArgumentException) {
        $standard = 'foreign';
    }
    $short = verify_body($one['secret'], $one['headers']['x-service-signature'] ?? null, $body);
    echo $standard, ' ', $short ? 'ours' : 'foreign', "\n";
}
