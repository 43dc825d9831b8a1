#!/bin/sh
# An agent in POSIX sh: `tooldispatchd run -- sh agent.sh`. A shell opens no Unix socket, but it inherits descriptors:
# requests go to 4, answers come from 5, and `run` has said hello. It reads JSON by matching text, which goes as far as it does because the daemon
# writes keys in the order of PROTOCOL.md, no white space between tokens, and a backslash before a quote in a string.
set -u
id=0

# say LINE
say() { printf '%s\n' "$1" >&4; }

# hear TEXT: the next line with that text in it, in $line. What is of no interest is passed over.
hear() {
    while IFS= read -r line <&5; do
        case $line in
            *"$1"*) return ;;
            *'"__port":"fault"'*) echo "$line" >&2; exit 1 ;;
        esac
    done
    echo 'the daemon closed the channel' >&2
    exit 1
}

# field NAME: that string of the fault in $content, in $field; empty where there is none, or no fault.
field() {
    field=${content#*\\\"$1\\\":\\\"}
    case $line in *'"fault":true'*) ;; *) field=$content ;; esac
    if [ "$field" = "$content" ]; then field=; else field=${field%%\\\"*}; fi
}

# call TOOL JSON: print its answer, with the escapes of JSON. It is made again only if nothing of the tool was begun,
# and after a fault that may pass.
call() {
    for wait_s in 1 2 ''; do
        id=$((id + 1))
        say '{"__port":"tool_req","id":"'"$id"'","name":"'"$1"'","input":'"$2"'}'
        hear '"__port":"tool_resp","id":"'"$id"'"'
        content=${line#*'"content":"'}
        content=${content%%'","is_error":'*}
        field ran
        if [ "$field" != no ] || [ -z "$wait_s" ]; then break; fi
        field error
        case $field in server_unavailable | queue_full | rate_limited | too_many | draining) ;; *) break ;; esac
        sleep "$wait_s"
    done
    field error
    code=$field
    field did_you_mean
    if [ "$code" = unknown_tool ] && [ -n "$field" ]; then
        echo "$1: there is no such tool; trying $field"
        call "$field" "$2"
        return
    fi
    case $line in
        *'"is_error":true'*) echo "$1: error: ${code:-$content}" ;;
        *) echo "$1: $content" ;;
    esac
}

say '{"__port":"tools"}'
hear '"__port":"tools"'
tools=tools:
rest=$line
while [ "$rest" != "${rest#*'{"name":"'}" ]; do
    rest=${rest#*'{"name":"'}
    tools="$tools ${rest%%\"*}"
done
echo "$tools"
call echo '"hello"'
call gret '{"name":"Ada"}'
call greet '{"nom":"Ada"}'
say '{"__port":"bye"}'
hear '"__port":"bye"'
