# Stands behind the Ruby of docs/webhooks.md: one case a line in, one verdict a line out.
require "json"

$stdin.each_line do |line|
  one = JSON.parse(line)
  body = one["body"].unpack1("m0")
  standard =
    begin
      verify(one["secret"], one["headers"], body)
      "ours"
    rescue ArgumentError
      "foreign"
    end
  puts "#{standard} #{verify_body(one["secret"], one["headers"]["x-service-signature"], body) ? "ours" : "foreign"}"
end
