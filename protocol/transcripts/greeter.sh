# The smallest MCP server over stdio: two tools, `greet`, which answers, and `leave`, at which the server is gone.

tools='[{"name":"greet","description":"Say hello.","inputSchema":{"type":"object"}},
{"name":"leave","description":"End the server.","inputSchema":{"type":"object"}}]'

while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case $line in
    *'"initialize"'*)
        result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"greeter","version":"1"}}'
        ;;
    *'"tools/list"'*) result="{\"tools\":$(echo "$tools" | tr -d '\n')}" ;;
    *'"leave"'*) exit 0 ;;
    *'"greet"'*) result='{"content":[{"type":"text","text":"hello"}]}' ;;
    *'"id"'*)
        # Clients of several revisions ask first which one is spoken here, and wait for an answer.
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}\n' "$id"
        continue
        ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
